package link_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/golden/spec"
)

// messages is one of each kind, every field different from the others.
func messages() []spec.Message {
	var records []byte
	for i := range 3 {
		records = (&spec.Record{Clock: 1 << 40, Cause: spec.CauseSend, Frame: uint32(i), Bitmap: 1 << 63}).Append(records)
	}
	return []spec.Message{
		&spec.Hello{Magic: spec.LinkMagic, Version: spec.LinkVersion, SpecHash: spec.SpecHash, Instance: 4,
			DataW: 512, Ports: 32, Endpoints: 64, Pipes: 16, PoolKB: 1024},
		&spec.Welcome{Magic: spec.LinkMagic, Version: spec.LinkVersion, SpecHash: spec.SpecHash,
			Seed: 0x0123456789abcdef, Pacing: 1, IdlePPM: 2, BackpressurePPM: 3, BypassBackpressurePPM: 4,
			TraceFrom: 1 << 33, TraceTo: 1 << 34, Probe: 1},
		&spec.FrameIn{Time: 1 << 35, Port: 7, Error: 1, Bytes: []byte{1, 2, 3}},
		&spec.FrameIn{Time: 1 << 36, Bytes: []byte{}},
		&spec.Grant{Until: 1 << 37},
		&spec.RegReq{ID: 9, Write: 1, Addr: 0x40, Data: 0xfeedbeef},
		&spec.Finish{Code: 3},
		&spec.FrameOut{First: 1 << 38, Last: 1<<38 + 5, Stream: 1, Port: 6, Error: 1, Bytes: bytes.Repeat([]byte{0xa5}, 4200)},
		&spec.FrameAck{Frame: 11, First: 1 << 39, Header: 1<<39 + 1, Last: 1<<39 + 2},
		&spec.Retire{Count: 3, Bytes: records},
		&spec.RegRsp{ID: 9, Data: 1, Resp: 2},
		&spec.Reached{Clock: 12, RxBusy: 13, TxBusy: 14, Busy: 15},
		&spec.Fault{Bytes: []byte("why")},
	}
}

func TestRoundTrip(t *testing.T) {
	var stream bytes.Buffer
	c := link.NewConn(&stream)
	want := messages()
	for _, m := range want {
		require.NoError(t, c.Write(m))
	}
	assert.Zero(t, stream.Len(), "nothing is sent before Flush")
	require.NoError(t, c.Flush())
	for i, m := range want {
		got, err := c.Read()
		require.NoError(t, err, "message %d", i)
		assert.Equal(t, m, got, "message %d", i)
	}
	_, err := c.Read()
	assert.Equal(t, io.EOF, err)
}

// The layout is the C side's too: one message, written by hand from inc.yaml.
func TestBytesOnTheWire(t *testing.T) {
	var stream bytes.Buffer
	c := link.NewConn(&stream)
	require.NoError(t, c.Write(&spec.FrameIn{Time: 0x0807060504030201, Port: 0x0c0b0a09, Error: 1, Bytes: []byte{0xee}}))
	require.NoError(t, c.Flush())
	assert.Equal(t, []byte{
		25, 0, 0, 0, // length
		3, 0, 0, 0, // frame_in is the third message
		1, 2, 3, 4, 5, 6, 7, 8, // time
		9, 10, 11, 12, // port
		1, 0, 0, 0, // error
		0xee,
	}, stream.Bytes())
}

func TestReadRefuses(t *testing.T) {
	whole := spec.AppendMessage(nil, &spec.Grant{Until: 77})
	long := binary.LittleEndian.AppendUint32(nil, link.MaxMessageBytes+1)
	for name, tc := range map[string]struct {
		stream []byte
		want   string
	}{
		"cut in the header":    {whole[:5], "inside a message header, after 5 of 8 bytes"},
		"cut in the body":      {whole[:11], "inside a message, after 11 of 16 bytes"},
		"shorter than header":  {[]byte{7, 0, 0, 0, 4, 0, 0, 0}, "message of 7 bytes, want 8.."},
		"longer than the most": {append(long, 4, 0, 0, 0), "message of 16777217 bytes"},
		"unknown type":         {[]byte{8, 0, 0, 0, 99, 0, 0, 0}, "type 99"},
		"field missing":        {[]byte{12, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4}, "grant: got 4 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := link.NewConn(bytes.NewBuffer(tc.stream)).Read()
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// Cut anywhere, a stream gives an error and never a message that was not sent.
func TestTruncatedEverywhere(t *testing.T) {
	var all []byte
	ends := map[int]int{0: 0}
	for i, m := range messages() {
		all = spec.AppendMessage(all, m)
		ends[len(all)] = i + 1
	}
	for cut := range all {
		c := link.NewConn(bytes.NewBuffer(all[:cut:cut]))
		n := 0
		var err error
		for ; ; n++ {
			if _, err = c.Read(); err != nil {
				break
			}
		}
		if whole, ok := ends[cut]; ok {
			require.Equal(t, whole, n, "cut at %d", cut)
			require.Equal(t, io.EOF, err, "cut at %d", cut)
		} else {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut at %d", cut)
		}
	}
}

func TestHandshake(t *testing.T) {
	good := spec.Hello{Magic: spec.LinkMagic, Version: spec.LinkVersion, SpecHash: spec.SpecHash}
	require.NoError(t, link.CheckHello(&good))
	for name, spoil := range map[string]func(*spec.Hello){
		"magic":   func(h *spec.Hello) { h.Magic++ },
		"version": func(h *spec.Hello) { h.Version++ },
		"spec":    func(h *spec.Hello) { h.SpecHash++ },
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			spoil(&bad)
			assert.ErrorContains(t, link.CheckHello(&bad), "rebuild the simulator")
		})
	}
}

func TestRecords(t *testing.T) {
	var m spec.Retire
	for i := range 5 {
		m.Bytes = (&spec.Record{PSN: uint32(i), Degree: 7}).Append(m.Bytes)
		m.Count++
	}
	got, err := link.Records(nil, &m)
	require.NoError(t, err)
	require.Len(t, got, 5)
	assert.Equal(t, spec.Record{PSN: 4, Degree: 7}, got[4])

	m.Count = 6
	_, err = link.Records(nil, &m)
	assert.ErrorContains(t, err, "for 6 records")
}

func TestPacing(t *testing.T) {
	for _, p := range []link.Pacing{link.PacingNone, link.PacingGap, link.PacingBurst} {
		got, err := link.ParsePacing(p.String())
		require.NoError(t, err)
		assert.Equal(t, p, got)
	}
	_, err := link.ParsePacing("slow")
	assert.ErrorContains(t, err, `"slow"`)
}

func FuzzRead(f *testing.F) {
	for _, m := range messages() {
		f.Add(spec.AppendMessage(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := link.NewConn(bytes.NewBuffer(b))
		var again []byte
		for {
			m, err := c.Read()
			if err != nil {
				break
			}
			again = spec.AppendMessage(again, m)
		}
		require.True(t, bytes.HasPrefix(b, again), "what was read encodes to what was there")
	})
}
