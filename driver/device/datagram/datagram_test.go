package datagram_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/datagram"
	"github.com/epic-inc/epic/driver/device/devicetest"
)

// free is an address that nobody has just now.
func free(t *testing.T, host string) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(host), 0)))
	require.NoError(t, err)
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestConformance(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			devicetest.Run(t, devicetest.Backend{Open: func() (device.Link, device.Link, error) {
				a, b := free(t, host), free(t, host)
				x, err := datagram.Open(datagram.Options{Local: a, Remote: b})
				if err != nil {
					return nil, nil, err
				}
				y, err := datagram.Open(datagram.Options{Local: b, Remote: a})
				return x, y, err
			}})
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	here := netip.MustParseAddrPort("127.0.0.1:5000")
	for name, row := range map[string]struct {
		o    datagram.Options
		want string
	}{
		"no remote":     {datagram.Options{Local: here}, "want two addresses as 127.0.0.1:5000"},
		"no port":       {datagram.Options{Local: here, Remote: netip.MustParseAddrPort("127.0.0.1:0")}, "want two addresses"},
		"MTU too long":  {datagram.Options{Local: here, Remote: here, MTU: 65486}, "MTU: got 65486 bytes, want 576..65485"},
		"MTU too short": {datagram.Options{Local: here, Remote: here, MTU: 100}, "MTU: got 100 bytes, want 576..65485"},
		"not ours":      {datagram.Options{Local: netip.MustParseAddrPort("192.0.2.1:5000"), Remote: here}, "datagram link 192.0.2.1:5000 to 127.0.0.1:5000: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := datagram.Open(row.o)
			require.Error(t, err)
			assert.Contains(t, err.Error(), row.want)
		})
	}
}
