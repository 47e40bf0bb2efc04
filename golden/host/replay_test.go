package host

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
)

// The captures show a Linux guest (rdma_rxe) and a peer that misbehaves on purpose. The model with the
// preset linux-rxe takes the guest's place: it is given the peer's frames in the order of the capture,
// and each frame the guest sent must be, bit for bit but for the IPv4 identification, one that the
// model sends there. The parameters are those of the guest's program in each experiment.
//
// Not replayed, because the model has no RDMA WRITE: req_all_write, req_all_writeonly,
// req_all_writeimm, req_all_writeimmonly, resp_write.

const captures = "../../testdata/captures/"

var guestMAC = [5]byte{0x52, 0x54, 0x00, 0x00, 0x00}

// frame is one of a capture, as the guest sees it.
type captured struct {
	at    time.Duration
	sent  bool // by the guest
	pkt   *roce.Packet
	wrong string // why it does not decode
}

func readCapture(t *testing.T, name string) []captured {
	t.Helper()
	f, err := capture.Open(captures + name + ".pcap")
	require.NoError(t, err)
	defer f.Close()
	var out []captured
	var start time.Time
	for {
		fr, err := f.Next()
		if err != nil {
			require.ErrorContains(t, err, "EOF")
			break
		}
		if start.IsZero() {
			start = fr.Time
		}
		c := captured{at: fr.Time.Sub(start)}
		c.sent = [5]byte(fr.Data[6:11]) == guestMAC && fr.Data[11] < 0x10
		pkt, bad := roce.Decode(fr.Data)
		if bad != nil {
			c.wrong = bad.Error()
		} else {
			pkt.IPID = 0 // Linux counts
			c.pkt = pkt
		}
		out = append(out, c)
	}
	require.NotEmpty(t, out)
	return out
}

// guestConfig is the guest's queue pair, its addresses taken from a frame it sent.
func guestConfig(t *testing.T, frames []captured, qpn uint32) Config {
	t.Helper()
	for _, c := range frames {
		if c.sent {
			return Config{
				Name: "guest", MAC: c.pkt.SrcMAC, PeerMAC: roce.MAC{0x52, 0x54, 0, 0, 0, 0x63},
				IP: c.pkt.Src, PeerIP: netip.MustParseAddr("10.9.0.99"),
				QPN: qpn, PeerQPN: c.pkt.DestQP, PKey: 0xffff, UDPSport: c.pkt.SrcPort, TTL: 64,
				MTU: 1024, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12, Settings: LinuxRXE(),
			}
		}
	}
	t.Fatal("the guest sent nothing")
	return Config{}
}

// guestQPN is the destination QPN of the peer's frames.
func guestQPN(frames []captured) uint32 {
	count := map[uint32]int{}
	var most uint32
	for _, c := range frames {
		if !c.sent && c.pkt != nil {
			if count[c.pkt.DestQP]++; count[c.pkt.DestQP] > count[most] {
				most = c.pkt.DestQP
			}
		}
	}
	return most
}

func tensor(t *testing.T, name string, bytes int) []byte {
	t.Helper()
	b, err := os.ReadFile("../../testdata/allreduce4/tensors/" + name)
	require.NoError(t, err)
	if bytes > 0 {
		require.GreaterOrEqual(t, len(b), bytes)
		b = b[:bytes]
	}
	return b
}

func differs(got, want *roce.Packet) string {
	var diff []string
	add := func(what string, g, w any) {
		if g != w {
			diff = append(diff, fmt.Sprintf("%s %v, want %v", what, g, w))
		}
	}
	add("opcode", got.Opcode, want.Opcode)
	add("PSN", got.PSN, want.PSN)
	add("AckReq", got.AckReq, want.AckReq)
	add("syndrome", got.Syndrome, want.Syndrome)
	add("MSN", got.MSN, want.MSN)
	add("payload bytes", len(got.Payload), len(want.Payload))
	if len(diff) == 0 && !got.Equal(want) {
		g, w := *got, *want
		same := bytes.Equal(g.Payload, w.Payload)
		g.Payload, w.Payload = nil, nil
		diff = append(diff, fmt.Sprintf("payload equal %v, header %+v, want %+v", same, g, w))
	}
	return strings.Join(diff, "; ")
}

