// Package uart is the way to a board by a serial line: its registers and the flash with its bitstreams, through the
// UART bridge and by the protocol of docs/serial.md.
package uart

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/uart/frame"
)

// DefaultBaud is the rate of a bridge that was built without another one.
const DefaultBaud = 1000000

// Errors that a Board's errors wrap.
var (
	// ErrLost: the board does not answer, or the port has gone.
	ErrLost = errors.New("board lost")
	// ErrNoisy: the board answers, but so many frames are spoiled that a request did not get through.
	ErrNoisy = fmt.Errorf("%w: the line spoils what it carries", ErrLost)
)

// Options say how a board is reached. The zero value is right for most.
type Options struct {
	Baud int // one of Rates; 0: DefaultBaud
	// Timeout is how long silence of a board may last before what it has not answered is sent again, and Tries how
	// often in all. Their product is when a board counts as lost: below 2 s. 0: 500 ms and 3.
	Timeout time.Duration
	Tries   int
}

// Board is a board behind a serial port. It is a device.Board, and has the flash besides.
type Board struct {
	port    *port
	path    string
	options Options
	hello   atomic.Pointer[frame.Hello] // of the last greeting; nil before the first

	turn      chan struct{} // holds one token: whose turn it is to ask
	tag       uint8
	strange   bool // the last exchange was not ended: the bridge is greeted before the next
	resent    atomic.Int64
	responses chan frame.Response

	closing  chan struct{} // closed by Close
	received chan struct{} // closed when the receiver has ended
	gone     chan struct{} // closed when the port has gone, with why
	why      error
	once     sync.Once
	closed   error
}

var _ device.Board = (*Board)(nil)

// Open opens the port and greets the bridge. It fails within 2 s, with one error that says what to look at.
func Open(ctx context.Context, path string, o Options) (*Board, error) {
	if o.Baud == 0 {
		o.Baud = DefaultBaud
	}
	if o.Timeout == 0 {
		o.Timeout = 500 * time.Millisecond
	}
	if o.Tries == 0 {
		o.Tries = 3
	}
	p, err := openPort(path, o.Baud)
	if err != nil {
		return nil, err
	}
	b := &Board{
		port: p, path: path, options: o, strange: true,
		turn: make(chan struct{}, 1), tag: uint8(rand.Uint32()),
		responses: make(chan frame.Response, 256),
		closing:   make(chan struct{}), received: make(chan struct{}), gone: make(chan struct{}),
	}
	go b.receive()
	if err := b.exchange(ctx, 0, nil, nil); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Hello is what the bridge says of itself.
func (b *Board) Hello() frame.Hello { return *b.hello.Load() }

// Path is that of the serial port.
func (b *Board) Path() string { return b.path }

// Baud is the rate of the line, in bits a second; a byte takes ten.
func (b *Board) Baud() int { return b.options.Baud }

// Resent is how many requests have been sent again so far because they or their responses were lost.
func (b *Board) Resent() int { return int(b.resent.Load()) }

// Links implements device.Board: a serial line carries registers alone.
func (b *Board) Links() []device.Link { return nil }

// Read32 implements device.Registers.
func (b *Board) Read32(ctx context.Context, addr uint32) (value uint32, err error) {
	err = b.one(ctx, frame.Request{Op: frame.OpReadRegister, Addr: addr}, func(payload []byte) error {
		if len(payload) != 4 {
			return fmt.Errorf("got %d bytes, want 4", len(payload))
		}
		value = binary.LittleEndian.Uint32(payload)
		return nil
	})
	return value, err
}

// Write32 implements device.Registers. It is carried out once, however often it is sent.
func (b *Board) Write32(ctx context.Context, addr, value uint32) error {
	return b.one(ctx, frame.Request{
		Op: frame.OpWriteRegister, Addr: addr, Payload: binary.LittleEndian.AppendUint32(nil, value),
	}, empty)
}

// empty wants a response without payload.
func empty(payload []byte) error {
	if len(payload) != 0 {
		return fmt.Errorf("got %d bytes, want none", len(payload))
	}
	return nil
}

// Close implements device.Board. It takes up to a tenth of a second.
func (b *Board) Close() error {
	b.once.Do(func() {
		close(b.closing)
		<-b.received
		b.turn <- struct{}{} // whoever was asking has seen that it is over
		defer b.release()
		b.closed = b.port.close()
	})
	return b.closed
}

// receive takes what comes from the port until Close, or until the port has gone.
func (b *Board) receive() {
	defer close(b.received)
	var scanner frame.Scanner
	buffer := make([]byte, 4096)
	for {
		select {
		case <-b.closing:
			return
		default:
		}
		n, err := b.port.read(buffer)
		scanner.Feed(buffer[:n], func(body []byte, err error) {
			if err != nil {
				return // whoever waits for it asks again
			}
			if r, err := frame.DecodeResponse(body); err == nil {
				select {
				case b.responses <- r:
				default: // nobody has asked for so many
				}
			}
		})
		if err != nil {
			b.why = err
			close(b.gone)
			return
		}
	}
}

// acquire waits for the turn to ask.
func (b *Board) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-b.closing:
		return fmt.Errorf("serial port %s: %w", b.path, device.ErrClosed)
	default:
	}
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closing:
		return fmt.Errorf("serial port %s: %w", b.path, device.ErrClosed)
	}
}

func (b *Board) release() { <-b.turn }
