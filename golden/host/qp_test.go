package host

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

func config(s Settings) Config {
	return Config{
		Name: "h", MAC: roce.MAC{2, 0, 0, 0, 0, 1}, PeerMAC: roce.MAC{2, 0, 0, 0, 0, 2},
		IP: netip.MustParseAddr("10.0.0.1"), PeerIP: netip.MustParseAddr("10.0.0.2"),
		QPN: 0x11, PeerQPN: 0x22, PKey: 0xffff, UDPSport: 50000, TTL: 64, MTU: 256,
		SendPSN: 0xfffffe, RecvPSN: 0x10, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12, Settings: s,
	}
}

func newQP(t *testing.T, s Settings, change func(*Config)) *QP {
	t.Helper()
	cfg := config(s)
	if change != nil {
		change(&cfg)
	}
	q, err := New(cfg)
	require.NoError(t, err)
	return q
}

// toHost is a packet from the peer.
func toHost(op spec.Opcode, p psn.PSN) *roce.Packet {
	return &roce.Packet{Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.1"), PKey: 0xffff,
		DestQP: 0x11, Opcode: op, PSN: p}
}

func answer(q *QP, p psn.PSN, syndrome uint8) []Output {
	pkt := toHost(spec.OpcodeAcknowledge, p)
	pkt.Syndrome = syndrome
	return q.Run(Event{Kind: Deliver, Packet: pkt})
}

func ask(q *QP, op spec.Opcode, p psn.PSN, bytes int, ackReq bool) []Output {
	pkt := toHost(op, p)
	pkt.Payload, pkt.AckReq = make([]byte, bytes), ackReq
	return q.Run(Event{Kind: Deliver, Packet: pkt})
}

func post(q *QP, id uint64, bytes int) []Output {
	return q.Run(Event{Kind: PostSend, Message: Message{ID: id, Payload: make([]byte, bytes)}})
}

func psns(outs []Output) []psn.PSN {
	var ps []psn.PSN
	for _, o := range outs {
		if o.Kind == Frame {
			ps = append(ps, o.Packet.PSN)
		}
	}
	return ps
}

func completions(outs []Output) map[uint64]Status {
	m := map[uint64]Status{}
	for _, o := range outs {
		if o.Kind == Complete {
			m[o.Completion.ID] = o.Completion.Status
		}
	}
	return m
}

// timers returns the last order for a timer: 0 if there was none, -1 if it was stopped.
func timerSet(outs []Output, timer Timer) time.Duration {
	var d time.Duration
	for _, o := range outs {
		if o.Kind == SetTimer && o.Timer == timer {
			if d = -1; o.Arm {
				d = o.After
			}
		}
	}
	return d
}

func TestSegmentation(t *testing.T) {
	imm := uint32(0xcafe)
	for _, tc := range []struct {
		bytes int
		imm   *uint32
		want  []spec.Opcode
		last  int // bytes in the last packet
	}{
		{0, nil, []spec.Opcode{spec.OpcodeSendOnly}, 0},
		{1, nil, []spec.Opcode{spec.OpcodeSendOnly}, 1},
		{256, nil, []spec.Opcode{spec.OpcodeSendOnly}, 256},
		{257, nil, []spec.Opcode{spec.OpcodeSendFirst, spec.OpcodeSendLast}, 1},
		{768, nil, []spec.Opcode{spec.OpcodeSendFirst, spec.OpcodeSendMiddle, spec.OpcodeSendLast}, 256},
		{5, &imm, []spec.Opcode{spec.OpcodeSendOnlyImm}, 5},
		{600, &imm, []spec.Opcode{spec.OpcodeSendFirst, spec.OpcodeSendMiddle, spec.OpcodeSendLastImm}, 88},
	} {
		q := newQP(t, LinuxRXE(), nil)
		payload := make([]byte, tc.bytes)
		for i := range payload {
			payload[i] = byte(i)
		}
		var got []byte
		outs := q.Run(Event{Kind: PostSend, Message: Message{Payload: payload, Imm: tc.imm, SE: true}})
		var ops []spec.Opcode
		for _, o := range outs {
			if o.Kind == Frame {
				last := len(ops) == len(tc.want)-1
				ops = append(ops, o.Packet.Opcode)
				got = append(got, o.Packet.Payload...)
				require.Equal(t, last, o.Packet.AckReq)
				require.Equal(t, last, o.Packet.SE)
				if last {
					require.Len(t, o.Packet.Payload, tc.last)
					if tc.imm != nil {
						require.Equal(t, imm, o.Packet.Imm)
					}
				}
			}
		}
		require.Equal(t, tc.want, ops, "%d bytes", tc.bytes)
		require.Equal(t, append([]byte{}, payload...), append([]byte{}, got...))
	}
}

