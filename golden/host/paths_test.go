package host

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// pathCase is a capture of a guest (interop/client) that is rank 0 of an AllReduce, on other paths than those of the
// older captures: path MTU 4096, and IPv6. It sends and receives in one queue pair.
type pathCase struct {
	name    string
	mtu     int
	ipv6    bool
	signal  bool // the first message is a control signal (protocol.md 10)
	packets int  // of the vector, the last one 12 bytes shorter
	message int  // packets
	gaps    bool // the wire lost frames
	sends   int  // data frames that the guest sent, if the wire lost none: each once
}

func pathCases() []pathCase {
	return []pathCase{
		{name: "mtu4096_ipv4", mtu: 4096, packets: 18, message: 4, sends: 18},
		{name: "mtu4096_ipv6", mtu: 4096, ipv6: true, packets: 18, message: 4, sends: 18},
		{name: "mtu1024_ipv6_wild", mtu: 1024, ipv6: true, signal: true, packets: 40, message: 4, gaps: true},
	}
}

// sizes of the messages in each direction.
func (tc pathCase) sizes() (list []int) {
	if tc.signal {
		list = append(list, spec.ControlBytes)
	}
	for left := tc.packets*tc.mtu - 12; left > 0; left -= tc.message * tc.mtu {
		list = append(list, min(left, tc.message*tc.mtu))
	}
	return list
}

func (tc pathCase) config(frames []captured) (Config, error) {
	for _, c := range frames {
		if c.sent && c.pkt != nil && !c.pkt.HasAETH() {
			return Config{Name: "guest", MAC: c.pkt.SrcMAC, PeerMAC: c.pkt.DstMAC, IP: c.pkt.Src, PeerIP: c.pkt.Dst, QPN: guestQPN(frames), PeerQPN: c.pkt.DestQP,
				PKey: 0xffff, UDPSport: c.pkt.SrcPort, TTL: 64, SendPSN: 0xfffff0, RecvPSN: 0xfffff0, MTU: tc.mtu, Timeout: 16, RetryCnt: 7, RNRRetry: 7,
				MinRNRTimer: 1, Settings: LinuxRXE()}, nil
		}
	}
	return Config{}, fmt.Errorf("the guest sent nothing")
}

// replay holds what the guest sent against the model: its requests if nothing was lost, for else they depend on its
// timers; its answers always, for they depend on what came and nothing else.
func (tc pathCase) replay(frames []captured, cfg Config) error {
	q, err := New(cfg)
	if err != nil {
		return err
	}
	var asked, answered, sent, answers []*roce.Packet // by the guest, by the model
	var vector []byte
	seen := map[psn.PSN]bool{}
	for _, c := range frames {
		switch {
		case c.pkt == nil:
			return fmt.Errorf("a frame does not decode: %s", c.wrong)
		case c.sent && c.pkt.HasAETH():
			answered = append(answered, c.pkt)
		case c.sent && seen[c.pkt.PSN]: // sent again, since an emulated guest is slow at times
		case c.sent:
			seen[c.pkt.PSN] = true
			asked = append(asked, c.pkt)
			vector = append(vector, c.pkt.Payload...)
		}
	}
	take := func(outs []Output) {
		for _, o := range outs {
			if o.Kind != Frame {
				continue
			}
			if o.Packet.HasAETH() {
				answers = append(answers, o.Packet)
			} else {
				sent = append(sent, o.Packet)
			}
		}
	}
	for i, n := range tc.sizes() {
		take(q.Run(Event{Kind: PostRecv, Receive: Receive{ID: uint64(i), Bytes: n}}))
	}
	if !tc.gaps {
		for i, n := range tc.sizes() {
			if len(vector) < n {
				return fmt.Errorf("the guest sent %d bytes less than its vector has", n-len(vector))
			}
			take(q.Run(Event{Kind: PostSend, Message: Message{ID: uint64(i), Payload: vector[:n]}}))
			vector = vector[n:]
		}
	}
	for _, c := range frames {
		if !c.sent && !c.pkt.HasAETH() {
			take(q.Run(Event{Kind: Deliver, Packet: c.pkt}))
		}
	}
	if !tc.gaps {
		if err := sameFrames("request", sent, asked, tc.sends); err != nil {
			return err
		}
	}
	return sameFrames("answer", answers, answered, 0)
}

func sameFrames(what string, got, want []*roce.Packet, count int) error {
	for i := range min(len(got), len(want)) {
		if d := differs(got[i], want[i]); d != "" {
			return fmt.Errorf("%s %d of %d: %s", what, i, len(want), d)
		}
	}
	if len(got) != len(want) || len(want) == 0 || count > 0 && len(want) != count {
		return fmt.Errorf("got %d frames that are a %s, want %d (%d)", len(got), what, len(want), count)
	}
	return nil
}

// Path MTU 4096 and IPv6 are as the older captures of MTU 1024 over IPv4, header for header: in IPv6 the UDP checksum
// and the flow label are 0, the hop limit is 64.
func TestReplayPaths(t *testing.T) {
	for _, tc := range pathCases() {
		t.Run(tc.name, func(t *testing.T) {
			frames := readCapture(t, "rxe_paths/"+tc.name)
			cfg, err := tc.config(frames)
			require.NoError(t, err)
			require.Equal(t, tc.ipv6, cfg.IP.Is6())
			naks := 0
			for _, c := range frames {
				if c.sent && c.pkt.HasAETH() && c.pkt.Syndrome == 0x60 {
					naks++
				}
			}
			require.Equal(t, tc.gaps, naks > 0)
			require.NoError(t, tc.replay(frames, cfg))

			for _, wrong := range []func(*Config){
				func(c *Config) { c.TTL = 63 },
				func(c *Config) { c.UDPSport++ },
				func(c *Config) { c.RecvPSN++ },
				func(c *Config) { c.MTU /= 2 },
			} {
				bad := cfg
				wrong(&bad)
				require.Error(t, tc.replay(frames, bad), "%+v", bad)
			}
		})
	}
}
