package engine

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Everything that a frame's headers take from the endpoint that sends it (protocol.md 3).
func TestHeaderOfEndpoint(t *testing.T) {
	tci := uint16(0x6064) // priority 3, VLAN 100
	for name, tc := range map[string]struct {
		vlan     *uint16
		ip, peer string
		df       bool
		wantVLAN []roce.VLANTag
	}{
		"no tag":        {nil, "10.9.0.99", "10.9.0.1", true, nil},
		"tag":           {&tci, "10.9.0.99", "10.9.0.1", true, []roce.VLANTag{{TPID: 0x8100, TCI: 0x6064}}},
		"tag over IPv6": {&tci, "fd00::99", "fd00::1", false, []roce.VLANTag{{TPID: 0x8100, TCI: 0x6064}}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := flat(2, 4, 0)
			ep := &cfg.Endpoints[1]
			ep.MAC, ep.PeerMAC = roce.MAC{2, 0, 0, 0, 0, 0x63}, roce.MAC{2, 0, 0, 0, 0, 1}
			ep.IP, ep.PeerIP = netip.MustParseAddr(tc.ip), netip.MustParseAddr(tc.peer)
			ep.PeerQPN, ep.PKey, ep.UDPSport, ep.TTL, ep.TOS, ep.MigReq, ep.VLAN = 17, 0x8001, 50000, 7, 0x68, true, tc.vlan
			e, err := New(cfg)
			require.NoError(t, err)
			got := e.header(1, 0xabc, spec.OpcodeSendOnly)
			assert.Equal(t, &roce.Packet{
				DstMAC: roce.MAC{2, 0, 0, 0, 0, 1}, SrcMAC: roce.MAC{2, 0, 0, 0, 0, 0x63}, VLAN: tc.wantVLAN,
				Src: netip.MustParseAddr(tc.ip), Dst: netip.MustParseAddr(tc.peer), TOS: 0x68, TTL: 7, DF: tc.df,
				SrcPort: 50000, Opcode: spec.OpcodeSendOnly, MigReq: true, PKey: 0x8001, DestQP: 17, PSN: 0xabc,
			}, got)
			again, bad := roce.Decode(got.Encode())
			require.Nil(t, bad)
			assert.Equal(t, tc.wantVLAN, again.VLAN)
		})
	}
}

// An endpoint may be written while results of its pipe are still to be sent.
func TestRewriteTakenFromARunningPipe(t *testing.T) {
	c := flat(1, 4, 0)
	c.Endpoints[0].Rewrite = &Rewrite{InVA: 0x100, OutVA: 0x900, RKey: 5}
	e := programmed(t, c)
	ev := dataFrom(&c, 0, 0, 1)
	ev.Packet.Opcode, ev.Packet.VA, ev.Packet.DMALength = spec.OpcodeWriteOnly, 0x140, 4
	sent := frames(e.Run(ev))
	require.Len(t, sent, 1)
	assert.Equal(t, uint64(0x940), sent[0].VA)
	assert.Equal(t, uint32(5), sent[0].RKey)
	bare := c.Endpoints[0]
	bare.Rewrite = nil
	write := Event{Cause: spec.CauseTableWrite, Endpoint: 0, Pipe: None, NewEndpoint: &bare}
	require.NoError(t, e.Legal(write))
	again := frames(e.Run(write)) // its cursor is at psn 0 again
	require.Len(t, again, 1)
	assert.Equal(t, uint64(0x40), again[0].VA)
	assert.Zero(t, again[0].RKey)
	assert.Equal(t, uint32(4), again[0].DMALength)
}
