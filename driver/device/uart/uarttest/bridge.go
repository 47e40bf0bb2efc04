// Package uarttest is a model of a board for tests: a UART that takes as long as its baud rate says, the bridge behind
// it, registers and a flash, at the other end of a pseudo terminal and in real time. It is written from docs/serial.md
// and can be told to go wrong.
package uarttest

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/uart/frame"
)

// Piece is a part of what a board sends: bytes, after a silence.
type Piece struct {
	After time.Duration
	Bytes []byte
}

// Options of a bridge. The zero value is one that does everything right, at 1 Mbaud.
type Options struct {
	Baud    int         // of the bridge; a program that sets another one sends and gets garbage. 0: 1000000
	Hello   frame.Hello // the zero value: a board with room for 16 frames, and its golden image in the first MiB
	Flash   *Flash      // nil: one of 4 MiB
	Version uint8       // of the protocol; 0: frame.Version
	Seed    uint64      // of the faults

	// Spoil and Lose are how many of a million bytes have a bit turned, or are lost; in both directions.
	Spoil, Lose int
	// Answer makes the pieces that the n-th response (from 0) is sent in, nil: none at all. Without it: as it is.
	Answer func(n int, response []byte) []Piece
	// Deaf: requests are taken and nothing is done.
	Deaf bool
	// StuckRegisters: register accesses time out.
	StuckRegisters bool
}

// timed is a frame and when it was whole. Each part of the model begins with what it does at the time at which the part
// before it was done, not when it has noticed: a model that sleeps too long makes up for it, but is never faster than
// the board.
type timed struct {
	at    time.Time
	bytes []byte
}

// Bridge is the model.
type Bridge struct {
	Path  string // of the serial port
	Flash *Flash

	o        Options
	terminal *Terminal
	wait     sync.WaitGroup
	stop     chan struct{}
	once     sync.Once
	queue    chan timed // bodies of requests, as they come
	out      chan timed // responses
	held     atomic.Int64
	overruns atomic.Int64
	reloads  atomic.Int64
	sent     atomic.Int64 // bytes that have come from the host

	now time.Time // of execute: when it was done with what it did last

	mu     sync.Mutex
	regs   map[uint32]uint32
	writes []uint32 // addresses of register writes, in order
}

// Start starts one. Close ends it.
func Start(o Options) (*Bridge, error) {
	if o.Baud == 0 {
		o.Baud = 1000000
	}
	if o.Hello == (frame.Hello{}) {
		o.Hello = frame.Hello{
			Board: uint32(frame.BoardVirtual), DeviceID: 0x41111043, ClockHz: 125e6, UserBase: 1 << 20,
			WindowBytes: 4096, WindowFrames: 16, Features: frame.FeatureReload,
		}
	}
	if o.Flash == nil {
		o.Flash = NewFlash(22)
	}
	if o.Version == 0 {
		o.Version = frame.Version
	}
	t, err := OpenTerminal()
	if err != nil {
		return nil, err
	}
	b := &Bridge{
		Path: t.Path, Flash: o.Flash, o: o, terminal: t, stop: make(chan struct{}),
		queue: make(chan timed, 256), out: make(chan timed, 256),
		regs: map[uint32]uint32{device.RegScratch: 0, device.RegTickClocks: 1250, device.RegIRQEnable: 0},
	}
	for i := range uint32(device.RegTableDataCount) {
		b.regs[device.RegTableData+4*i] = 0
	}
	b.wait.Add(3)
	go b.receive()
	go b.execute()
	go b.send()
	return b, nil
}

// Close unplugs the board and ends the model.
func (b *Bridge) Close() error {
	var err error
	b.once.Do(func() {
		close(b.stop)
		err = b.terminal.Close()
		b.wait.Wait()
	})
	return err
}

// Overruns is how many requests came for which there was no room: the host must not let it happen.
func (b *Bridge) Overruns() int { return int(b.overruns.Load()) }

// Reloads is how often the FPGA was made to load itself.
func (b *Bridge) Reloads() int { return int(b.reloads.Load()) }

