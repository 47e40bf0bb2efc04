package engine

import (
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// window is what the last control signal opened (protocol.md 10). A pinned pipe has only op and dtype, its own.
type window struct {
	start   psn.PSN // first psn that may start a slot
	control psn.PSN // the last: that of the next control signal
	op      spec.Op
	dtype   spec.DType
}

// mayStart: a slot of psn k may start.
func (e *Engine) mayStart(p int, k psn.PSN) bool {
	w := &e.pipes[p].window
	return !e.cfg.Pipes[p].Unpinned || e.space.Sub(k, w.start) >= 0 && e.space.Sub(w.control, k) >= 0
}

// refusesSignal returns why a pipe does not take what should be the first control signal, kind none if it does.
func (e *Engine) refusesSignal(p int, pkt *roce.Packet) Fault {
	c := &e.cfg.Pipes[p]
	s, f := signalOf(pkt)
	root, flags := uint16(0), uint8(0)
	if s.Type == spec.CollTypeReduce || s.Type == spec.CollTypeBroadcast {
		root = uint16(c.Root)
	}
	if c.Reproducible {
		flags = spec.ControlReproducible
	}
	switch {
	case f.Kind != spec.ErrorKindNone:
		return f
	case s.Type != c.Coll && !(s.Type == spec.CollTypeBarrier && c.Coll == spec.CollTypeAllreduce):
		return Fault{Kind: spec.ErrorKindControlType, Got: uint32(s.Type), Wanted: uint32(c.Coll)}
	case s.Root != root:
		return Fault{Kind: spec.ErrorKindControlRoot, Got: uint32(s.Root), Wanted: uint32(root)}
	case s.Flags != flags:
		return Fault{Kind: spec.ErrorKindControlFlags, Got: uint32(s.Flags), Wanted: uint32(flags)}
	case !e.canReduce(p, s.DType, s.Op) || s.Packets(c.MTU) > psn.MaxWindow:
		return Fault{Kind: spec.ErrorKindControlUnsupported,
			Got: uint32(s.Type)<<12 | uint32(s.Op)<<8 | uint32(s.DType)<<4 | uint32(s.Flags)}
	}
	return Fault{}
}

// canReduce: with one in there is nothing to reduce, but the size of an element must be known.
func (e *Engine) canReduce(p int, dtype spec.DType, op spec.Op) bool {
	if len(e.cfg.Pipes[p].Ins) == 1 {
		_, err := reduce.ElementBytes(dtype)
		return err == nil
	}
	return e.cfg.reducible(dtype, op) == nil
}

// differsSignal returns how a further control signal disagrees with the first one's, kind none if it does not.
func differsSignal(pkt *roce.Packet, imm uint32, payload []byte) Fault {
	got, f := signalOf(pkt)
	if f.Kind != spec.ErrorKindNone {
		return f
	}
	want := roce.ParseControl(imm, payload)
	for _, c := range []struct {
		kind        spec.ErrorKind
		got, wanted uint64
	}{
		{spec.ErrorKindControlType, uint64(got.Type), uint64(want.Type)},
		{spec.ErrorKindControlOp, uint64(got.Op), uint64(want.Op)},
		{spec.ErrorKindControlDType, uint64(got.DType), uint64(want.DType)},
		{spec.ErrorKindControlFlags, uint64(got.Flags), uint64(want.Flags)},
		{spec.ErrorKindControlRoot, uint64(got.Root), uint64(want.Root)},
		{spec.ErrorKindControlCount, got.Bytes, want.Bytes},
		{spec.ErrorKindControlSequence, got.Sequence, want.Sequence},
	} {
		if c.got != c.wanted {
			return Fault{Kind: c.kind, Got: uint32(c.got), Wanted: uint32(c.wanted)}
		}
	}
	return Fault{}
}

// signalOf reads a packet that must be a control signal, for its psn is that of one.
func signalOf(pkt *roce.Packet) (roce.Control, Fault) {
	const opcode, size = spec.OpcodeSendOnlyImm, spec.ControlBytes
	if pkt.Opcode != opcode || len(pkt.Payload) != size {
		return roce.Control{}, Fault{Kind: spec.ErrorKindControlFormat,
			Got: uint32(pkt.Opcode)<<16 | uint32(len(pkt.Payload)), Wanted: uint32(opcode)<<16 | size}
	}
	return roce.ParseControl(pkt.Imm, pkt.Payload), Fault{}
}

// openWindow: all ins agree on the control signal of psn k.
func (e *Engine) openWindow(p int, k psn.PSN, imm uint32, payload []byte) {
	signal := roce.ParseControl(imm, payload)
	start := e.space.Next(k)
	e.pipes[p].window = window{
		start:   start,
		control: e.space.Add(start, int(signal.Packets(e.cfg.Pipes[p].MTU))),
		op:      signal.Op,
		dtype:   signal.DType,
	}
}
