package device

import (
	"context"
	"fmt"
)

// Board is a board with an engine on it, by one way that leads there. All methods may be called from several
// goroutines at once; register accesses of one are in its order.
type Board interface {
	Registers
	// Links are the links to the engine's ports, by port, that this way has. A serial line has none.
	Links() []Link
	// Close ends the calls under way and to come with ErrClosed. Closing again does nothing.
	Close() error
}

// FlashID is what JEDEC's command 0x9f reads: manufacturer, type, log2 of the capacity in bytes.
type FlashID [3]byte

func (id FlashID) String() string { return fmt.Sprintf("%02x %02x %02x", id[0], id[1], id[2]) }

// Bytes is the capacity; 0 if the id is none of a flash.
func (id FlashID) Bytes() int {
	if id[0] == 0 || id[0] == 0xff || id[2] < 16 || id[2] > 24 { // 64 KiB to what 24 bits of address reach
		return 0
	}
	return 1 << id[2]
}

// What can be erased at a time, as log2 of the bytes: a sector or a block.
const (
	SectorLog2 = 12
	BlockLog2  = 16
)

// PageBytes are what a program command takes at most; pages begin at multiples of it.
const PageBytes = 256

// Flash is the SPI flash that an FPGA loads itself from. Addresses are in bytes from its beginning.
type Flash interface {
	FlashID(ctx context.Context) (FlashID, error)
	// FlashBusy says whether an erase or a program is under way.
	FlashBusy(ctx context.Context) (bool, error)
	// ReadFlash fills data with what is there from addr on; progress is told of bytes as they come.
	ReadFlash(ctx context.Context, addr uint32, data []byte, progress func(bytes int)) error
	// Erase begins to erase 1<<log2 bytes at addr, a multiple of it.
	Erase(ctx context.Context, addr uint32, log2 int) error
	// Program writes data into erased flash from addr on, the beginning of a page. The last page may be under way
	// when it returns. A context that ends leaves some pages written and others not.
	Program(ctx context.Context, addr uint32, data []byte, progress func(bytes int)) error
	// Reload makes the FPGA load itself anew. What leads to it is gone until it has.
	Reload(ctx context.Context) error
}
