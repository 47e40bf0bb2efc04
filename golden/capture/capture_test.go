package capture_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/oracle"
)

// readAll reads a whole capture.
func readAll(b []byte) (all []capture.Frame, err error) {
	r, err := capture.NewReader("x.pcap", bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			_, again := r.Next()
			if again != err {
				return all, errors.New("the error did not stay")
			}
			return all, err
		}
		all = append(all, f)
	}
}

// w builds files in one byte order.
type w struct {
	binary.AppendByteOrder
	b []byte
}

func (x *w) u32(vs ...uint32) {
	for _, v := range vs {
		x.b = x.AppendUint32(x.b, v)
	}
}

func (x *w) block(typ uint32, body []byte) {
	body = append(slices.Clone(body), make([]byte, -len(body)&3)...)
	n := uint32(len(body) + 12)
	x.u32(typ, n)
	x.b = append(x.b, body...)
	x.u32(n)
}

func (x *w) words(vs ...uint32) []byte {
	var b []byte
	for _, v := range vs {
		b = x.AppendUint32(b, v)
	}
	return b
}

func (x *w) section() {
	body := x.words(0x1a2b3c4d)
	body = x.AppendUint16(body, 1)
	body = x.AppendUint16(body, 0)
	x.block(0x0a0d0d0a, append(body, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
}

func (x *w) iface(link uint16, snap uint32, options ...byte) {
	body := x.AppendUint16(nil, link)
	body = x.AppendUint16(body, 0)
	body = x.AppendUint32(body, snap)
	x.block(1, append(body, options...))
}

func orders() map[string]binary.AppendByteOrder {
	return map[string]binary.AppendByteOrder{"little": binary.LittleEndian, "big": binary.BigEndian}
}

// pcap is a file with frames of 3 and 60 bytes (of 100), made by hand.
func pcap(order binary.AppendByteOrder, magic uint32) *w {
	x := &w{AppendByteOrder: order}
	x.u32(magic)
	x.b = x.AppendUint16(x.b, 2)
	x.b = x.AppendUint16(x.b, 4)
	x.u32(0, 0, 65535, 1)
	x.u32(100, 7, 3, 3)
	x.b = append(x.b, 1, 2, 3)
	x.u32(101, 8, 60, 100)
	x.b = append(x.b, make([]byte, 60)...)
	return x
}

func TestPcap(t *testing.T) {
	for name, order := range orders() {
		for magic, unit := range map[uint32]time.Duration{0xa1b2c3d4: time.Microsecond, 0xa1b23c4d: time.Nanosecond} {
			all, err := readAll(pcap(order, magic).b)
			require.NoError(t, err, name)
			assert.Equal(t, []capture.Frame{
				{N: 1, Time: time.Unix(100, 0).Add(7 * unit).UTC(), Data: []byte{1, 2, 3}, Length: 3, Offset: 24},
				{N: 2, Time: time.Unix(101, 0).Add(8 * unit).UTC(), Data: make([]byte, 60), Length: 100, Offset: 43},
			}, all, name)
		}
	}
}

// pcapng is a file with all block types that hold frames, two sections and some blocks to skip.
func pcapng(order binary.AppendByteOrder) (*w, []capture.Frame) {
	x := &w{AppendByteOrder: order}
	x.section()
	var opts []byte
	opts = x.AppendUint16(opts, 2) // if_name
	opts = x.AppendUint16(opts, 5)
	opts = append(opts, "port0\x00\x00\x00"...)
	x.iface(1, 0, opts...)
	opts = x.AppendUint16(nil, 9) // if_tsresol: 2^-10 s
	opts = x.AppendUint16(opts, 1)
	opts = append(opts, 0x8a, 0, 0, 0)
	opts = x.AppendUint16(opts, 14) // if_tsoffset
	opts = x.AppendUint16(opts, 8)
	opts = x.AppendUint64(opts, 1000)
	opts = append(opts, 0, 0, 0, 0)
	x.iface(1, 64, opts...)
	x.iface(147, 0) // not Ethernet, and no frame on it
	x.block(4, make([]byte, 8))
	var want []capture.Frame
	add := func(f capture.Frame) {
		f.N = len(want) + 1
		want = append(want, f)
	}

	add(capture.Frame{Interface: 1, Time: time.Unix(1003, 5e8).UTC(), Data: []byte{1, 2, 3, 4, 5}, Length: 9, Offset: int64(len(x.b))})
	x.block(6, append(x.words(1, 0, 3<<10+512, 5, 9), 1, 2, 3, 4, 5))
	x.block(5, make([]byte, 12))
	add(capture.Frame{Name: "port0", Time: time.Unix(4294, 967296000+2000).UTC(), Data: []byte{7}, Length: 1, Offset: int64(len(x.b))})
	x.block(2, append(append(x.AppendUint16(x.AppendUint16(nil, 0), 0), x.words(1, 2, 1, 1)...), 7))
	add(capture.Frame{Name: "port0", Data: []byte{8, 9}, Length: 2, Offset: int64(len(x.b))})
	x.block(3, append(x.words(2), 8, 9))

	x.section()
	x.iface(1, 4)
	add(capture.Frame{Data: []byte{1, 2, 3, 4}, Length: 6, Offset: int64(len(x.b))})
	x.block(3, append(x.words(6), 1, 2, 3, 4))
	add(capture.Frame{Time: time.Unix(0, 1000).UTC(), Data: []byte{}, Length: 0, Offset: int64(len(x.b))})
	x.block(6, x.words(0, 0, 1, 0, 0))
	return x, want
}

func TestPcapng(t *testing.T) {
	for name, order := range orders() {
		x, want := pcapng(order)
		all, err := readAll(x.b)
		require.NoError(t, err, name)
		assert.Equal(t, want, all, name)
	}
	// Sections of different byte order.
	a, wantA := pcapng(binary.LittleEndian)
	b, wantB := pcapng(binary.BigEndian)
	all, err := readAll(slices.Concat(a.b, b.b))
	require.NoError(t, err)
	assert.Len(t, all, len(wantA)+len(wantB))
}

// A file that ends anywhere but between two records is truncated: said with the place and what was wanted.
func TestTruncatedAtEveryByte(t *testing.T) {
	little := binary.LittleEndian
	ng, frames := pcapng(little)
	for name, c := range map[string]struct {
		file []byte
		good map[int]bool // where it may end
	}{
		"pcap":   {pcap(little, 0xa1b2c3d4).b, map[int]bool{24: true, 43: true, 119: true}},
		"pcapng": {ng.b, boundaries(little, ng.b)},
	} {
		require.Greater(t, len(c.good), 2)
		for n := range len(c.file) + 1 {
			all, err := readAll(c.file[:n])
			if c.good[n] {
				require.NoError(t, err, "%s: %d bytes", name, n)
				continue
			}
			var bad *capture.FormatError
			require.ErrorAs(t, err, &bad, "%s: %d bytes", name, n)
			require.LessOrEqual(t, bad.Offset, int64(n))
			require.Equal(t, "x.pcap", bad.File)
			require.LessOrEqual(t, len(all), len(frames))
		}
	}
	_, err := readAll(pcap(little, 0xa1b2c3d4).b[:40])
	assert.EqualError(t, err,
		"x.pcap: at byte 40: got the end of the file after 0 bytes, want 3 bytes of frame 1 (the capture is truncated)")
	_, err = readAll(pcap(little, 0xa1b2c3d4).b[:50])
	assert.EqualError(t, err,
		"x.pcap: at byte 43: got the end of the file after 7 bytes, want 16 bytes of pcap record header (the capture is truncated)")
}

func boundaries(order binary.ByteOrder, b []byte) map[int]bool {
	good := map[int]bool{}
	for at := 0; at < len(b); {
		at += int(order.Uint32(b[at+4:]))
		good[at] = true
	}
	return good
}

func TestRefused(t *testing.T) {
	little := binary.LittleEndian
	spoil := func(b []byte, at int, v ...byte) []byte {
		b = slices.Clone(b)
		copy(b[at:], v)
		return b
	}
	good := pcap(little, 0xa1b2c3d4).b
	ng := func(f func(x *w)) []byte {
		x := &w{AppendByteOrder: little}
		x.section()
		f(x)
		return x.b
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":                         {nil, "x.pcap: at byte 0: got a file of 0 bytes, want the magic number of pcap or pcapng"},
		"text":                          {[]byte("hello, world"), "x.pcap: at byte 0: got 68 65 6c 6c, want the magic number of pcap or pcapng"},
		"gzip":                          {[]byte{0x1f, 0x8b, 8, 0}, "x.pcap: at byte 0: got gzip-compressed data, want the magic number of pcap or pcapng: decompress it first"},
		"version":                       {spoil(good, 4, 3), "x.pcap: at byte 4: got pcap version 3, want 2"},
		"raw IP":                        {spoil(good, 20, 101), "x.pcap: at byte 20: got link type 101, want 1 (Ethernet)"},
		"type 257, whose low byte is 1": {spoil(good, 20, 1, 1), "x.pcap: at byte 20: got link type 257, want 1 (Ethernet)"},
		"huge frame": {spoil(good, 32, 0, 0, 0, 0x10),
			"x.pcap: at byte 32: got captured length 268435456 of frame 1, want at most 262144"},
		"more captured than there was": {spoil(good, 36, 2),
			"x.pcap: at byte 32: got captured length 3 of frame 1, want at most its length 2"},
		"byte-order magic": {spoil(ng(func(*w) {}), 8, 0), "x.pcap: at byte 8: got 00 3c 2b 1a, want pcapng byte-order magic 1a2b3c4d"},
		"pcapng version":   {spoil(ng(func(*w) {}), 12, 9), "x.pcap: at byte 12: got pcapng version 9, want 1"},
		"block length":     {spoil(ng(func(*w) {}), 4, 29), "x.pcap: at byte 4: got block length 29, want a multiple of 4 in 16..16777216"},
		"length at the end": {spoil(ng(func(*w) {}), 24, 24),
			"x.pcap: at byte 24: got block length 24 at its end, want 28 as at its start"},
		"interface": {ng(func(x *w) { x.iface(1, 0); x.block(6, x.words(1, 0, 0, 0, 0)) }),
			"x.pcap: at byte 56: got frame 1 of interface 1, want one of the section's 1 interfaces"},
		"frame of raw IP": {ng(func(x *w) { x.iface(101, 0); x.block(6, x.words(0, 0, 0, 0, 0)) }),
			"x.pcap: at byte 56: got frame 1 of interface 0 with link type 101, want link type 1 (Ethernet)"},
		"frame of type 257": {ng(func(x *w) { x.iface(257, 0); x.block(6, x.words(0, 0, 0, 0, 0)) }),
			"x.pcap: at byte 56: got frame 1 of interface 0 with link type 257, want link type 1 (Ethernet)"},
		"captured beyond its block": {ng(func(x *w) { x.iface(1, 0); x.block(6, x.words(0, 0, 0, 8, 8, 0)) }),
			"x.pcap: at byte 68: got captured length 8 of frame 1, want at most 4"},
		"block too small": {ng(func(x *w) { x.iface(1, 0); x.block(6, x.words(0, 0)) }),
			"x.pcap: at byte 56: got a block of type 0x6 with 8 bytes, want at least 20"},
		"option beyond its block": {ng(func(x *w) { x.iface(1, 0, 2, 0, 9, 0, 1, 2, 3, 4) }),
			"x.pcap: at byte 44: got option 2 of 9 bytes, want at most 4"},
		"time resolution": {ng(func(x *w) { x.iface(1, 0, 9, 0, 1, 0, 20, 0, 0, 0) }),
			"x.pcap: at byte 44: got time resolution 10^-20, want at most 10^-19"},
	} {
		_, err := readAll(c.file)
		assert.EqualError(t, err, c.want, name)
		var bad *capture.FormatError
		assert.ErrorAs(t, err, &bad, name)
	}
	_, err := capture.Open(filepath.Join(t.TempDir(), "none.pcap"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

// A read that fails is not a truncated file.
func TestReadError(t *testing.T) {
	good := pcap(binary.LittleEndian, 0xa1b2c3d4).b
	r, err := capture.NewReader("x", io.MultiReader(bytes.NewReader(good[:50]), failing{}))
	require.NoError(t, err)
	_, err = r.Next()
	require.NoError(t, err)
	_, err = r.Next()
	assert.ErrorContains(t, err, "disk on fire")
	var bad *capture.FormatError
	assert.False(t, errors.As(err, &bad))
}

// What gopacket writes is read back, and what gopacket reads of the kernel's captures is read the same.
func TestAgainstPcapgo(t *testing.T) {
	files, err := filepath.Glob("../../testdata/captures/*/*.pcap")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		theirs, err := pcapgo.NewReader(bytes.NewReader(content))
		require.NoError(t, err)
		var ng bytes.Buffer
		writer, err := pcapgo.NewNgWriter(&ng, layers.LinkTypeEthernet)
		require.NoError(t, err)
		ours, err := capture.Open(file)
		require.NoError(t, err)
		var all []capture.Frame
		for {
			data, info, err := theirs.ReadPacketData()
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			f, err := ours.Next()
			require.NoError(t, err)
			require.Equal(t, data, f.Data)
			require.Equal(t, info.Length, f.Length)
			require.Equal(t, info.Timestamp, f.Time)
			require.Equal(t, data, content[f.Offset+16:][:len(data)])
			require.NoError(t, writer.WritePacket(gopacket.CaptureInfo{Timestamp: info.Timestamp,
				CaptureLength: len(data), Length: len(data)}, data))
			all = append(all, f)
		}
		_, err = ours.Next()
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, ours.Close())
		assert.True(t, ours.IsPcap())

		require.NoError(t, writer.Flush())
		again, err := readAll(ng.Bytes())
		require.NoError(t, err)
		require.Len(t, again, len(all))
		for i := range all {
			require.Equal(t, all[i].Data, again[i].Data)
			require.Equal(t, all[i].Time, again[i].Time)
		}
	}
}

// What editcap makes of a capture (pcapng, nanoseconds) holds the same frames.
func TestAgainstEditcap(t *testing.T) {
	if testing.Short() {
		t.Skip("not compared with editcap: -short")
	}
	if _, err := exec.LookPath("editcap"); err != nil {
		oracle.Skip(t, "editcap is missing: scripts/setup test")
	}
	const file = "../../testdata/captures/rxe_behaviour/req_all_write.pcap"
	want := read(t, file)
	for _, format := range []string{"pcapng", "nsecpcap", "pcap"} {
		out := filepath.Join(t.TempDir(), format)
		msg, err := exec.CommandContext(t.Context(), "editcap", "-F", format, file, out).CombinedOutput()
		require.NoError(t, err, "%s", msg)
		got := read(t, out)
		require.Len(t, got, len(want))
		for i := range want {
			want[i].Offset, got[i].Offset = 0, 0
			require.Equal(t, want[i], got[i], format)
		}
	}
	out := filepath.Join(t.TempDir(), "cut")
	msg, err := exec.CommandContext(t.Context(), "editcap", "-s", "64", file, out).CombinedOutput()
	require.NoError(t, err, "%s", msg)
	for i, f := range read(t, out) {
		assert.Len(t, f.Data, min(64, want[i].Length))
		assert.Equal(t, want[i].Length, f.Length)
	}
}

func read(t *testing.T, file string) []capture.Frame {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	all, err := readAll(b)
	require.NoError(t, err)
	return all
}

// No file makes the reader fail otherwise than with an error, or take more than the file holds.
func FuzzReader(f *testing.F) {
	for _, order := range orders() {
		f.Add(pcap(order, 0xa1b2c3d4).b)
		x, _ := pcapng(order)
		f.Add(x.b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := readAll(b)
		total := 0
		for i, frame := range all {
			require.Equal(t, i+1, frame.N)
			require.LessOrEqual(t, len(frame.Data), frame.Length)
			total += len(frame.Data)
		}
		require.LessOrEqual(t, total, len(b))
		if err != nil {
			var bad *capture.FormatError
			require.ErrorAs(t, err, &bad)
			require.LessOrEqual(t, bad.Offset, int64(len(b)))
		}
	})
}
