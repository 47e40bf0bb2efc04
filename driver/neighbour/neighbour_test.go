package neighbour_test

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/neighbour"
	"github.com/epic-inc/epic/golden/roce"
)

var mine = map[netip.Addr]roce.MAC{
	netip.MustParseAddr("10.9.0.1"): {0x52, 0x54, 0, 0, 0, 1},
	netip.MustParseAddr("fd00::1"):  {0x52, 0x54, 0, 0, 0, 6},
}

func macOf(ip netip.Addr) (roce.MAC, bool) {
	m, ok := mine[ip]
	return m, ok
}

func frame(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(text))
	require.NoError(t, err)
	return b
}

// Frames written out by hand from the RFCs; 52:54:00:00:00:02 asks.
func TestReply(t *testing.T) {
	for name, one := range map[string]struct{ ask, want string }{
		"ARP": {
			`ffffffffffff 525400000002 0806  0001 0800 06 04 0001  525400000002 0a090002  000000000000 0a090001`,
			`525400000002 525400000001 0806  0001 0800 06 04 0002  525400000001 0a090001  525400000002 0a090002`,
		},
		"echo": { // checksums: the sum of the words, folded and inverted
			`525400000001 525400000002 0800  45000020 12340000 40010000 0a090002 0a090001  08000000 00070001 61626364`,
			`525400000002 525400000001 0800  45000020 00000000 400166c9 0a090001 0a090002  00003b31 00070001 61626364`,
		},
		"neighbour solicitation": {
			`3333ff000001 525400000002 86dd  60000000 0020 3a ff  fd000000000000000000000000000002 ff0200000000000000000001ff000001
			 87000000 00000000 fd000000000000000000000000000001  0101525400000002`,
			`525400000002 525400000006 86dd  60000000 0020 3a ff  fd000000000000000000000000000001 fd000000000000000000000000000002
			 8800cccc 60000000 fd000000000000000000000000000001  0201525400000006`,
		},
		"duplicate address detection": {
			`3333ff000001 525400000002 86dd  60000000 0018 3a ff  00000000000000000000000000000000 ff0200000000000000000001ff000001
			 87000000 00000000 fd000000000000000000000000000001`,
			`525400000002 525400000006 86dd  60000000 0020 3a ff  fd000000000000000000000000000001 ff020000000000000000000000000001
			 8800cccc 20000000 fd000000000000000000000000000001  0201525400000006`,
		},
		"echo over IPv6": {
			`525400000006 525400000002 86dd  60000000 000c 3a 40  fd000000000000000000000000000002 fd000000000000000000000000000001
			 80000000 00070001 61626364`,
			`525400000002 525400000006 86dd  60000000 000c 3a ff  fd000000000000000000000000000001 fd000000000000000000000000000002
			 8100cccc 00070001 61626364`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := neighbour.Reply(frame(t, one.ask), macOf)
			require.NotNil(t, got)
			want := frame(t, one.want)
			if at := strings.Index(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(one.want), "cccc"); at >= 0 {
				at /= 2
				// The checksum over the pseudo-header (RFC 8200, 8.1): with it all words add up to 0xffff.
				body := got[54:]
				sum := roce.OnesSum(0, append(append(append([]byte{}, got[22:54]...), 0, 0, 0, byte(len(body)), 0, 0, 0, 58), body...))
				require.Equal(t, uint16(0xffff), sum, "checksum")
				copy(want[at:], got[at:at+2])
			}
			if n := 60 - len(want); n > 0 { // Ethernet's shortest frame
				want = append(want, make([]byte, n)...)
			}
			require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))
		})
	}
}

func TestNoReply(t *testing.T) {
	for name, ask := range map[string]string{
		"ARP for another":  `ffffffffffff 525400000002 0806  0001 0800 06 04 0001  525400000002 0a090002  000000000000 0a090003`,
		"ARP reply":        `ffffffffffff 525400000002 0806  0001 0800 06 04 0002  525400000002 0a090002  000000000000 0a090001`,
		"echo reply":       `525400000001 525400000002 0800  45000020 12340000 40010000 0a090002 0a090001  00000000 00070001 61626364`,
		"echo for another": `525400000001 525400000002 0800  45000020 12340000 40010000 0a090002 0a090003  08000000 00070001 61626364`,
		"solicits another": `3333ff000001 525400000002 86dd  60000000 0018 3a ff  fd000000000000000000000000000002 ff0200000000000000000001ff000001 87000000 00000000 fd000000000000000000000000000003`,
		"cut off":          `ffffffffffff 525400000002 0806  0001 0800`,
		"nothing":          ``,
		"of another type":  `525400000001 525400000002 88b5 0000`,
		"UDP":              `525400000001 525400000002 0800  4500001c 00000000 40110000 0a090002 0a090001  12b712b7 00080000`,
	} {
		t.Run(name, func(t *testing.T) { require.Nil(t, neighbour.Reply(frame(t, ask), macOf)) })
	}
}
