package frame

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A frame written out by hand: the CRC-32 of "123456789" is 0xcbf43926 in every table of CRCs.
func TestFrameByHand(t *testing.T) {
	want := append([]byte{14}, "123456789\x26\x39\xf4\xcb"...)
	assert.Equal(t, append(want, 0), appendFrame(nil, []byte("123456789")))

	got := Request{Version: 1, Op: OpReadRegister, Tag: 7, Addr: 0x1000}.Append(nil)
	// 11 07 | 00 | 10 | 00 | 00 | CRC: four runs, three of them ended by a zero of the address.
	assert.Equal(t, []byte{3, 0x11, 7, 2, 0x10, 1}, got[:6])
}

// The runs of COBS, from the paper's table: an empty run, one of 253, 254 and 255 bytes.
func TestStuff(t *testing.T) {
	run := func(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }
	for _, tt := range []struct{ body, want []byte }{
		{[]byte{0}, []byte{1, 1}},
		{[]byte{0, 0}, []byte{1, 1, 1}},
		{[]byte{'x', 0, 'x'}, []byte{2, 'x', 2, 'x'}},
		{run(253), append([]byte{254}, run(253)...)},
		{run(254), append([]byte{255}, run(254)...)},
		{run(255), append(append([]byte{255}, run(254)...), 2, 'x')},
		{append(run(254), 0), append(append([]byte{255}, run(254)...), 1, 1)},
	} {
		t.Run(fmt.Sprint(len(tt.body)), func(t *testing.T) {
			assert.Equal(t, tt.want, stuff(nil, tt.body))
			got, err := unstuff(nil, tt.want)
			require.NoError(t, err)
			assert.Equal(t, tt.body, got)
		})
	}
}

func TestLengths(t *testing.T) {
	// A full page, whatever is in it, costs at most 1/0.95 of itself: the 90 % of the line need it.
	for _, fill := range []byte{0, 1, 0xff} {
		got := Request{Version: 1, Op: OpProgramPage, Payload: bytes.Repeat([]byte{fill}, PageBytes)}.Append(nil)
		assert.LessOrEqual(t, len(got), 269)
	}
	assert.Equal(t, HelloBytes, len(Hello{}.Append(nil)))
}

// everything feeds in pieces of the given size and returns what was found.
func everything(stream []byte, piece int) (bodies [][]byte, bad int) {
	var s Scanner
	for len(stream) > 0 {
		n := min(piece, len(stream))
		s.Feed(stream[:n], func(body []byte, err error) {
			if err != nil {
				bad++
				return
			}
			bodies = append(bodies, body)
		})
		stream = stream[n:]
	}
	return bodies, bad
}

// Requests come back, however the stream is cut, between garbage that ends with a delimiter.
func TestScanner(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var stream []byte
	var want []Request
	for i := range 300 {
		r := Request{Version: 1, Op: Op(i % 16), Tag: uint8(i), Addr: random.Uint32(), Payload: make([]byte, random.IntN(PayloadBytes+1))}
		for j := range r.Payload {
			r.Payload[j] = byte(random.IntN(3) * random.IntN(200))
		}
		want = append(want, r)
		if i%3 == 0 {
			for range random.IntN(600) {
				stream = append(stream, byte(random.UintN(256)))
			}
			stream = append(stream, Delimiter)
		}
		stream = r.Append(stream)
	}
	for _, piece := range []int{1, 2, 7, 300, len(stream)} {
		bodies, bad := everything(stream, piece)
		require.Len(t, bodies, len(want))
		assert.Positive(t, bad)
		for i, body := range bodies {
			got, err := DecodeRequest(body)
			require.NoError(t, err)
			require.Equal(t, want[i], got)
		}
	}
}

// Every single byte of a frame that is changed, lost or doubled is noticed.
func TestEveryByteCounts(t *testing.T) {
	good := Response{Version: 1, Op: OpFlashID, Tag: 3, Payload: []byte{0xef, 0, 0x18}}.Append(nil)
	for i := range good {
		for name, spoiled := range map[string][]byte{
			"changed": append(append(bytes.Clone(good[:i]), good[i]^0x10), good[i+1:]...),
			"lost":    append(bytes.Clone(good[:i]), good[i+1:]...),
			"doubled": append(bytes.Clone(good[:i+1]), good[i:]...),
		} {
			if name != "changed" && i == len(good)-1 {
				continue // a delimiter more is nothing, and one comes after all of these
			}
			bodies, _ := everything(append(spoiled, Delimiter), len(spoiled)+1)
			assert.Empty(t, bodies, "byte %d %s", i, name)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	_, err := DecodeRequest(make([]byte, RequestHeaderBytes-1))
	assert.ErrorContains(t, err, "request: got 5 bytes, want 6..262")
	_, err = DecodeRequest(make([]byte, RequestHeaderBytes+PayloadBytes+1))
	assert.ErrorIs(t, err, ErrLength)
	_, err = DecodeResponse(make([]byte, ResponseHeaderBytes-1))
	assert.ErrorContains(t, err, "response: got 2 bytes, want 3..259")
	_, err = DecodeHello(make([]byte, HelloBytes-1))
	assert.ErrorContains(t, err, "hello: got 19 bytes, want 20 at least")
	_, err = DecodeHello(make([]byte, HelloBytes+4)) // of a later version
	assert.NoError(t, err)
}

func TestHello(t *testing.T) {
	h := Hello{Board: 1, DeviceID: 0x41111043, ClockHz: 125e6, UserBase: 0x100000, WindowBytes: 4096, WindowFrames: 16, Features: FeatureReload}
	got, err := DecodeHello(h.Append(nil))
	require.NoError(t, err)
	assert.Equal(t, h, got)
	assert.Equal(t, []byte{1, 0, 0, 0, 0x43, 0x10, 0x11, 0x41}, h.Append(nil)[:8])
}

// Whatever comes, the scanner neither fails nor keeps more than a frame; what it finds, stuffed again, is the same.
func FuzzScanner(f *testing.F) {
	f.Add(Request{Version: 1, Op: OpProgramPage, Payload: []byte("page")}.Append([]byte{1, 2, 0}))
	f.Add(bytes.Repeat([]byte{0xff}, 1000))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var s Scanner
		s.Feed(stream, func(body []byte, err error) {
			if err != nil {
				return
			}
			again, bad := everything(appendFrame(nil, body), 1<<20)
			if bad != 0 || len(again) != 1 || !bytes.Equal(again[0], body) {
				t.Fatalf("body %x became %x", body, again)
			}
		})
		if cap(s.stuffed) > 2*maxStuffed {
			t.Fatalf("keeps %d bytes", cap(s.stuffed))
		}
	})
}
