package host_test

import (
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/roce"
)

// FuzzPackets: whatever a queue pair is sent, each request completes at most once and in the order in which it was posted, a message
// that it took is no longer than its buffer, and what it sends can be read. The input is frames, each after a byte that says whether
// its ICRC is mended and it is addressed to the queue pair (bit 7) or a timer runs out first (6), and two with its length.
func FuzzPackets(f *testing.F) {
	g, err := group.Load("../../testdata/allreduce4/group.yaml")
	require.NoError(f, err)
	cfg, err := g.HostConfig(0, 0)
	require.NoError(f, err)
	files, err := filepath.Glob("../../testdata/captures/*/*.pcap")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		var tape []byte
		c, err := capture.Open(file)
		require.NoError(f, err)
		for i := range 24 {
			frame, err := c.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(f, err)
			tape = append(tape, 0x80|byte(i%8)<<4&0x40)
			tape = binary.LittleEndian.AppendUint16(tape, uint16(len(frame.Data)))
			tape = append(tape, frame.Data...)
		}
		require.NoError(f, c.Close())
		f.Add(tape)
	}

	const posted, bytes = 4, 3000
	f.Fuzz(func(t *testing.T, tape []byte) {
		q, err := host.New(cfg)
		require.NoError(t, err)
		next := map[bool]uint64{} // of sends and of receives: the request that completes next
		step := func(ev host.Event) {
			for _, o := range q.Run(ev) {
				switch o.Kind {
				case host.Frame:
					_, bad := roce.Decode(o.Packet.Encode())
					require.Nil(t, bad)
				case host.Complete:
					c := o.Completion
					require.Equal(t, next[c.Recv], c.ID, "receive: %v", c.Recv)
					require.LessOrEqual(t, len(c.Payload), bytes)
					next[c.Recv]++
				}
			}
		}
		for id := range uint64(posted) {
			step(host.Event{Kind: host.PostRecv, Receive: host.Receive{ID: id, Bytes: bytes}})
			step(host.Event{Kind: host.PostSend, Message: host.Message{ID: id, Payload: make([]byte, bytes)}})
		}
		for rest := tape; len(rest) >= 3; {
			flags, n := rest[0], min(int(binary.LittleEndian.Uint16(rest[1:])), len(rest)-3)
			frame := append([]byte(nil), rest[3:3+n]...)
			rest = rest[3+n:]
			if flags&0x40 != 0 {
				step(host.Event{Kind: host.Expire, Timer: host.Timer(flags & 1)})
			}
			if flags&0x80 != 0 {
				_ = roce.SetICRC(frame) // what is too short stays as it is
			}
			pkt, bad := roce.Decode(frame)
			if bad != nil {
				continue
			}
			if flags&0x80 != 0 {
				pkt.DstMAC, pkt.SrcMAC, pkt.Dst, pkt.Src = cfg.MAC, cfg.PeerMAC, cfg.IP, cfg.PeerIP
				pkt.DestQP, pkt.PKey = cfg.QPN, cfg.PKey
			}
			step(host.Event{Kind: host.Deliver, Packet: pkt})
		}
		require.LessOrEqual(t, max(next[false], next[true]), uint64(posted))
	})
}
