package engine

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// unpinned is the AllReduce root of three leaves, in either mode, that opens with a control signal.
func unpinned(mode int) Config {
	c := flat(3, 8, 0xfffffe)
	c.Pipes[0].Mode, c.Pipes[0].Unpinned = mode, true
	for i := range c.Endpoints {
		c.Endpoints[i].Leaf = true
	}
	return c
}

func controlFrom(c *Config, i int, p psn.PSN, s roce.Control) Event {
	ev := from(c, i, p)
	ev.Packet.Opcode, ev.Packet.Imm, ev.Packet.Payload = spec.OpcodeSendOnlyImm, s.Imm(), s.Payload()
	return ev
}

// frames are the results among what the engine emits.
func frames(outs []Output) []*roce.Packet {
	var results []*roce.Packet
	for _, o := range outs {
		if o.Kind == Frame && !o.Packet.HasAETH() {
			results = append(results, o.Packet)
		}
	}
	return results
}

var signal = roce.Control{Type: spec.CollTypeAllreduce, Op: spec.OpMin, DType: spec.DTypeInt8, Bytes: 5000, Sequence: 9}

// Ranks that do not mean the same collective: the error names the field and the in, and nothing leaves.
func TestControlDisagreement(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *roce.Control)
		want   Fault
	}{
		"type":       {func(s *roce.Control) { s.Type = spec.CollTypeBarrier }, Fault{Kind: spec.ErrorKindControlType, Got: 3}},
		"op":         {func(s *roce.Control) { s.Op = spec.OpXor }, Fault{Kind: spec.ErrorKindControlOp, Got: 5, Wanted: 1}},
		"dtype":      {func(s *roce.Control) { s.DType = 15 }, Fault{Kind: spec.ErrorKindControlDType, Got: 15, Wanted: 6}},
		"flags":      {func(s *roce.Control) { s.Flags = 8 }, Fault{Kind: spec.ErrorKindControlFlags, Got: 8}},
		"root":       {func(s *roce.Control) { s.Root = 513 }, Fault{Kind: spec.ErrorKindControlRoot, Got: 513}},
		"count":      {func(s *roce.Control) { s.Bytes++ }, Fault{Kind: spec.ErrorKindControlCount, Got: 5001, Wanted: 5000}},
		"count high": {func(s *roce.Control) { s.Bytes |= 1 << 40 }, Fault{Kind: spec.ErrorKindControlCount, Got: 5000, Wanted: 5000}},
		"sequence":   {func(s *roce.Control) { s.Sequence-- }, Fault{Kind: spec.ErrorKindControlSequence, Got: 8, Wanted: 9}},
		"the first of two": {func(s *roce.Control) { s.DType, s.Sequence = 0, 0 },
			Fault{Kind: spec.ErrorKindControlDType, Got: 0, Wanted: 6}},
	} {
		for _, mode := range []int{2, 3} {
			for in := range 3 {
				t.Run(fmt.Sprintf("%s, mode %d, in %d", name, mode, in), func(t *testing.T) {
					c := unpinned(mode)
					e := programmed(t, c)
					p := c.Pipes[0].PSN0
					for i := range 3 {
						if i != in {
							require.Empty(t, frames(e.Run(controlFrom(&c, i, p, signal))))
						}
					}
					other := signal
					tc.change(&other)
					outs := e.Run(controlFrom(&c, in, p, other))
					require.Equal(t, spec.VerdictMismatch, outs[0].Record.Verdict)
					want := tc.want
					want.Endpoint, want.PSN = in, p
					require.Equal(t, want, e.Fault(0))
					// Nothing leaves, now or later, but Mode-III's fatal NAKs.
					for i := range 3 {
						outs = append(outs, e.Run(controlFrom(&c, i, p, signal))...)
						outs = append(outs, e.Run(dataFrom(&c, i, psn.Next(p), 1))...)
					}
					require.Empty(t, frames(outs))
				})
			}
		}
	}
}

