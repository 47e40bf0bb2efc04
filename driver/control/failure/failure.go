// Package failure is how the errors of the control plane travel: a kind by which a program decides, the ranks at fault,
// and a sentence for the reader.
package failure

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/epic-inc/epic/driver/control/controlpb"
)

// Error is why a call failed or a job ended.
type Error struct {
	Kind    controlpb.Kind
	Ranks   []int // whom it is about
	Message string
}

// ErrLost says that the control plane does not answer.
var ErrLost = errors.New("does not answer")

// New makes an Error about ranks.
func New(kind controlpb.Kind, ranks []int, format string, args ...any) *Error {
	return &Error{kind, ranks, fmt.Sprintf(format, args...)}
}

// Error is the sentence.
func (e *Error) Error() string { return e.Message }

// Culprits are the ranks that the error is about.
func (e *Error) Culprits() []int { return e.Ranks }

// OfOthers says whether what failed is another rank or a switch, rather than what the caller asked for.
func (e *Error) OfOthers() bool {
	switch e.Kind {
	case controlpb.Kind_KIND_DUPLICATE_RANK, controlpb.Kind_KIND_DISAGREE, controlpb.Kind_KIND_MISSING_RANK,
		controlpb.Kind_KIND_LEASE_LOST, controlpb.Kind_KIND_SWITCH_LOST, controlpb.Kind_KIND_FAULT,
		controlpb.Kind_KIND_DESTROYED, controlpb.Kind_KIND_LEFT:
		return true
	}
	return false
}

// GRPCStatus is the error as gRPC sends it.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(codeOf(e.Kind), e.Message)
	if with, err := st.WithDetails(e.Proto()); err == nil {
		return with
	}
	return st
}

func codeOf(k controlpb.Kind) codes.Code {
	switch k {
	case controlpb.Kind_KIND_BAD_REQUEST:
		return codes.InvalidArgument
	case controlpb.Kind_KIND_DUPLICATE_RANK:
		return codes.AlreadyExists
	case controlpb.Kind_KIND_MISSING_RANK:
		return codes.DeadlineExceeded
	case controlpb.Kind_KIND_NO_RESOURCE:
		return codes.ResourceExhausted
	case controlpb.Kind_KIND_UNKNOWN:
		return codes.NotFound
	}
	return codes.FailedPrecondition
}

// Proto is the error as a message.
func (e *Error) Proto() *controlpb.Failure {
	f := &controlpb.Failure{Kind: e.Kind, Message: e.Message}
	for _, r := range e.Ranks {
		f.Ranks = append(f.Ranks, uint32(r))
	}
	return f
}

// FromProto is the error of a message; nil of none.
func FromProto(f *controlpb.Failure) *Error {
	if f == nil {
		return nil
	}
	e := &Error{Kind: f.Kind, Message: f.Message}
	for _, r := range f.Ranks {
		e.Ranks = append(e.Ranks, int(r))
	}
	return e
}

// FromStatus finds the Error in what a gRPC call returned; false if it is another error, of the connection for
// instance.
func FromStatus(err error) (*Error, bool) {
	for _, d := range status.Convert(err).Details() {
		if f, ok := d.(*controlpb.Failure); ok {
			return FromProto(f), true
		}
	}
	return nil, false
}

// Is says whether err is an Error of a kind.
func Is(err error, kind controlpb.Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}