// Received is how many bytes the host has sent.
func (b *Bridge) Received() int { return int(b.sent.Load()) }

// Writes returns the addresses of the register writes that were carried out.
func (b *Bridge) Writes() []uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]uint32(nil), b.writes...)
}

// spoiler returns what the line makes of bytes.
func (b *Bridge) spoiler(stream uint64) func([]byte) []byte {
	random := rand.New(rand.NewPCG(b.o.Seed, stream))
	return func(in []byte) []byte {
		baud, err := b.terminal.Baud()
		wrong := err == nil && baud != b.o.Baud
		if !wrong && b.o.Spoil == 0 && b.o.Lose == 0 {
			return in
		}
		var out []byte
		for _, c := range in {
			if wrong {
				c = byte(random.UintN(256))
			}
			if random.IntN(1e6) < b.o.Lose {
				continue
			}
			if random.IntN(1e6) < b.o.Spoil {
				c ^= 1 << random.UintN(8)
			}
			out = append(out, c)
		}
		return out
	}
}

// line is one direction of the UART: a byte takes ten bits.
type line struct {
	perByte time.Duration
	chunk   int       // bytes handled at a time: half a millisecond's
	free    time.Time // when the last byte has passed
}

func (b *Bridge) line() line {
	per := time.Second * 10 / time.Duration(b.o.Baud)
	return line{perByte: per, chunk: max(1, int(500*time.Microsecond/per))}
}

// pass returns when n bytes have passed that were there at the time.
func (l *line) pass(n int, since time.Time) {
	l.free = later(l.free, since).Add(time.Duration(n) * l.perByte)
	time.Sleep(time.Until(l.free))
}

// receive takes bytes from the host, no faster than the line brings them.
func (b *Bridge) receive() {
	defer b.wait.Done()
	defer close(b.queue)
	l, spoil := b.line(), b.spoiler(1)
	var scanner frame.Scanner
	buffer := make([]byte, l.chunk)
	for {
		// Bytes that are there without waiting were there when the line fell free; others have come now.
		since := l.free
		n, err := b.terminal.readNow(buffer)
		if n == 0 && err == nil {
			n, err = b.terminal.Read(buffer)
			since = time.Now()
		}
		if err != nil {
			return
		}
		b.sent.Add(int64(n))
		l.pass(n, since)
		scanner.Feed(spoil(buffer[:n]), func(body []byte, err error) {
			if err != nil || b.o.Deaf {
				return
			}
			if len(b.queue) >= int(b.o.Hello.WindowFrames) || b.held.Load()+int64(len(body)) > int64(b.o.Hello.WindowBytes) {
				b.overruns.Add(1)
				return
			}
			b.held.Add(int64(len(body)))
			b.queue <- timed{l.free, body}
		})
	}
}

// send gives responses to the host, no faster than the line takes them.
func (b *Bridge) send() {
	defer b.wait.Done()
	l, spoil := b.line(), b.spoiler(2)
	n := 0
	for response := range b.out {
		pieces := []Piece{{Bytes: response.bytes}}
		if b.o.Answer != nil {
			pieces = b.o.Answer(n, response.bytes)
		}
		n++
		for _, p := range pieces {
			if p.After > 0 {
				select {
				case <-time.After(p.After):
				case <-b.stop:
				}
				response.at = time.Now()
			}
			l.pass(len(p.Bytes), response.at)
			b.terminal.Write(spoil(p.Bytes)) // gone: receive finds out
		}
	}
}

