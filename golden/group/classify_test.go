package group

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

func TestClassifier(t *testing.T) {
	g, err := Parse("f", []byte(twoLevel))
	require.NoError(t, err)
	fromRank1 := roce.Packet{
		SrcMAC: roce.MAC{2, 0, 0, 0, 0, 2}, Src: netip.MustParseAddr("fd00::12"), Dst: netip.MustParseAddr("fd00::2"),
		Opcode: spec.OpcodeSendOnly, PKey: 0xffff, DestQP: 0x102, Payload: make([]byte, 1024),
	}
	fromLeaf := roce.Packet{
		SrcMAC: roce.MAC{2, 0, 0, 1, 0, 2}, Src: netip.MustParseAddr("fd00::2"), Dst: netip.MustParseAddr("fd00::1"),
		Opcode: spec.OpcodeAcknowledge, PKey: 0xffff, DestQP: 0x101,
	}
	for _, tc := range []struct {
		name   string
		sw     string
		port   int
		packet roce.Packet
		change func(*roce.Packet)
		want   spec.Verdict
	}{
		{"rank to leaf", "", 1, fromRank1, nil, spec.VerdictOk},
		{"port not known", "", -1, fromRank1, nil, spec.VerdictOk},
		{"other port", "", 0, fromRank1, nil, spec.VerdictIngressPort},
		{"leaf to root", "", 0, fromLeaf, nil, spec.VerdictOk},
		{"leaf to root, asked of the leaf", "leaf", -1, fromLeaf, nil, spec.VerdictDstIP},
		{"rank to leaf, asked of the root", "root", -1, fromRank1, nil, spec.VerdictNoEndpoint},
		{"to a rank", "", -1, fromRank1, func(p *roce.Packet) { p.DestQP = 17 }, spec.VerdictNoEndpoint},
		{"source MAC", "", -1, fromRank1, func(p *roce.Packet) { p.SrcMAC[5]++ }, spec.VerdictSrcMAC},
		{"partition", "", -1, fromRank1, func(p *roce.Packet) { p.PKey = 0x8001 }, spec.VerdictPKey},
		{"length", "", -1, fromRank1, func(p *roce.Packet) { p.Payload = p.Payload[:1023] }, spec.VerdictPayloadLength},
	} {
		t.Run(tc.name, func(t *testing.T) {
			classify, err := g.Classifier(tc.sw)
			require.NoError(t, err)
			p := tc.packet
			if tc.change != nil {
				tc.change(&p)
			}
			assert.Equal(t, tc.want, classify(tc.port, &p))
		})
	}
	_, err = g.Classifier("spine")
	assert.ErrorContains(t, err, `switch "spine" does not exist, want one of root, leaf`)
}
