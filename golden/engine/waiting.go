package engine

import (
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// EndpointState returns what tables ep_rx and ep_tx show of an endpoint.
func (e *Engine) EndpointState(i int) (spec.EpRx, spec.EpTx) {
	st := &e.endpoints[i]
	return spec.EpRx{EPSN: uint32(st.in.ePSN), MSN: st.in.msn, NakSent: st.in.nakSent, AckKind: st.in.ackKind},
		spec.EpTx{LastAcked: uint32(st.out.lastAcked), Cursor: uint32(st.out.cursor), SentMax: uint32(st.out.sentMax),
			Retries: uint8(st.out.retries), TimerArmed: st.out.timerArmed, RNRWait: st.out.rnrWait, EpError: st.out.failed}
}

// Wait is what a pipe waits for.
type Wait struct {
	// PSN is the oldest that some ins have contributed to and others have not: those are Missing, endpoints in
	// the order of the pipe's ins. Without any the pipe waits for no in.
	PSN     psn.PSN
	Missing []int
	// Unacked are the outs that have not acknowledged psn Oldest, on which the window of a pipe of Mode-I or Mode-III
	// stands.
	Oldest  psn.PSN
	Unacked []int
}

// Waiting says what a pipe waits for, for whoever has to explain why nothing moves. It decides nothing.
func (e *Engine) Waiting(p int) Wait {
	cfg, st := &e.cfg.Pipes[p], &e.pipes[p]
	var w Wait
	if !st.valid || st.binding {
		return w
	}
	switch cfg.Mode {
	case 2:
		if len(cfg.Ins) < 2 {
			return w
		}
		for n := range cfg.N {
			k := e.space.Add(st.nextSend, n-cfg.N/2)
			s, belongs := e.slotAt(p, k)
			if belongs && s.degree < len(cfg.Ins) {
				w.PSN = k
				w.Missing = e.missing(p, s)
				return w
			}
		}
		return w
	case 1: // an in's data is taken in order, so ePSN says how far it is
		w.PSN = e.endpoints[cfg.Ins[0]].in.ePSN
		for _, i := range cfg.Ins {
			w.PSN = e.space.Min(w.PSN, e.endpoints[i].in.ePSN)
		}
		for _, i := range cfg.Ins {
			if e.endpoints[i].in.ePSN == w.PSN {
				w.Missing = append(w.Missing, i)
			}
		}
		if len(w.Missing) == len(cfg.Ins) {
			w.Missing = nil
		}
	case 3:
		for n := range cfg.N { // beyond a gap data is kept: what is before it is missing
			if _, begun := e.slotAt(p, e.space.Add(st.nextSend, n)); !begun {
				continue
			}
			w.PSN = st.nextSend
			s, belongs := e.slotAt(p, w.PSN)
			if !belongs {
				s = &slot{}
			}
			w.Missing = e.missing(p, s)
			break
		}
	}
	w.Oldest = st.psnStart
	for _, o := range cfg.Outs {
		if st.psnStart != st.nextSend && e.space.Less(e.endpoints[o].out.lastAcked, st.psnStart) {
			w.Unacked = append(w.Unacked, o)
		}
	}
	return w
}

// missing are the ins of pipe p that have not contributed to a slot.
func (e *Engine) missing(p int, s *slot) []int {
	var list []int
	for _, i := range e.cfg.Pipes[p].Ins {
		if s.bitmap>>e.cfg.Endpoints[i].InIndex&1 == 0 {
			list = append(list, i)
		}
	}
	return list
}
