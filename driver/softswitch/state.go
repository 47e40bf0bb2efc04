package softswitch

import (
	"maps"
	"slices"
	"time"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// State is a switch at one moment, for people and for `epic doctor`. The parts of one pipe are of the same moment.
type State struct {
	Switch    string        `json:"switch"`
	Time      time.Time     `json:"time"`
	Up        time.Duration `json:"up_ns"`
	Addresses []Address     `json:"addresses"`
	Ports     []PortState   `json:"ports"`
	Pipes     []PipeState   `json:"pipes"`
	Notes     []Note        `json:"notes"` // frames that no endpoint took
}

// PortState is a port and what it has counted.
type PortState struct {
	Port     int               `json:"port"`
	MTU      int               `json:"mtu"`
	Error    string            `json:"error,omitempty"` // why it is down, or the last frame could not be sent
	RxFrames uint64            `json:"rx_frames"`
	RxBytes  uint64            `json:"rx_bytes"`
	TxFrames uint64            `json:"tx_frames"`
	TxBytes  uint64            `json:"tx_bytes"`
	Dropped  uint64            `json:"dropped"` // the port's queue was full, or the link did not take it
	Bridged  uint64            `json:"bridged"` // came in here and was for another port
	Answered uint64            `json:"answered"`
	LastRx   time.Time         `json:"last_rx,omitzero"`
	Verdicts map[string]uint64 `json:"verdicts"` // of frames to the switch that came in here
}

// PipeState is a pipe with its endpoints.
type PipeState struct {
	ID       string          `json:"id"` // as installed
	Pipe     string          `json:"pipe"`
	Mode     int             `json:"mode"`
	PSN0     psn.PSN         `json:"psn0"`
	PSNStart psn.PSN         `json:"psn_start"`
	NextSend psn.PSN         `json:"next_send"` // Mode-II: 1 + the highest psn completed
	Fault    string          `json:"fault,omitempty"`
	Waits    *WaitState      `json:"waits,omitempty"`
	Ins      []EndpointState `json:"ins"`
	Outs     []EndpointState `json:"outs"`
}

// WaitState is what a pipe waits for: engine.Wait with the names of endpoints.
type WaitState struct {
	PSN     psn.PSN  `json:"psn"`
	Missing []string `json:"missing,omitempty"` // ins that have not contributed to PSN, and others have
	Oldest  psn.PSN  `json:"oldest"`
	Unacked []string `json:"unacked,omitempty"` // outs that have not acknowledged Oldest
}

// EndpointState is an endpoint and what frames at it were like.
type EndpointState struct {
	Name      string            `json:"name"`
	Port      int               `json:"port"`
	QPN       uint32            `json:"qpn"`
	PeerQPN   uint32            `json:"peer_qpn"`
	PeerIP    string            `json:"peer_ip"`
	EPSN      psn.PSN           `json:"epsn"` // next psn expected; Mode-II does not count it
	LastAcked psn.PSN           `json:"last_acked"`
	Retries   int               `json:"retries"`
	Failed    bool              `json:"failed,omitempty"`
	Data      uint64            `json:"data"` // data frames of all verdicts
	Acks      uint64            `json:"acks"`
	FirstPSN  psn.PSN           `json:"first_psn"` // of data, if there was any
	LastPSN   psn.PSN           `json:"last_psn"`
	Last      time.Time         `json:"last,omitzero"`
	Verdicts  map[string]uint64 `json:"verdicts"`
}

// State returns the state of now.
func (s *Switch) State() State {
	now := time.Now()
	st := State{Switch: s.name, Time: now, Up: now.Sub(s.started), Addresses: s.Addresses(), Notes: s.notes.list()}
	for _, p := range s.ports {
		if p != nil {
			st.Ports = append(st.Ports, p.state())
		}
	}
	t := s.table.Load()
	for _, id := range slices.Sorted(maps.Keys(t.sets)) {
		for _, u := range t.sets[id] {
			st.Pipes = append(st.Pipes, u.state()...)
		}
	}
	return st
}

func (p *port) state() PortState {
	c := &p.counters
	st := PortState{Port: p.number, MTU: p.link.MTU(), RxFrames: c.rxFrames.Load(), RxBytes: c.rxBytes.Load(), TxFrames: c.txFrames.Load(), TxBytes: c.txBytes.Load(),
		Dropped: c.dropped.Load(), Bridged: c.bridged.Load(), Answered: c.answered.Load(), Verdicts: map[string]uint64{}}
	if at := c.lastRx.Load(); at != 0 {
		st.LastRx = time.Unix(0, at)
	}
	for v := range c.verdicts {
		if n := c.verdicts[v].Load(); n > 0 {
			st.Verdicts[spec.Verdict(v).String()] = n
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil:
		st.Error = p.err.Error()
	case p.sendErr != nil:
		st.Error = p.sendErr.Error()
	}
	return st
}

func (u *unit) state() []PipeState {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []PipeState
	cfg := u.engine.Config()
	for p, c := range cfg.Pipes {
		ps := u.engine.PipeState(p)
		st := PipeState{ID: u.id, Pipe: c.Name, Mode: c.Mode, PSN0: c.PSN0, PSNStart: psn.PSN(ps.PSNStart), NextSend: psn.PSN(ps.NextSend),
			Ins: u.endpointStates(c.Ins), Outs: u.endpointStates(c.Outs)}
		if f := u.engine.Fault(p); f.Kind != spec.ErrorKindNone {
			st.Fault = u.fault(p, f).Error()
		}
		if w := u.engine.Waiting(p); len(w.Missing) > 0 || len(w.Unacked) > 0 {
			st.Waits = &WaitState{w.PSN, names(cfg, w.Missing), w.Oldest, names(cfg, w.Unacked)}
		}
		all = append(all, st)
	}
	return all
}

func names(cfg engine.Config, endpoints []int) []string {
	var list []string
	for _, i := range endpoints {
		list = append(list, cfg.Endpoints[i].Name)
	}
	return list
}

func (u *unit) endpointStates(list []int) []EndpointState {
	var all []EndpointState
	for _, i := range list {
		ep, seen := u.endpoints[i], &u.seen[i]
		rx, tx := u.engine.EndpointState(i)
		st := EndpointState{Name: ep.Name, Port: ep.Port, QPN: ep.QPN, PeerQPN: ep.PeerQPN, PeerIP: ep.PeerIP.String(), EPSN: psn.PSN(rx.EPSN),
			LastAcked: psn.PSN(tx.LastAcked), Retries: int(tx.Retries), Failed: tx.EpError, Data: seen.data, Acks: seen.acks,
			FirstPSN: seen.first, LastPSN: seen.last, Last: seen.at, Verdicts: map[string]uint64{}}
		for v, n := range seen.verdicts {
			if n > 0 {
				st.Verdicts[spec.Verdict(v).String()] = n
			}
		}
		all = append(all, st)
	}
	return all
}