// execute does what is asked, one after the other.
func (b *Bridge) execute() {
	defer b.wait.Done()
	defer close(b.out)
	var last frame.Request // the last register access, if nothing came after it, and its answer
	var answer frame.Response
	have := false
	for in := range b.queue {
		b.now = later(b.now, in.at)
		request, err := frame.DecodeRequest(in.bytes)
		if err == nil {
			register := request.Op == frame.OpReadRegister || request.Op == frame.OpWriteRegister
			if !have || !register || request.Tag != last.Tag || request.Op != last.Op {
				answer = b.do(request)
			}
			last, have = request, register
			b.out <- timed{b.now, answer.Append(nil)}
		}
		b.held.Add(-int64(len(in.bytes)))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (b *Bridge) do(r frame.Request) frame.Response {
	a := frame.Response{Version: b.o.Version, Op: r.Op, Tag: r.Tag}
	a.Status, a.Payload = b.carryOut(r)
	return a
}

func (b *Bridge) carryOut(r frame.Request) (frame.Status, []byte) {
	if r.Version != b.o.Version {
		return frame.StatusVersion, nil
	}
	if r.Op >= frame.OpCount {
		return frame.StatusUnknownOp, nil
	}
	least := map[frame.Op]int{frame.OpWriteRegister: 4, frame.OpReadFlash: 2, frame.OpErase: 1, frame.OpProgramPage: 1}[r.Op]
	if n := len(r.Payload); n < least || n > least && r.Op != frame.OpProgramPage {
		return frame.StatusLength, nil
	}
	switch r.Op {
	case frame.OpHello:
		return frame.StatusOk, b.o.Hello.Append(nil)
	case frame.OpReadRegister, frame.OpWriteRegister:
		return b.register(r)
	case frame.OpReload:
		if b.o.Hello.Features&frame.FeatureReload == 0 {
			return frame.StatusNoReload, nil
		}
		b.reloads.Add(1)
		return frame.StatusOk, nil
	case frame.OpFlashStatus:
		if b.Flash.busy(b.now) {
			return frame.StatusOk, []byte{3}
		}
		return frame.StatusOk, []byte{0}
	case frame.OpFlashID:
		if !b.Flash.wait(&b.now) {
			return frame.StatusFlashBusy, nil
		}
		return frame.StatusOk, b.Flash.ID[:]
	}
	return b.flash(r)
}

func (b *Bridge) register(r frame.Request) (frame.Status, []byte) {
	if b.o.StuckRegisters {
		return frame.StatusBusTimeout, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	value, plain := b.regs[r.Addr]
	switch {
	case r.Addr%4 != 0:
		return frame.StatusAddress, nil
	case r.Op == frame.OpReadRegister && r.Addr == device.RegID:
		return frame.StatusOk, binary.LittleEndian.AppendUint32(nil, device.IDValue)
	case !plain:
		return frame.StatusBusError, nil
	case r.Op == frame.OpReadRegister:
		return frame.StatusOk, binary.LittleEndian.AppendUint32(nil, value)
	}
	b.regs[r.Addr] = binary.LittleEndian.Uint32(r.Payload)
	b.writes = append(b.writes, r.Addr)
	return frame.StatusOk, nil
}

func (b *Bridge) flash(r frame.Request) (frame.Status, []byte) {
	n := uint64(len(r.Payload))
	switch r.Op {
	case frame.OpReadFlash:
		if n = uint64(binary.LittleEndian.Uint16(r.Payload)); n < 1 || n > frame.PayloadBytes {
			return frame.StatusAddress, nil
		}
	case frame.OpErase:
		if p := r.Payload[0]; p != frame.SectorLog2 && p != frame.BlockLog2 {
			return frame.StatusAddress, nil
		}
		if n = 1 << r.Payload[0]; uint64(r.Addr)%n != 0 {
			return frame.StatusAddress, nil
		}
	case frame.OpProgramPage:
		if uint64(r.Addr)%frame.PageBytes+n > frame.PageBytes {
			return frame.StatusAddress, nil
		}
	}
	if uint64(r.Addr)+n > 1<<24 {
		return frame.StatusAddress, nil
	}
	if r.Op != frame.OpReadFlash && r.Addr < b.o.Hello.UserBase {
		return frame.StatusProtected, nil
	}
	if !b.Flash.wait(&b.now) {
		return frame.StatusFlashBusy, nil
	}
	switch r.Op {
	case frame.OpReadFlash:
		return frame.StatusOk, b.Flash.Get(r.Addr, int(n))
	case frame.OpErase:
		b.Flash.erase(b.now, r.Addr, int(r.Payload[0]))
	case frame.OpProgramPage:
		b.Flash.program(b.now, r.Addr, r.Payload)
	}
	return frame.StatusOk, nil
}