// The nominal timeout is 4.096 us * 2^t; retry_cnt n < 7 is 1 + n sends, then status 12; 7 never gives
// up; timeout 0 never resends.
func TestTimeout(t *testing.T) {
	for _, tc := range []struct {
		timeout, retries int
		after            time.Duration
		sends            int // at most 50 are looked at
	}{
		{1, 2, 8192 * time.Nanosecond, 3},
		{8, 1, 1048576 * time.Nanosecond, 2},
		{8, 7, 1048576 * time.Nanosecond, 50},
		{12, 3, 16777216 * time.Nanosecond, 4},
		{14, 0, 67108864 * time.Nanosecond, 1},
		{18, 2, 1073741824 * time.Nanosecond, 3},
		{0, 3, 0, 1},
	} {
		for _, s := range []Settings{LinuxRXE(), StrictNIC()} {
			q := newQP(t, s, func(c *Config) { c.Timeout, c.RetryCnt = tc.timeout, tc.retries })
			outs := post(q, 7, 64)
			require.Equal(t, tc.after, timerSet(outs, Retransmit))
			sends := len(psns(outs))
			for timerSet(outs, Retransmit) > 0 && sends < 50 {
				outs = q.Run(Event{Kind: Expire, Timer: Retransmit})
				sends += len(psns(outs))
			}
			require.Equal(t, tc.sends, sends, "timeout %d retry_cnt %d", tc.timeout, tc.retries)
			if tc.retries < 7 && tc.timeout > 0 {
				require.Equal(t, map[uint64]Status{7: StatusRetryExceeded}, completions(outs))
				require.True(t, q.Failed())
				require.Equal(t, map[uint64]Status{8: StatusFlushed}, completions(post(q, 8, 1)))
			} else {
				require.False(t, q.Failed())
			}
		}
	}
}

func TestTimeoutResendsFromTheOldestNotAcknowledged(t *testing.T) {
	q := newQP(t, LinuxRXE(), nil)
	post(q, 1, 5*256)
	answer(q, 0, spec.SyndromeAck) // fffffe ffffff 0 of fffffe..2
	require.Equal(t, []psn.PSN{1, 2}, psns(q.Run(Event{Kind: Expire, Timer: Retransmit})))
}

// Linux: with everything acknowledged the timer runs on, and the next packet inherits it: it does not
// arm the timer, so it is sent again early. A strict NIC stops it and starts anew.
func TestTimerWhenIdle(t *testing.T) {
	q := newQP(t, LinuxRXE(), nil)
	post(q, 1, 64)
	require.Zero(t, timerSet(answer(q, 0xfffffe, spec.SyndromeAck), Retransmit), "left alone")
	outs := post(q, 2, 64)
	require.Equal(t, []psn.PSN{0xffffff}, psns(outs))
	require.Zero(t, timerSet(outs, Retransmit), "inherited")
	require.Equal(t, []psn.PSN{0xffffff}, psns(q.Run(Event{Kind: Expire, Timer: Retransmit})))

	q = newQP(t, LinuxRXE(), nil)
	post(q, 1, 64)
	answer(q, 0xfffffe, spec.SyndromeAck)
	require.Empty(t, q.Run(Event{Kind: Expire, Timer: Retransmit}), "nothing is outstanding")
	require.Positive(t, timerSet(post(q, 2, 64), Retransmit))

	q = newQP(t, StrictNIC(), nil)
	post(q, 1, 64)
	require.Equal(t, time.Duration(-1), timerSet(answer(q, 0xfffffe, spec.SyndromeAck), Retransmit))
	require.Positive(t, timerSet(post(q, 2, 64), Retransmit))
}

