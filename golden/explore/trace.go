package explore

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Trace is how a state came about, from the start.
type Trace struct {
	Steps  int
	Lines  []string // what happened, a line a step, and indented what was sent
	Stuck  string   // where each node stands in the end
	Frames []TraceFrame
}

// TraceFrame is a frame that arrives in a trace.
type TraceFrame struct {
	Step    int    // counted from 1
	Channel string // "from -> to"
	Bytes   []byte
}

// WritePcap writes the frames that arrive as pcapng, an interface a channel, a millisecond a step; of no trace, none.
func (t *Trace) WritePcap(out io.Writer) error {
	w := capture.NewWriter(out, "epic check")
	if t == nil {
		return w.Flush()
	}
	for _, f := range t.Frames {
		if err := w.Write(f.Channel, time.Duration(f.Step)*time.Millisecond, f.Bytes); err != nil {
			return err
		}
	}
	return w.Flush()
}

// String is the lines.
func (t *Trace) String() string { return strings.Join(t.Lines, "\n") + "\n" }

// trace goes back from a state to the start, and forward again step by step. last is one more step, that must not happen.
func (s *search) trace(n uint32, last *found) *Trace {
	var path []step
	for n != 0 {
		from, why := s.seen.came(n)
		path = append([]step{why}, path...)
		n = from
	}
	if last != nil {
		path = append(path, last.step)
	}
	t := &Trace{Steps: len(path)}
	states := make([]uint32, s.nodes)
	for i := range states {
		states[i] = s.node(s.model.start, i)
	}
	for k, p := range path {
		t.Lines = append(t.Lines, fmt.Sprintf("%3d  %s", k+1, s.describe(states, p)))
		if p.fate.kind() == isLost {
			continue
		}
		node := int(p.node)
		if !p.why.own() {
			c := s.channels[p.why.channel()]
			t.Frames = append(t.Frames, TraceFrame{k + 1, c.name, c.frames[p.why.n()].pkt.Encode()})
		}
		m := s.move(node, states[node], p.why)
		for _, x := range m.sends {
			c := s.channels[x.channel]
			t.Lines = append(t.Lines, fmt.Sprintf("       sends to %s: %s", s.automata[c.to].name, text(c.frames[x.frame].pkt)))
		}
		if m.err != nil {
			t.Lines = append(t.Lines, "       "+m.err.Error())
		}
		states[node] = m.to
	}
	var where []string
	for i, st := range states {
		where = append(where, s.local(i, st).machine.describe())
	}
	t.Stuck = strings.Join(where, "; ")
	return t
}

func (s *search) describe(states []uint32, p step) string {
	name := s.automata[p.node].name
	if p.why.own() {
		return fmt.Sprintf("%s: %s", name, s.local(int(p.node), states[p.node]).own[p.why.n()].text)
	}
	c := s.channels[p.why.channel()]
	return fmt.Sprintf("%s: from %s %s: %s", name, s.automata[c.from].name, p.fate, text(c.frames[p.why.n()].pkt))
}

// text is a frame in few words.
func text(p *roce.Packet) string {
	s := fmt.Sprintf("%v psn %v", p.Opcode, p.PSN)
	switch {
	case !p.HasAETH():
		if p.AckReq {
			s += " AckReq"
		}
	case p.Syndrome == spec.SyndromeAck:
		s += fmt.Sprintf(" ACK msn %d", p.MSN)
	case p.Syndrome == spec.SyndromeNakSequence:
		s += " NAK"
	case p.Syndrome>>5 == spec.SyndromeRNR>>5:
		s += " RNR NAK"
	default:
		s += fmt.Sprintf(" syndrome %#02x", p.Syndrome)
	}
	return s
}