// ---- the guest as responder: its answers depend on the order of what it gets and on nothing else

type responderCase struct {
	name     string
	receives int // posted at the start
	bytes    int
	minRNR   int
	postAt   time.Duration // one more is posted then
	done     []Status      // of receives, in order, without those that are flushed
}

func responderCases() []responderCase {
	const later = 1268 * time.Millisecond // as the guest's log says
	ok := func(n int) []Status { return make([]Status, n) }
	return []responderCase{
		{name: "resp_ack", receives: 64, bytes: 4096, minRNR: 12, done: ok(11)},
		{name: "resp_gap", receives: 64, bytes: 8192, minRNR: 12, done: ok(2)},
		{name: "resp_gapnak2", receives: 64, bytes: 8192, minRNR: 12, done: ok(1)},
		{name: "resp_dup", receives: 64, bytes: 4096, minRNR: 12, done: ok(2)},
		{name: "resp_far", receives: 64, bytes: 1024, minRNR: 12, done: ok(9)},
		{name: "resp_short", receives: 8, bytes: 4096, minRNR: 12},
		{name: "resp_rnr", receives: 1, bytes: 4096, minRNR: 12, postAt: later, done: ok(2)},
		{name: "resp_rnr_n0", receives: 1, bytes: 4096, minRNR: 0, postAt: later, done: ok(2)},
		{name: "resp_rnr_n31", receives: 1, bytes: 4096, minRNR: 31, postAt: later, done: ok(2)},
		{name: "resp_long", receives: 8, bytes: 4096, minRNR: 12, done: []Status{StatusLocalQPError}},
		{name: "resp_order", receives: 8, bytes: 4096, minRNR: 12, done: ok(1)},
		{name: "resp_headers", receives: 64, bytes: 1024, minRNR: 12, done: ok(20)},
		{name: "resp_deliver", receives: 7, bytes: 16384, minRNR: 12, done: ok(7)},
	}
}

func (tc responderCase) replay(t *testing.T, settings Settings) error {
	frames := readCapture(t, "rxe_behaviour/"+tc.name)
	cfg := guestConfig(t, frames, guestQPN(frames))
	cfg.SendPSN, cfg.RecvPSN, cfg.MinRNRTimer, cfg.Settings = 0x5000, 0xfffff0, tc.minRNR, settings
	q, err := New(cfg)
	require.NoError(t, err)

	var sent, want []*roce.Packet
	var done []Status
	var received []byte
	take := func(outs []Output) {
		for _, o := range outs {
			switch {
			case o.Kind == Frame:
				sent = append(sent, o.Packet)
			case o.Kind == Complete && o.Completion.Status != StatusFlushed:
				done = append(done, o.Completion.Status)
				received = append(received, o.Completion.Payload...)
			}
		}
	}
	for i := range tc.receives {
		take(q.Run(Event{Kind: PostRecv, Receive: Receive{ID: uint64(i), Bytes: tc.bytes}}))
	}
	posted := tc.postAt == 0
	for _, c := range frames {
		switch {
		case c.sent:
			want = append(want, c.pkt)
		case c.pkt != nil:
			if !posted && c.at > tc.postAt {
				posted = true
				take(q.Run(Event{Kind: PostRecv, Receive: Receive{ID: 99, Bytes: tc.bytes}}))
			}
			take(q.Run(Event{Kind: Deliver, Packet: c.pkt}))
		}
	}
	for i := range min(len(sent), len(want)) {
		if d := differs(sent[i], want[i]); d != "" {
			return fmt.Errorf("answer %d of %d: %s", i, len(want), d)
		}
	}
	if len(sent) != len(want) {
		return fmt.Errorf("got %d answers, want %d", len(sent), len(want))
	}
	if !slices.Equal(done, tc.done) {
		return fmt.Errorf("got completions %v, want %v", done, tc.done)
	}
	if tc.name == "resp_deliver" && !bytes.Equal(received, tensor(t, "sum.i32", 0)) {
		return errors.New("what was delivered is not sum.i32")
	}
	return nil
}

