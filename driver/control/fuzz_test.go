package control_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/control"
	"github.com/epic-inc/epic/golden/group"
)

// What is wrong with a file is told as problems of that file, and what is right is the same each time it is read.
func FuzzParseNetwork(f *testing.F) {
	f.Add([]byte(networkText))
	f.Add([]byte("version: 1\nswitches: [{name: a}]\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := control.ParseNetwork("n.yaml", text)
		if err != nil {
			var problems group.Problems
			require.ErrorAs(t, err, &problems)
			require.NotEmpty(t, problems)
			for _, p := range problems {
				require.Equal(t, "n.yaml", p.File)
				require.NotEmpty(t, p.Message)
			}
			return
		}
		again, err := control.ParseNetwork("n.yaml", text)
		require.NoError(t, err)
		require.Equal(t, n, again)
	})
}
