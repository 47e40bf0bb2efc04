package bitstream_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/bitstream"
	"github.com/epic-inc/epic/driver/bitstream/bittest"
)

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// What ecppack makes is understood to the last byte, for each die, compressed or not.
func TestParse(t *testing.T) {
	for _, tt := range []struct {
		size   int
		device string
	}{{25, "LFE5U-25F"}, {45, "LFE5U-45F"}, {85, "LFE5U-85F"}} {
		for _, compress := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s compressed %v", tt.device, compress), func(t *testing.T) {
				if testing.Short() && tt.size != 25 {
					t.Skip("only the smallest die: -short")
				}
				b, err := bitstream.Load(bittest.Make(t, tt.size, compress))
				require.NoError(t, err)
				assert.Equal(t, tt.device, b.Device.Name)
				assert.Equal(t, compress, b.Compressed)
				assert.Equal(t, []string{"Part: " + tt.device + "-6CABGA381"}, b.Header)
			})
		}
	}
}

// A file that is not whole and right is refused, and the message says what is wrong with it.
func TestRefused(t *testing.T) {
	for _, compress := range []bool{true, false} {
		good := read(t, bittest.Make(t, 25, compress))
		at := bytes.Index(good, []byte{0xe2, 0, 0, 0, 0x41, 0x11, 0x10, 0x43}) // VERIFY_ID
		require.Positive(t, at)
		change := func(at int, b ...byte) []byte {
			c := bytes.Clone(good)
			copy(c[at:], b)
			return c
		}
		for _, tt := range []struct {
			name string
			data []byte
			want string
		}{
			{"empty", nil, "the file is empty"},
			{"a text", []byte("hello, world\n"), "it does not begin with ff 00"},
			{"header alone", good[:10], "the file ends in its header"},
			{"binary header", append([]byte{0xff, 0, 1, 2}, good[2:]...), "its header is not text"},
			{"before the preamble", good[:30], "no preamble ff ff bd b3"},
			{"in the configuration", good[:len(good)/2], "the file ends here: it is truncated"},
			{"last command", bytes.TrimRight(good, "\xff")[:len(bytes.TrimRight(good, "\xff"))-1], "it is truncated"},
			{"without last command", good[:len(good)-8], "the file ends before its end command: it is truncated"},
			{"other family", change(at+4, 0x01, 0x2b, 0x90, 0x43), "it is for the IDCODE 0x012b9043, which is no ECP5"},
			{"other die", change(at+4, 0x41, 0x11, 0x30, 0x43), "want the 13294 of a whole LFE5U-85F: a partial bitstream"},
			{"same die by another name", change(at+4, 0x01), "the CRC is "},
			{"unknown command", change(at, 0x77), "unknown command 0x77 at "},
			{"something after the end", append(bytes.Clone(good), 0), ", after the end of the bitstream"},
			{"one file after another", append(bytes.Clone(good), good...), ", after the end of the bitstream"},
		} {
			t.Run(fmt.Sprintf("%s, compressed %v", tt.name, compress), func(t *testing.T) {
				_, err := bitstream.Parse(tt.data)
				assert.ErrorContains(t, err, tt.want)
			})
		}
	}
	_, err := bitstream.Load(filepath.Join(t.TempDir(), "none.bit"))
	assert.ErrorContains(t, err, "none.bit: no such file or directory")
}

// Wherever a bit is turned behind the header, the file is refused: the CRCs are checked, all of them.
func TestEveryBitIsChecked(t *testing.T) {
	for _, compress := range []bool{true, false} {
		good := read(t, bittest.Make(t, 25, compress))
		reset := bytes.Index(good, []byte{0x3b, 0, 0, 0, 0xe2}) // before it nothing is in a CRC
		end := bytes.LastIndex(good, []byte{0x5e, 0, 0, 0})     // behind the last
		require.Less(t, reset, end)
		random := rand.New(rand.NewPCG(1, 1))
		missed := 0
		for range 60 {
			at := reset + 4 + random.IntN(end-reset-4)
			c := bytes.Clone(good)
			c[at] ^= 1 << random.UintN(8)
			if _, err := bitstream.Parse(c); err == nil {
				// Dummy bytes after a frame are in the next one's CRC; the last frame's are in that of USERCODE.
				t.Logf("bit of byte %#x", at)
				missed++
			}
		}
		assert.Zero(t, missed)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{0xff, 0, 'a', 0, 0xff, 0xff, 0xff, 0xbd, 0xb3, 0xff, 0x3b, 0, 0, 0, 0xe2, 0, 0, 0, 0x41, 0x11, 0x10, 0x43, 0x82, 0x91, 0x1d, 0x8a, 0})
	f.Add([]byte{0xff, 0, 0xff, 0xff, 0xbd, 0xb3, 0xb2, 0xd0, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := bitstream.Parse(data); err == nil && b.Device.ID == 0 {
			t.Error("a bitstream of no device")
		}
	})
}