func TestReplayResponder(t *testing.T) {
	for _, tc := range responderCases() {
		t.Run(tc.name, func(t *testing.T) { require.NoError(t, tc.replay(t, LinuxRXE())) })
	}
}

// ---- the guest as requester: when it took an answer from the wire, and when it found time to send,
// the capture does not say, so the replay follows every possibility

// branch is one way in which the capture up to now may have come about.
type branch struct {
	q       *QP
	pending int // peer's frames that have arrived, from here on not yet taken
	posted  int
	done    []Status
	armed   [2]bool
	since   [2]time.Duration // when the timers were armed, in the capture's time
	after   [2]time.Duration
	ready   time.Duration // since when it may send, if it may
}

// prompt is the longest the guest takes to look at a frame, or to send what it may: in the captures it
// answers within 11 ms.
const prompt = 40 * time.Millisecond

func (b *branch) clone() *branch {
	c := *b
	c.q = b.q.Clone()
	c.done = append([]Status(nil), b.done...)
	return &c
}

// branchKey is what tells branches apart, beside the times at which timers were armed.
type branchKey struct {
	pending, posted, sinceAckReq, retries, rnrRetries int
	armed                                             [2]bool
	unacked, next, fresh                              psn.PSN
	nakObeyed, rnrWait, failed                        bool
}

func (b *branch) key() branchKey {
	r := &b.q.req
	return branchKey{b.pending, b.posted, r.sinceAckReq, r.retries, r.rnrRetries, b.armed,
		r.unacked, r.next, r.fresh, r.nakObeyed, r.rnrWait, b.q.failed}
}

// step does an event and notes timers and completions, and returns the frame that was sent, if any.
func (b *branch) step(now time.Duration, ev Event) *roce.Packet {
	could := b.q.CanSend() && ev.Kind != Send
	outs := b.q.Step(ev)
	if b.q.CanSend() && !could {
		b.ready = now
	}
	var sent *roce.Packet
	for _, o := range outs {
		switch o.Kind {
		case Frame:
			sent = o.Packet
		case Complete:
			b.done = append(b.done, o.Completion.Status)
		case SetTimer:
			b.armed[o.Timer], b.since[o.Timer], b.after[o.Timer] = o.Arm, now, o.After
		}
	}
	return sent
}

type requesterCase struct {
	name    string
	tensor  string
	bytes   int // of it that are sent
	message int
	depth   int // messages outstanding at most
	timeout int
	rnr     int // rnr_retry
	done    []Status
}

// slack is how late a timer of the guest may be: its kernel counts jiffies of 4 ms and files a long
// timer in steps of an eighth, and its processor is emulated.
func slack(after time.Duration) time.Duration { return after/8 + 60*time.Millisecond }

func (b *branch) post(tc requesterCase, data []byte, now time.Duration) {
	for {
		outstanding := b.posted - len(b.done)
		at := b.posted * tc.message
		if outstanding >= tc.depth || at >= len(data) {
			return
		}
		m := Message{ID: uint64(b.posted), Payload: data[at:min(len(data), at+tc.message)]}
		b.posted++
		b.step(now, Event{Kind: PostSend, Message: m})
	}
}

