// Package controlpb is the generated code of the two services of the control plane: Control, which ranks call, and
// Switch, which a switch in another process offers. The comments are in control.proto.
package controlpb

//go:generate ../../../scripts/generate-proto