// RNR timer codes of IBTA table 45.
func TestRNRWait(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0: 655360 * time.Microsecond, 1: 10 * time.Microsecond, 12: 640 * time.Microsecond,
		16: 2560 * time.Microsecond, 20: 10240 * time.Microsecond, 26: 81920 * time.Microsecond, 31: 491520 * time.Microsecond,
	} {
		q := newQP(t, LinuxRXE(), nil)
		post(q, 1, 3*256)
		outs := answer(q, 0xffffff, spec.SyndromeRNR|code)
		require.Equal(t, want, timerSet(outs, RNRWait), "code %d", code)
		require.Equal(t, time.Duration(-1), timerSet(outs, Retransmit), "the wait is not a timeout")
		require.Empty(t, psns(outs))
		require.Empty(t, psns(answer(q, 0xffffff, spec.SyndromeNakSequence)), "a NAK meanwhile waits too")
		require.Equal(t, []psn.PSN{0xffffff, 0}, psns(q.Run(Event{Kind: Expire, Timer: RNRWait})))
	}
}

func TestRNRRetry(t *testing.T) {
	q := newQP(t, LinuxRXE(), func(c *Config) { c.RNRRetry = 2 })
	post(q, 1, 64)
	post(q, 2, 64)
	for range 2 {
		require.Empty(t, completions(answer(q, 0xfffffe, spec.SyndromeRNR|1)))
		q.Run(Event{Kind: Expire, Timer: RNRWait})
	}
	require.Equal(t, map[uint64]Status{1: StatusRNRRetryExceeded, 2: StatusFlushed}, completions(answer(q, 0xfffffe, spec.SyndromeRNR|1)))
}

func TestPresetsDiffer(t *testing.T) {
	linux, strict := newQP(t, LinuxRXE(), nil), newQP(t, StrictNIC(), nil)
	for _, q := range []*QP{linux, strict} {
		post(q, 1, 4*256) // fffffe ffffff 0 1
		require.Equal(t, []psn.PSN{0xffffff, 0, 1}, psns(answer(q, 0xffffff, spec.SyndromeNakSequence)))
	}
	require.Empty(t, psns(answer(linux, 0xffffff, spec.SyndromeNakSequence)), "only once")
	require.Equal(t, []psn.PSN{0xffffff, 0, 1}, psns(answer(strict, 0xffffff, spec.SyndromeNakSequence)))
	require.Empty(t, psns(answer(linux, 0, spec.SyndromeNakSequence)), "nor from later on")
	require.Equal(t, []psn.PSN{0, 1}, psns(answer(strict, 0, spec.SyndromeNakSequence)))

	// An ACK of what was never sent.
	require.Equal(t, map[uint64]Status{1: StatusSuccess}, completions(answer(linux, 0x100, spec.SyndromeAck)))
	require.Empty(t, completions(answer(strict, 0x100, spec.SyndromeAck)))
	require.Equal(t, map[uint64]Status{1: StatusSuccess}, completions(answer(strict, 2, spec.SyndromeNakSequence)), "NAK of last+1")

	// After an RNR NAK of ours.
	for q, want := range map[*QP]int{linux: 1, strict: 0} {
		require.Len(t, psns(ask(q, spec.OpcodeSendFirst, 0x10, 256, false)), 1)
		require.Len(t, psns(ask(q, spec.OpcodeSendMiddle, 0x11, 256, false)), want)
		require.Len(t, psns(ask(q, spec.OpcodeSendFirst, 0x10, 256, false)), 1, "RNR NAK again")
	}
}

// A retry is renewed by an ACK; on a strict NIC by any progress.
func TestRetriesAreRenewed(t *testing.T) {
	for _, tc := range []struct {
		s     Settings
		fails bool
	}{{LinuxRXE(), true}, {StrictNIC(), false}} {
		q := newQP(t, tc.s, func(c *Config) { c.RetryCnt = 1 })
		post(q, 1, 8*256)
		q.Run(Event{Kind: Expire, Timer: Retransmit})
		answer(q, 0xffffff, spec.SyndromeRNR|1) // says that fffffe arrived
		q.Run(Event{Kind: Expire, Timer: RNRWait})
		q.Run(Event{Kind: Expire, Timer: Retransmit})
		require.Equal(t, tc.fails, q.Failed())

		q = newQP(t, tc.s, func(c *Config) { c.RetryCnt = 1 })
		post(q, 1, 8*256)
		q.Run(Event{Kind: Expire, Timer: Retransmit})
		answer(q, 0xffffff, spec.SyndromeAck)
		q.Run(Event{Kind: Expire, Timer: Retransmit})
		require.False(t, q.Failed())
	}
}