// What a pipe does not take, of the first in already.
func TestControlRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		pipe   func(p *Pipe)
		change func(s *roce.Control)
		spoil  func(pkt *roce.Packet)
		want   Fault
	}{
		"another collective": {change: func(s *roce.Control) { s.Type = spec.CollTypeBroadcast },
			want: Fault{Kind: spec.ErrorKindControlType, Got: 2}},
		"no such collective": {change: func(s *roce.Control) { s.Type = 9 }, want: Fault{Kind: spec.ErrorKindControlType, Got: 9}},
		"a barrier of a Reduce": {pipe: func(p *Pipe) { p.Coll = spec.CollTypeReduce },
			change: func(s *roce.Control) { s.Type = spec.CollTypeBarrier },
			want:   Fault{Kind: spec.ErrorKindControlType, Got: 3, Wanted: 1}},
		"another root": {pipe: func(p *Pipe) { p.Coll, p.Root = spec.CollTypeReduce, 7 },
			change: func(s *roce.Control) { s.Type, s.Root = spec.CollTypeReduce, 6 },
			want:   Fault{Kind: spec.ErrorKindControlRoot, Got: 6, Wanted: 7}},
		"a root of all": {change: func(s *roce.Control) { s.Root = 1 }, want: Fault{Kind: spec.ErrorKindControlRoot, Got: 1}},
		"reproducible":  {change: func(s *roce.Control) { s.Flags = 1 }, want: Fault{Kind: spec.ErrorKindControlFlags, Got: 1}},
		"not reproducible": {pipe: func(p *Pipe) { p.Reproducible = true },
			want: Fault{Kind: spec.ErrorKindControlFlags, Got: 0, Wanted: 1}},
		"another flag": {pipe: func(p *Pipe) { p.Reproducible = true }, change: func(s *roce.Control) { s.Flags = 3 },
			want: Fault{Kind: spec.ErrorKindControlFlags, Got: 3, Wanted: 1}},
		"bits of a float": {change: func(s *roce.Control) { s.Op, s.DType = spec.OpXor, spec.DTypeFloat32 },
			want: Fault{Kind: spec.ErrorKindControlUnsupported, Got: 0x0530}},
		"no such type": {change: func(s *roce.Control) { s.DType = 7 }, want: Fault{Kind: spec.ErrorKindControlUnsupported, Got: 0x0170}},
		"no such op":   {change: func(s *roce.Control) { s.Op = 6 }, want: Fault{Kind: spec.ErrorKindControlUnsupported, Got: 0x0660}},
		"too long": {change: func(s *roce.Control) { s.Bytes = 256<<22 + 1 },
			want: Fault{Kind: spec.ErrorKindControlUnsupported, Got: 0x0160}},
		"longer than any": {change: func(s *roce.Control) { s.Bytes = math.MaxUint64 },
			want: Fault{Kind: spec.ErrorKindControlUnsupported, Got: 0x0160}},
		"without an immediate": {spoil: func(pkt *roce.Packet) { pkt.Opcode = spec.OpcodeSendOnly },
			want: Fault{Kind: spec.ErrorKindControlFormat, Got: 4<<16 | 16, Wanted: 5<<16 | 16}},
		"too short": {spoil: func(pkt *roce.Packet) { pkt.Payload = pkt.Payload[:15] },
			want: Fault{Kind: spec.ErrorKindControlFormat, Got: 5<<16 | 15, Wanted: 5<<16 | 16}},
		"data": {spoil: func(pkt *roce.Packet) { pkt.Opcode, pkt.Payload = spec.OpcodeSendFirst, make([]byte, 256) },
			want: Fault{Kind: spec.ErrorKindControlFormat, Got: 256, Wanted: 5<<16 | 16}},
		"type before root, root before flags": {change: func(s *roce.Control) { s.Type, s.Root, s.Flags, s.Op = 2, 5, 2, 9 },
			want: Fault{Kind: spec.ErrorKindControlType, Got: 2}},
	} {
		for _, mode := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, mode %d", name, mode), func(t *testing.T) {
				c := unpinned(mode)
				if tc.pipe != nil {
					tc.pipe(&c.Pipes[0])
				}
				s := signal
				if tc.change != nil {
					tc.change(&s)
				}
				ev := controlFrom(&c, 1, c.Pipes[0].PSN0, s)
				if tc.spoil != nil {
					tc.spoil(ev.Packet)
				}
				e := programmed(t, c)
				outs := e.Run(ev)
				require.Equal(t, spec.VerdictMismatch, outs[0].Record.Verdict)
				want := tc.want
				want.Endpoint, want.PSN = 1, c.Pipes[0].PSN0
				require.Equal(t, want, e.Fault(0))
				require.Empty(t, frames(outs))
			})
		}
	}
}

