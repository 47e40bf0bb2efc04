// Package explore is a model checker: it visits every state that golden engines and golden hosts, joined by channels that
// lose, duplicate and reorder, can come to, and says whether what must hold does (protocol.md 8). The protocol is not
// written down again: a transition is a call of golden/engine or golden/host.
//
// A node is a deterministic machine, and in a run it is in few states compared with the whole. So each node is an
// automaton that is unfolded as far as the search needs it: its states and the frames on its channels have numbers, and
// a transition is computed once, by cloning the node and stepping it. A state of the whole is a few numbers, and the
// search over them never touches a node. That is where the speed comes from; golden stays plain.
//
// Files: model.go makes the nodes and channels of a configuration, machine.go wraps engines and ranks, automaton.go
// unfolds one, channel.go says what a channel may do with frames, visited.go remembers states, search.go goes
// breadth-first over them (merged.go, exact.go), resume.go and exact.go look for states from which the end cannot be
// reached, trace.go tells how a violation comes about.
package explore