func TestFatalNAKs(t *testing.T) {
	for syndrome, want := range map[uint8]Status{0x61: 9, 0x62: 10, 0x63: 11, 0x64: 11} {
		q := newQP(t, StrictNIC(), nil)
		post(q, 1, 64)
		post(q, 2, 64)
		post(q, 3, 64)
		// It acknowledges what is before it.
		require.Equal(t, map[uint64]Status{1: StatusSuccess, 2: want, 3: StatusFlushed}, completions(answer(q, 0xffffff, syndrome)))
		require.Empty(t, psns(ask(q, spec.OpcodeSendOnly, 0x10, 4, true)), "and then silence")
	}
}

func TestResponderRefuses(t *testing.T) {
	cases := []struct {
		name     string
		op       spec.Opcode
		bytes    int
		inside   bool // a First has come before
		syndrome uint8
		status   Status
	}{
		{"Middle without First", spec.OpcodeSendMiddle, 256, false, 0x61, StatusFlushed},
		{"Last without First", spec.OpcodeSendLast, 4, false, 0x61, StatusFlushed},
		{"First within a message", spec.OpcodeSendFirst, 256, true, 0x61, StatusFlushed},
		{"Only within a message", spec.OpcodeSendOnly, 4, true, 0x61, StatusFlushed},
		{"WRITE", spec.OpcodeWriteOnly, 4, false, 0x61, StatusFlushed},
		{"short Middle", spec.OpcodeSendMiddle, 252, true, 0x61, StatusFlushed},
		{"more than the MTU", spec.OpcodeSendOnly, 260, false, 0x61, StatusFlushed},
		{"more than the receive", spec.OpcodeSendLast, 256, true, 0x63, StatusLocalLength},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			q := newQP(t, StrictNIC(), nil)
			q.Run(Event{Kind: PostRecv, Receive: Receive{ID: 5, Bytes: 500}})
			q.Run(Event{Kind: PostRecv, Receive: Receive{ID: 6, Bytes: 500}})
			p := psn.PSN(0x10)
			if tc.inside {
				require.Empty(t, psns(ask(q, spec.OpcodeSendFirst, p, 256, false)))
				p++
			}
			outs := ask(q, tc.op, p, tc.bytes, true)
			require.Equal(t, []psn.PSN{p}, psns(outs))
			require.Equal(t, tc.syndrome, outs[0].Packet.Syndrome)
			require.Equal(t, map[uint64]Status{5: tc.status, 6: StatusFlushed}, completions(outs))
			require.True(t, q.Failed())
		})
	}
}

func TestAccepts(t *testing.T) {
	q := newQP(t, LinuxRXE(), nil)
	require.True(t, q.Accepts(toHost(spec.OpcodeSendOnly, 0)))
	for name, spoil := range map[string]func(*roce.Packet){
		"QPN":            func(p *roce.Packet) { p.DestQP++ },
		"source IP":      func(p *roce.Packet) { p.Src = netip.MustParseAddr("10.0.0.3") },
		"destination IP": func(p *roce.Packet) { p.Dst = netip.MustParseAddr("10.0.0.3") },
		"partition":      func(p *roce.Packet) { p.PKey = 0x8001 },
	} {
		pkt := toHost(spec.OpcodeSendOnly, 0x10)
		spoil(pkt)
		require.False(t, q.Accepts(pkt), name)
		require.Empty(t, q.Run(Event{Kind: Deliver, Packet: pkt}), name)
	}
}

