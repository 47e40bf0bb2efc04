package softswitch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
)

// A port that is taken is of the switch, and is one of an interface or of two addresses.
func FuzzParsePort(f *testing.F) {
	for _, seed := range []string{"0=eth0", "63=udp:127.0.0.1:1,127.0.0.1:2", "1=udp:[::1%lo]:1,[::1]:2", "64=a", "=", "1=udp:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePort(text)
		if err != nil {
			require.Zero(t, p)
			return
		}
		require.GreaterOrEqual(t, p.Number, 0)
		require.Less(t, p.Number, engine.MaxPorts)
		written := fmt.Sprintf("%d=%s", p.Number, p.Interface)
		if p.Interface == "" {
			require.True(t, p.Local.IsValid() && p.Remote.IsValid())
			written = fmt.Sprintf("%d=udp:%v,%v", p.Number, p.Local, p.Remote)
		}
		again, err := ParsePort(written)
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}
