package uarttest

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/epic-inc/epic/driver/device/uart/frame"
)

// Flash is a model of an SPI NOR flash: erase sets bits, program clears them, both take time. Beyond its end it begins
// anew.
type Flash struct {
	ID      [3]byte
	Program time.Duration // of a page
	Erase   time.Duration // of a sector; a block takes four times as long
	// FailPage: a page at the address keeps what it had; FailErase: so does a sector or block. nil: none fails.
	FailPage, FailErase func(addr uint32) bool

	mu       sync.Mutex
	data     []byte
	idle     time.Time
	erased   []uint32 // addresses of the erases, in order
	programs []uint32
}

// NewFlash makes an erased flash of 1<<log2 bytes with the times of a common part.
func NewFlash(log2 int) *Flash {
	return &Flash{
		ID: [3]byte{0xef, 0x40, byte(log2)}, Program: 400 * time.Microsecond, Erase: 5 * time.Millisecond,
		data: bytes.Repeat([]byte{0xff}, 1<<log2),
	}
}

// Set puts data at addr, as somebody did before.
func (f *Flash) Set(addr uint32, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, c := range data {
		f.data[f.at(addr, i)] = c
	}
}

// Get returns n bytes from addr.
func (f *Flash) Get(addr uint32, n int) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := make([]byte, n)
	for i := range got {
		got[i] = f.data[f.at(addr, i)]
	}
	return got
}

func (f *Flash) at(addr uint32, i int) int { return (int(addr) + i) % len(f.data) }

// Touched returns the addresses of all that was erased and all pages that were programmed, in order.
func (f *Flash) Touched() (erased, programmed []uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.erased), slices.Clone(f.programs)
}

func (f *Flash) busy(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Before(f.idle)
}

// wait sleeps until the flash is idle, and sets now to then; false: it will not be, in the time of the longest page.
func (f *Flash) wait(now *time.Time) bool {
	f.mu.Lock()
	end := later(*now, f.idle)
	f.mu.Unlock()
	over := end.After(now.Add(patience))
	if over {
		end = now.Add(patience)
	}
	*now = end
	time.Sleep(time.Until(end))
	return !over
}

// patience is how long a bridge waits for a busy flash: more than a page takes, less than an erase may.
const patience = 100 * time.Millisecond

func (f *Flash) erase(now time.Time, addr uint32, log2 int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.erased = append(f.erased, addr)
	took := f.Erase
	if log2 == frame.BlockLog2 {
		took *= 4
	}
	f.idle = now.Add(took)
	if f.FailErase != nil && f.FailErase(addr) {
		return
	}
	for i := range 1 << log2 {
		f.data[f.at(addr, i)] = 0xff
	}
}

func (f *Flash) program(now time.Time, addr uint32, page []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.programs = append(f.programs, addr)
	f.idle = now.Add(f.Program)
	if f.FailPage != nil && f.FailPage(addr) {
		return
	}
	for i, c := range page {
		f.data[f.at(addr, i)] &= c
	}
}