// The largest window, and a form that only a further signal has wrong.
func TestControlLimits(t *testing.T) {
	for _, mode := range []int{2, 3} {
		c := unpinned(mode)
		e := programmed(t, c)
		s := signal
		s.Bytes = 256 << 22
		for i := range 3 {
			require.Equal(t, spec.VerdictOk, e.Run(controlFrom(&c, i, 0xfffffe, s))[0].Record.Verdict)
		}
		state := e.PipeState(0)
		require.EqualValues(t, 1<<22-1, state.ControlPSN) // fffffe + 1 + 2^22
		require.Equal(t, spec.OpMin, state.Op)
		require.Equal(t, spec.DTypeInt8, state.DType)

		e = programmed(t, c)
		e.Run(controlFrom(&c, 0, 0xfffffe, s))
		bad := controlFrom(&c, 2, 0xfffffe, s)
		bad.Packet.Payload = append(bad.Packet.Payload, 0, 0)
		e.Run(bad)
		require.Equal(t, Fault{Kind: spec.ErrorKindControlFormat, Endpoint: 2, PSN: 0xfffffe, Got: 5<<16 | 18, Wanted: 5<<16 | 16}, e.Fault(0))
	}
}

// A build without floating point refuses it where it would add, and only there.
func TestNoFloat(t *testing.T) {
	for _, dtype := range []spec.DType{spec.DTypeFloat32, spec.DTypeFloat16, spec.DTypeBfloat16} {
		c := unpinned(2)
		c.NoFloat = true
		s := signal
		s.DType = dtype
		e := programmed(t, c)
		e.Run(controlFrom(&c, 0, 0xfffffe, s))
		require.Equal(t, Fault{Kind: spec.ErrorKindControlUnsupported, PSN: 0xfffffe, Got: 0x0100 | uint32(dtype)<<4}, e.Fault(0))

		c.Pipes[0].Unpinned, c.Pipes[0].DType = false, dtype
		_, err := New(c)
		require.ErrorContains(t, err, "pipe 0 (root): "+dtype.String()+" is not in this build")
		one := flat(1, 8, 0)
		one.NoFloat, one.Pipes[0].DType = true, dtype
		_, err = New(one)
		require.NoError(t, err)
	}
	c := unpinned(2)
	c.NoFloat = true
	e := programmed(t, c)
	require.Equal(t, spec.VerdictOk, e.Run(controlFrom(&c, 0, 0xfffffe, signal))[0].Record.Verdict)
}

// With one in any op goes, for nothing is reduced; but elements must have a size.
func TestControlOfOneIn(t *testing.T) {
	c := flat(1, 8, 0)
	c.Pipes[0].Unpinned = true
	s := signal
	s.Op, s.DType, s.Bytes = 15, spec.DTypeInt64, 100
	e := programmed(t, c)
	require.Equal(t, spec.VerdictOk, e.Run(controlFrom(&c, 0, 0, s))[0].Record.Verdict)
	require.Equal(t, spec.VerdictPayloadLength, e.Run(dataFrom(&c, 0, 1, 1))[0].Record.Verdict)
	require.Equal(t, spec.VerdictOk, e.Run(dataFrom(&c, 0, 1, 1, 2))[0].Record.Verdict)

	s.DType = 7
	e = programmed(t, c)
	require.Equal(t, spec.VerdictMismatch, e.Run(controlFrom(&c, 0, 0, s))[0].Record.Verdict)
	require.Equal(t, spec.ErrorKindControlUnsupported, e.Fault(0).Kind)
}

// A whole collective after another over a wrap of the psns, with late signals in between.
func TestControlOpensOneWindowAfterTheOther(t *testing.T) {
	for _, mode := range []int{2, 3} {
		c := unpinned(mode)
		c.Pipes[0].N = 32 // a whole collective is within either mode's window
		e := programmed(t, c)
		p := c.Pipes[0].PSN0
		for n := range 5 {
			s := roce.Control{Op: spec.Op(n), DType: spec.DTypeUint32, Bytes: uint64(n) * 256, Sequence: uint64(n)}
			first := p
			for k := range n + 1 {
				var outs []Output
				for i := range 3 {
					ev := dataFrom(&c, i, p, uint32(7+i*k))
					if k == 0 {
						ev = controlFrom(&c, i, p, s)
					}
					outs = append(outs, e.Run(ev)...)
					require.NotEqual(t, spec.VerdictMismatch, outs[0].Record.Verdict)
				}
				results := frames(outs)
				require.Len(t, results, 3, "mode %d, collective %d, psn %v", mode, n, p)
				for i, pkt := range results {
					require.Equal(t, p, pkt.PSN)
					if k == 0 {
						require.Equal(t, s, roce.ParseControl(pkt.Imm, pkt.Payload))
					}
					if mode == 3 {
						e.Run(ackFrom(&c, i, p, spec.SyndromeAck))
					}
				}
				require.Equal(t, spec.VerdictNoWindow, e.Run(dataFrom(&c, 0, psn.Add(first, n+2), 1))[0].Record.Verdict)
				e.Run(controlFrom(&c, 1, first, s))
				p = psn.Next(p)
			}
		}
		require.Equal(t, spec.ErrorKindNone, e.Fault(0).Kind)
	}
}
