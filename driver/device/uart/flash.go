package uart

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/uart/frame"
)

var _ device.Flash = (*Board)(nil)

// FlashID implements device.Flash.
func (b *Board) FlashID(ctx context.Context) (id device.FlashID, err error) {
	err = b.one(ctx, frame.Request{Op: frame.OpFlashID}, func(payload []byte) error {
		if len(payload) != len(id) {
			return fmt.Errorf("got %d bytes, want %d", len(payload), len(id))
		}
		id = device.FlashID(payload)
		return nil
	})
	return id, err
}

// FlashBusy implements device.Flash.
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

// ReadFlash implements device.Flash.
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

// Erase implements device.Flash.
func (b *Board) Erase(ctx context.Context, addr uint32, log2 int) error {
	return b.one(ctx, frame.Request{Op: frame.OpErase, Addr: addr, Payload: []byte{uint8(log2)}}, empty)
}

// Program implements device.Flash. The bridge takes the next pages while the flash is busy with one.
func (b *Board) Program(ctx context.Context, addr uint32, data []byte, progress func(bytes int)) error {
	page := func(i int) []byte { return data[i*frame.PageBytes : min(len(data), (i+1)*frame.PageBytes)] }
	return b.exchange(ctx, (len(data)+frame.PageBytes-1)/frame.PageBytes, func(i int) frame.Request {
		return frame.Request{Op: frame.OpProgramPage, Addr: addr + uint32(i)*frame.PageBytes, Payload: page(i)}
	}, func(i int, payload []byte) error {
		progress(len(page(i)))
		return empty(payload)
	})
}

// Reload implements device.Flash.
func (b *Board) Reload(ctx context.Context) error {
	return b.one(ctx, frame.Request{Op: frame.OpReload}, empty)
}
