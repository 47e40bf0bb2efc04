package roce_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// captures are all capture files of the repository.
func captures(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob("../../testdata/captures/*/*.pcap")
	require.NoError(tb, err)
	require.NotEmpty(tb, files, "testdata/captures is missing")
	return files
}

// frames reads the frames of a pcap file.
func frames(tb testing.TB, file string) [][]byte {
	tb.Helper()
	f, err := os.Open(file)
	require.NoError(tb, err)
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	require.NoError(tb, err)
	var all [][]byte
	for {
		data, info, err := r.ReadPacketData()
		if err != nil {
			break
		}
		require.Equal(tb, info.Length, info.CaptureLength)
		all = append(all, data)
	}
	return all
}

// Every frame of the kernel's RoCE stack is taken and comes out again the same, but for those that were
// spoiled on purpose to see what the kernel does: one bad ICRC, UDP checksum and TVer in each direction
// (testdata/README.md).
func TestCapturesComeOutAgain(t *testing.T) {
	verdicts := map[spec.Verdict]int{}
	for _, file := range captures(t) {
		for i, frame := range frames(t, file) {
			p, m := roce.Decode(frame)
			if m != nil {
				verdicts[m.Verdict]++
				t.Logf("%s frame %d: %v", filepath.Base(file), i+1, m)
				continue
			}
			verdicts[spec.VerdictOk]++
			require.Equal(t, frame, p.Encode(), "%s frame %d", file, i+1)
		}
	}
	assert.Equal(t, map[spec.Verdict]int{
		spec.VerdictOk:          2931,
		spec.VerdictUDPChecksum: 2,
		spec.VerdictBTHTver:     2,
		spec.VerdictICRC:        2,
	}, verdicts)
}
