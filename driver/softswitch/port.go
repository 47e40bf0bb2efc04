package softswitch

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// queueFrames is how many frames wait at a port before more are dropped. An engine never waits for an output
// (protocol.md 6).
const queueFrames = 4096

// item is a frame that waits to leave: whole, or still to be encoded.
type item struct {
	frame    []byte
	packet   *roce.Packet
	poisoned bool // it leaves with its ICRC inverted
}

// port is one port of the switch.
type port struct {
	number   int
	link     device.Link
	queue    chan item
	counters portCounters
	mu       sync.Mutex
	err      error // why it is down
	sendErr  error // of the last frame that could not be sent
}

// portCounters are a port's counters.
type portCounters struct {
	rxFrames, rxBytes, txFrames, txBytes, dropped, bridged, answered atomic.Uint64
	lastRx                                                           atomic.Int64 // Unix time in ns
	verdicts                                                         []atomic.Uint64
}

func (c *portCounters) received(bytes int) {
	c.rxFrames.Add(1)
	c.rxBytes.Add(uint64(bytes))
	c.lastRx.Store(time.Now().UnixNano())
}

func newPort(n int, l device.Link) *port {
	p := &port{number: n, link: l, queue: make(chan item, queueFrames)}
	p.counters.verdicts = make([]atomic.Uint64, verdictCount())
	return p
}

func verdictCount() int {
	n := spec.Verdict(0)
	for n.Valid() {
		n++
	}
	return int(n)
}

func (p *port) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// down says why the port takes and sends nothing any more, nil if it does.
func (p *port) down() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// enqueue puts a frame behind those that wait, or drops it.
func (p *port) enqueue(it item) {
	select {
	case p.queue <- it:
	default:
		p.counters.dropped.Add(1)
	}
}

// transmit sends what is in the queue.
func (p *port) transmit(ctx context.Context) {
	buffer := make([]byte, 0, device.MaxFrame(p.link.MTU()))
	for {
		select {
		case it := <-p.queue:
			frame := it.frame
			if it.packet != nil {
				buffer = it.packet.AppendFrame(buffer[:0])
				frame = buffer
				if it.poisoned {
					spoil(frame)
				}
			}
			if err := p.link.Send(ctx, frame); err != nil {
				if ctx.Err() != nil {
					return
				}
				p.counters.dropped.Add(1)
				p.unsent(err)
				continue
			}
			p.counters.txFrames.Add(1)
			p.counters.txBytes.Add(uint64(len(frame)))
		case <-ctx.Done():
			return
		}
	}
}

// unsent notes why a frame was not sent: it is too long for the link, or the link has gone.
func (p *port) unsent(err error) {
	if errors.Is(err, device.ErrClosed) {
		p.fail(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendErr = err
}

// spoil inverts the ICRC.
func spoil(frame []byte) {
	at := len(frame) - roce.ICRCSize
	binary.LittleEndian.PutUint32(frame[at:], ^binary.LittleEndian.Uint32(frame[at:]))
}
