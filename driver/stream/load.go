package stream

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// MaxPayload is the most bytes of a made frame's payload, the largest path MTU.
const MaxPayload = 4096

// Load is traffic made up for a measurement: SENDs of one packet each, with running PSNs, on several queue pairs in turn.
type Load struct {
	Payload int // bytes, 0..MaxPayload
	Flows   int // queue pairs, 1 or more
	Frames  int // of a pass, a multiple of Flows
	Seed    uint64
}

// Addresses of a made frame: documentation's (RFC 5737), and locally administered.
var (
	loadSrc    = netip.MustParseAddr("192.0.2.1")
	loadDst    = netip.MustParseAddr("192.0.2.2")
	loadSrcMAC = roce.MAC{0x02, 0, 0, 0, 0, 1}
	loadDstMAC = roce.MAC{0x02, 0, 0, 0, 0, 2}
)

const (
	loadQPN  = 0x100
	loadPort = 49152
)

// Make makes the frames of one pass.
func (l Load) Make() ([][]byte, error) {
	switch {
	case l.Payload < 0 || l.Payload > MaxPayload:
		return nil, fmt.Errorf("payload: got %d bytes, want 0..%d", l.Payload, MaxPayload)
	case l.Flows < 1:
		return nil, fmt.Errorf("flows: got %d, want 1 or more", l.Flows)
	case l.Frames < l.Flows || l.Frames%l.Flows != 0:
		return nil, fmt.Errorf("frames of a pass: got %d, want a multiple of the %d flows", l.Frames, l.Flows)
	}
	random := rand.New(rand.NewPCG(l.Seed, 0))
	frames := make([][]byte, l.Frames)
	for i := range frames {
		p := roce.Packet{
			DstMAC: loadDstMAC, SrcMAC: loadSrcMAC, Src: loadSrc, Dst: loadDst, TTL: 64, DF: true,
			SrcPort: loadPort + uint16(i%l.Flows), Opcode: spec.OpcodeSendOnly, PKey: 0xffff, MigReq: true,
			DestQP: loadQPN + uint32(i%l.Flows), PSN: psn.PSN(i / l.Flows), Payload: make([]byte, l.Payload),
		}
		for j := range p.Payload {
			p.Payload[j] = byte(random.Uint32())
		}
		frames[i] = p.Encode()
	}
	return frames, nil
}

// Capture reads the frames of a capture file. Those whose ICRC a NIC would have put in stay as they are.
func Capture(path string) ([][]byte, error) {
	f, err := capture.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var frames [][]byte
	for {
		frame, err := f.Next()
		switch {
		case errors.Is(err, io.EOF) && len(frames) == 0:
			return nil, fmt.Errorf("%s: got no frame, want one or more", path)
		case errors.Is(err, io.EOF):
			return frames, nil
		case err != nil:
			return nil, err
		case frame.Length != len(frame.Data):
			return nil, fmt.Errorf("%s: frame %d: got %d of its %d bytes, want whole frames (capture without a snap length)", path, frame.N, len(frame.Data), frame.Length)
		}
		frames = append(frames, frame.Data)
	}
}