// follow returns the branches in which the guest's next frame is want.
func follow(branches []*branch, tc requesterCase, data []byte, frames []captured, arrived []int, now time.Duration, want *roce.Packet) []*branch {
	var next []*branch
	seen := map[branchKey]bool{}
	var try func(b *branch)
	try = func(b *branch) {
		key := b.key()
		if seen[key] {
			return
		}
		seen[key] = true
		if b.q.CanSend() {
			c := b.clone()
			if now-c.ready <= prompt && differs(c.step(now, Event{Kind: Send}), want) == "" {
				next = append(next, c)
			}
		}
		if b.pending < len(arrived) {
			c := b.clone()
			f := frames[arrived[c.pending]]
			c.step(f.at, Event{Kind: Deliver, Packet: f.pkt}) // at the earliest
			c.pending++
			c.post(tc, data, now)
			try(c)
		}
		for timer := range b.armed {
			// A timer is not early, but for the clock tick in which it was set.
			if b.armed[timer] && now-b.since[timer] >= b.after[timer]-4*time.Millisecond {
				c := b.clone()
				c.armed[timer] = false
				c.step(now, Event{Kind: Expire, Timer: Timer(timer)})
				try(c)
			}
		}
	}
	for _, b := range branches {
		try(b)
	}
	// One that let a frame lie, or could have sent long ago, or whose timer should have run out and
	// made it send, did not happen.
	kept := next[:0]
	for _, b := range next {
		late := b.pending < len(arrived) && frames[arrived[b.pending]].at < now-prompt
		for timer := range b.armed {
			if b.armed[timer] && now-b.since[timer] > b.after[timer]+slack(b.after[timer]) {
				c := b.clone()
				c.q.Step(Event{Kind: Expire, Timer: Timer(timer)})
				late = late || c.q.req.next != b.q.req.next || c.q.failed
			}
		}
		if !late {
			kept = append(kept, b)
		}
	}
	return kept
}

func requesterCases() []requesterCase {
	ok := func(n int) []Status { return make([]Status, n) }
	i32 := func(name string, timeout int, done []Status) requesterCase {
		return requesterCase{name: "rxe_behaviour/" + name, tensor: "rank0.i32", bytes: 16384, message: 16384, depth: 64, timeout: timeout, rnr: 7, done: done}
	}
	with := func(tc requesterCase, f func(*requesterCase)) requesterCase { f(&tc); return tc }
	two := func(name string) requesterCase {
		return with(i32(name, 18, ok(2)), func(tc *requesterCase) { tc.bytes, tc.depth = 32768, 1 })
	}
	return []requesterCase{
		with(i32("req_all_sendonly", 18, ok(3)), func(tc *requesterCase) { tc.bytes, tc.message = 2053, 1024 }),
		with(i32("req_all_long", 18, ok(1)), func(tc *requesterCase) { tc.tensor, tc.bytes, tc.message = "", 143360, 143360 }),
		with(i32("req_window_16k", 20, ok(1)), func(tc *requesterCase) { tc.tensor, tc.bytes = "", 1<<20 }),
		i32("req_nakseq", 18, ok(1)),
		i32("req_naktwice", 18, ok(1)),
		i32("req_nakrange", 18, ok(1)),
		i32("req_midack", 17, ok(1)),
		i32("req_rnr_12", 20, ok(1)),
		i32("req_rnr_20", 20, ok(1)),
		i32("req_rnrnak", 18, ok(1)),
		with(i32("req_rnrlimit_2", 18, []Status{StatusRNRRetryExceeded}), func(tc *requesterCase) { tc.rnr = 2 }),
		i32("req_nakerr_0x61", 18, []Status{StatusRemoteInvalid}),
		i32("req_nakerr_0x63", 18, []Status{StatusRemoteOperation}),
		with(i32("req_coalesce", 18, ok(4)), func(tc *requesterCase) { tc.message = 4096 }),
		with(i32("req_coalesce_mid", 18, ok(4)), func(tc *requesterCase) { tc.message = 4096 }),
		two("req_beyond"),
		with(two("req_beyond_two"), func(tc *requesterCase) { tc.depth = 2 }),
		two("req_dupack"),
		two("req_msn_0"),
		two("req_msn_wrong"),
		two("req_credit0"),
		two("req_stale"),
		with(i32("req_headers", 18, ok(20)), func(tc *requesterCase) { tc.bytes, tc.message, tc.depth = 20480, 1024, 1 }),
		{name: "allreduce4/allreduce4_i32_rank0", tensor: "rank0.i32", message: 16384, depth: 64, timeout: 14, rnr: 7, done: ok(7)},
		{name: "allreduce4/allreduce4_i32_rank3", tensor: "rank3.i32", message: 16384, depth: 64, timeout: 14, rnr: 7, done: ok(7)},
		{name: "allreduce4/retransmit_rank0_guestside", tensor: "rank0.i32", message: 16384, depth: 64, timeout: 14, rnr: 7, done: ok(7)},
	}
}

