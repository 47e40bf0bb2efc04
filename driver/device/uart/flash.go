package uart

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/epic-inc/epic/driver/device/uart/frame"
)

// FlashID is what JEDEC's command 0x9f reads: manufacturer, type, log2 of the capacity in bytes.
type FlashID [3]byte

func (id FlashID) String() string { return fmt.Sprintf("%02x %02x %02x", id[0], id[1], id[2]) }

// FlashID reads the id of the flash.
func (b *Board) FlashID(ctx context.Context) (id FlashID, err error) {
	err = b.one(ctx, frame.Request{Op: frame.OpFlashID}, func(payload []byte) error {
		if len(payload) != len(id) {
			return fmt.Errorf("got %d bytes, want %d", len(payload), len(id))
		}
		id = FlashID(payload)
		return nil
	})
	return id, err
}

// FlashBusy says whether an erase or a program is under way in the flash.
func (b *Board) FlashBusy(ctx context.Context) (busy bool, err error) {
	err = b.one(ctx, frame.Request{Op: frame.OpFlashStatus}, func(payload []byte) error {
		if len(payload) != 1 {
			return fmt.Errorf("got %d bytes, want 1", len(payload))
		}
		busy = payload[0]&1 != 0
		return nil
	})
	return busy, err
}

// ReadFlash fills data with what is in the flash from addr on. It tells how many bytes are there as they come.
func (b *Board) ReadFlash(ctx context.Context, addr uint32, data []byte, progress func(bytes int)) error {
	chunk := func(i int) []byte { return data[i*frame.PayloadBytes : min(len(data), (i+1)*frame.PayloadBytes)] }
	return b.exchange(ctx, (len(data)+frame.PayloadBytes-1)/frame.PayloadBytes, func(i int) frame.Request {
		return frame.Request{
			Op: frame.OpReadFlash, Addr: addr + uint32(i)*frame.PayloadBytes,
			Payload: binary.LittleEndian.AppendUint16(nil, uint16(len(chunk(i)))),
		}
	}, func(i int, payload []byte) error {
		if len(payload) != len(chunk(i)) {
			return fmt.Errorf("got %d bytes, want %d", len(payload), len(chunk(i)))
		}
		copy(chunk(i), payload)
		progress(len(payload))
		return nil
	})
}

// Erase begins to erase 1<<log2 bytes at addr, a multiple of it; log2 is frame.SectorLog2 or frame.BlockLog2.
// FlashBusy says when it is done.
func (b *Board) Erase(ctx context.Context, addr uint32, log2 int) error {
	return b.one(ctx, frame.Request{Op: frame.OpErase, Addr: addr, Payload: []byte{uint8(log2)}}, empty)
}

// Program writes data into erased flash from addr on, the beginning of a page, and tells how many bytes have been
// written. The bridge takes the next pages while the flash is busy with one; the last may be so when Program returns.
func (b *Board) Program(ctx context.Context, addr uint32, data []byte, progress func(bytes int)) error {
	page := func(i int) []byte { return data[i*frame.PageBytes : min(len(data), (i+1)*frame.PageBytes)] }
	return b.exchange(ctx, (len(data)+frame.PageBytes-1)/frame.PageBytes, func(i int) frame.Request {
		return frame.Request{Op: frame.OpProgramPage, Addr: addr + uint32(i)*frame.PageBytes, Payload: page(i)}
	}, func(i int, payload []byte) error {
		progress(len(page(i)))
		return empty(payload)
	})
}

// Reload makes the FPGA load itself from the flash. The bridge is gone until it has.
func (b *Board) Reload(ctx context.Context) error {
	return b.one(ctx, frame.Request{Op: frame.OpReload}, empty)
}