func TestStateIsCanonical(t *testing.T) {
	history := func(q *QP, order []int) {
		for _, i := range order {
			switch i {
			case 0:
				q.Run(Event{Kind: PostRecv, Receive: Receive{ID: 9, Bytes: 600}})
			case 1:
				post(q, 1, 700)
			}
		}
		ask(q, spec.OpcodeSendFirst, 0x10, 256, true)
		answer(q, 0xfffffe, spec.SyndromeAck)
	}
	a, b := newQP(t, LinuxRXE(), nil), newQP(t, LinuxRXE(), nil)
	history(a, []int{0, 1})
	history(b, []int{1, 0})
	want := a.AppendState(nil)
	require.Equal(t, want, b.AppendState(nil))

	imm := uint32(3)
	for name, change := range map[string]func(q *QP){
		"failed":      func(q *QP) { q.failed = true },
		"unacked":     func(q *QP) { q.req.unacked++ },
		"next":        func(q *QP) { q.req.next++ },
		"fresh":       func(q *QP) { q.req.fresh++ },
		"end":         func(q *QP) { q.req.end++ },
		"AckReq":      func(q *QP) { q.req.sinceAckReq++ },
		"retries":     func(q *QP) { q.req.retries-- },
		"rnr retries": func(q *QP) { q.req.rnrRetries-- },
		"nakObeyed":   func(q *QP) { q.req.nakObeyed = true },
		"timer":       func(q *QP) { q.req.timerRuns = false },
		"rnrWait":     func(q *QP) { q.req.rnrWait = true },
		"message":     func(q *QP) { q.req.queue[0].message.Payload = make([]byte, 701) },
		"message ID":  func(q *QP) { q.req.queue[0].message.ID++ },
		"message imm": func(q *QP) { q.req.queue[0].message.Imm = &imm },
		"message SE":  func(q *QP) { q.req.queue[0].message.SE = true },
		"ePSN":        func(q *QP) { q.rsp.ePSN++ },
		"msn":         func(q *QP) { q.rsp.msn++ },
		"nakSent":     func(q *QP) { q.rsp.nakSent = true },
		"receive":     func(q *QP) { q.rsp.queue[0].Bytes-- },
		"receive ID":  func(q *QP) { q.rsp.queue[0].ID-- },
		"inMessage":   func(q *QP) { q.rsp.inMessage = false },
		"received":    func(q *QP) { q.rsp.message[3] ^= 1 },
	} {
		c := a.Clone()
		require.Equal(t, want, c.AppendState(nil), name)
		change(c)
		require.NotEqual(t, want, c.AppendState(nil), name)
		require.Equal(t, want, a.AppendState(nil), "%s: the clone is not independent", name)
	}
}

func TestConfigErrors(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"QPN: got 0x0":           func(c *Config) { c.QPN = 0 },
		"peer QPN: got 0x100000": func(c *Config) { c.PeerQPN = 1 << 24 },
		"MTU: got 1500, want one of 256, 512, 1024, 2048, 4096": func(c *Config) { c.MTU = 1500 },
		"timeout: got 32, want 0..31":                           func(c *Config) { c.Timeout = 32 },
		"retry_cnt: got 8, want 0..7":                           func(c *Config) { c.RetryCnt = 8 },
		"rnr_retry: got -1, want 0..7":                          func(c *Config) { c.RNRRetry = -1 },
		"min_rnr_timer: got 32, want 0..31":                     func(c *Config) { c.MinRNRTimer = 32 },
		"window: got 0, want 1..4194304":                        func(c *Config) { c.Settings.Window = 0 },
		"first PSNs: got 0x1000000":                             func(c *Config) { c.SendPSN = 1 << 24 },
		"two IPv4 or two IPv6":                                  func(c *Config) { c.IP = netip.MustParseAddr("::1") },
	} {
		cfg := config(LinuxRXE())
		spoil(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `host "h"`)
	}
	_, err := Preset("windows")
	require.ErrorContains(t, err, `got "windows", want one of [linux-rxe strict-nic]`)
	for _, name := range Presets() {
		s, err := Preset(name)
		require.NoError(t, err)
		require.NoError(t, config(s).Validate())
	}
}

// What is not a retry does not cost one.
func TestRetriesAreNotSpent(t *testing.T) {
	for _, s := range []Settings{LinuxRXE(), StrictNIC()} {
		fresh := func() *QP { return newQP(t, s, func(c *Config) { c.RetryCnt = 0 }) }

		q := fresh() // a NAK of last+1: everything has arrived
		post(q, 1, 64)
		require.Equal(t, map[uint64]Status{1: StatusSuccess}, completions(answer(q, 0xffffff, spec.SyndromeNakSequence)))
		require.False(t, q.Failed())

		q = fresh() // a NAK during an RNR wait
		post(q, 1, 64)
		answer(q, 0xfffffe, spec.SyndromeRNR|1)
		answer(q, 0xfffffe, spec.SyndromeNakSequence)
		require.False(t, q.Failed())

		q = fresh() // a timer that runs out when nothing is outstanding
		post(q, 1, 64)
		answer(q, 0xfffffe, spec.SyndromeAck)
		q.Run(Event{Kind: Expire, Timer: Retransmit})
		require.False(t, q.Failed())

		q = fresh() // a timer during an RNR wait: an ACK must not arm it
		post(q, 1, 3*256)
		answer(q, 0xfffffe, spec.SyndromeRNR|1)
		require.Zero(t, timerSet(answer(q, 0xfffffe, spec.SyndromeAck), Retransmit))
		require.Equal(t, []psn.PSN{0xffffff, 0}, psns(q.Run(Event{Kind: Expire, Timer: RNRWait})))
	}
}