func (tc requesterCase) replay(t *testing.T, settings Settings) error {
	frames := readCapture(t, tc.name)
	var data []byte
	if tc.tensor == "" { // all tensors, one after another
		for _, name := range []string{"rank0.i32", "rank1.i32", "rank2.i32", "rank3.i32", "sum.i32"} {
			data = append(data, tensor(t, name, 0)...)
		}
		data = data[:min(len(data), tc.bytes)]
	} else {
		data = tensor(t, tc.tensor, tc.bytes)
	}
	cfg := guestConfig(t, frames, guestQPN(frames))
	cfg.SendPSN, cfg.RecvPSN, cfg.Timeout, cfg.RNRRetry, cfg.Settings = 0xfffff0, 0x5000, tc.timeout, tc.rnr, settings
	q, err := New(cfg)
	require.NoError(t, err)

	start := &branch{q: q}
	start.post(tc, data, 0)
	branches := []*branch{start}
	var arrived []int // indices of the peer's frames so far
	for i, c := range frames {
		switch {
		case !c.sent && c.pkt != nil:
			arrived = append(arrived, i)
		case c.sent:
			next := follow(branches, tc, data, frames, arrived, c.at, c.pkt)
			if len(next) == 0 {
				why := "it may not send"
				if b := branches[0].clone(); b.q.CanSend() {
					why = differs(b.step(c.at, Event{Kind: Send}), c.pkt)
				}
				return fmt.Errorf("frame %d at %v: the guest sent %v psn %v, the model does not in any of %d branches: %s",
					i+1, c.at, c.pkt.Opcode, c.pkt.PSN, len(branches), why)
			}
			branches = next
		}
	}
	// What arrived last is taken; then the model is where the guest's program said it was.
	for _, b := range branches {
		for b.pending < len(arrived) {
			f := frames[arrived[b.pending]]
			b.step(f.at, Event{Kind: Deliver, Packet: f.pkt})
			b.pending++
		}
		if !slices.Equal(b.done, tc.done) {
			return fmt.Errorf("got completions %v, want %v", b.done, tc.done)
		}
		if b.q.CanSend() {
			return fmt.Errorf("the model would send %v, the guest did not", b.q.req.next)
		}
	}
	return nil
}

func TestReplayRequester(t *testing.T) {
	for _, tc := range requesterCases() {
		t.Run(filepath.Base(tc.name), func(t *testing.T) { require.NoError(t, tc.replay(t, LinuxRXE())) })
	}
}

// Each setting is there because a capture shows it: with another value that replay fails.
func TestReplayTellsSettingsApart(t *testing.T) {
	cases := []struct {
		name    string
		capture string
		spoil   func(*Settings)
	}{
		{"window 128", "req_window_16k", func(s *Settings) { s.Window = 128 }},
		{"window 130", "req_window_16k", func(s *Settings) { s.Window = 130 }},
		{"AckReq every 65", "req_all_long", func(s *Settings) { s.AckReqEvery = 65 }},
		{"AckReq at ends only", "req_all_long", func(s *Settings) { s.AckReqEvery = 0 }},
		{"every NAK obeyed", "req_naktwice", func(s *Settings) { s.NAKOncePerACK = false }},
		{"every NAK obeyed, under loss", "retransmit_rank0_guestside", func(s *Settings) { s.NAKOncePerACK = false }},
		{"ACK beyond ignored", "req_beyond", func(s *Settings) { s.AckBeyondCompletes = false }},
		{"silent after RNR", "resp_rnr", func(s *Settings) { s.RNRSilences = true }},
		{"lengths checked", "resp_short", func(s *Settings) { s.CheckLength = true }},
		{"status of a long message", "resp_long", func(s *Settings) { s.LongStatus = StatusLocalLength }},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := LinuxRXE()
			tc.spoil(&s)
			for _, r := range responderCases() {
				if r.name == tc.capture {
					require.Error(t, r.replay(t, s))
					return
				}
			}
			for _, r := range requesterCases() {
				if filepath.Base(r.name) == tc.capture {
					require.Error(t, r.replay(t, s))
					return
				}
			}
			t.Fatalf("no capture %s", tc.capture)
		})
	}
}
