package devicetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/epic-inc/epic/driver/device"
)

// BoardCheck is one demand on a device.Board.
type BoardCheck struct {
	Name string
	Run  func(context.Context, device.Board) error
}

// BoardChecks are all of them. Each has a board of its own, and nothing else uses its registers.
func BoardChecks() []BoardCheck {
	return []BoardCheck{
		{"registers", registers},
		{"order", registerOrder},
		{"refused", registersRefused},
		{"context ends", boardContextEnds},
		{"concurrent", registersConcurrent},
		{"close", boardClose},
	}
}

// Do opens a board, runs the check, closes the board, and sees that no goroutine is left behind.
func (c BoardCheck) Do(open func() (device.Board, error)) error {
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
	defer cancel()
	b, err := open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	err = c.Run(ctx, b)
	err = errors.Join(err, within("Close", b.Close))
	if leak := goleak.Find(before); leak != nil && err == nil {
		err = fmt.Errorf("goroutines are left after Close: %w", leak)
	}
	return err
}

// RunBoard runs every check as a test of its own.
func RunBoard(t *testing.T, open func() (device.Board, error)) {
	t.Helper()
	for _, c := range BoardChecks() {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Do(open); err != nil {
				t.Error(err)
			}
		})
	}
}

// reads wants a value in a register.
func reads(ctx context.Context, b device.Board, addr, want uint32) error {
	got, err := b.Read32(ctx, addr)
	if err != nil {
		return fmt.Errorf("read %#03x: %w", addr, err)
	}
	if got != want {
		return fmt.Errorf("read %#03x: got %#08x, want %#08x", addr, got, want)
	}
	return nil
}

// registers: an engine is there, and what is written is read.
func registers(ctx context.Context, b device.Board) error {
	if err := reads(ctx, b, device.RegID, device.IDValue); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 0))
	for i := range 40 {
		value := random.Uint32()
		switch i {
		case 0:
			value = 0
		case 1:
			value = 0xffffffff
		case 2:
			value = 0x01020304
		}
		if err := b.Write32(ctx, device.RegScratch, value); err != nil {
			return err
		}
		if err := reads(ctx, b, device.RegScratch, value); err != nil {
			return err
		}
	}
	return nil
}

// registerOrder: registers keep what is theirs, and of two writes to one the later holds.
func registerOrder(ctx context.Context, b device.Board) error {
	for round := range uint32(2) {
		for i := range uint32(device.RegTableDataCount) {
			for _, value := range []uint32{0, round<<16 | i + 1} {
				if err := b.Write32(ctx, device.RegTableData+4*i, value); err != nil {
					return err
				}
			}
		}
		for i := range uint32(device.RegTableDataCount) {
			if err := reads(ctx, b, device.RegTableData+4*i, round<<16|i+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// registersRefused: what no register allows is an error, and harms nothing.
func registersRefused(ctx context.Context, b device.Board) error {
	if err := b.Write32(ctx, device.RegScratch, 0x600d); err != nil {
		return err
	}
	for _, addr := range []uint32{0xffc, device.RegScratch + 2, device.RegCtrl} {
		if value, err := b.Read32(ctx, addr); err == nil || errors.Is(err, device.ErrClosed) {
			return fmt.Errorf("read of %#03x: got %#x and %w, want an error", addr, value, err)
		}
	}
	for _, addr := range []uint32{0xffc, device.RegScratch + 1, device.RegID} {
		if err := b.Write32(ctx, addr, 0xbad); err == nil || errors.Is(err, device.ErrClosed) {
			return fmt.Errorf("write of %#03x: got %w, want an error", addr, err)
		}
	}
	return errors.Join(reads(ctx, b, device.RegScratch, 0x600d), reads(ctx, b, device.RegID, device.IDValue))
}

// boardContextEnds: a context ends the call it was given to, and the answer that comes later is not another's.
func boardContextEnds(ctx context.Context, b device.Board) error {
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.Read32(over, device.RegID); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("read with a context that is over: got %w, want context.Canceled", err)
	}
	if err := b.Write32(over, device.RegScratch, 1); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("write with a context that is over: got %w, want context.Canceled", err)
	}
	for i := range uint32(30) {
		if err := b.Write32(ctx, device.RegScratch, i); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, time.Duration(i%10)*100*time.Microsecond)
		value, err := b.Read32(short, device.RegTableData)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("read with a deadline: got %d and %w, want the value or context.DeadlineExceeded", value, err)
		}
		if err := reads(ctx, b, device.RegScratch, i); err != nil {
			return fmt.Errorf("after a read whose context has ended: %w", err)
		}
	}
	return nil
}

// registersConcurrent: several goroutines, each with a register of its own.
func registersConcurrent(ctx context.Context, b device.Board) error {
	const workers, rounds = 4, 10
	done := make(chan error, workers)
	for w := range uint32(workers) {
		go func() {
			addr := device.RegTableData + 4*w
			for i := range uint32(rounds) {
				if err := errors.Join(b.Write32(ctx, addr, w<<8|i), reads(ctx, b, addr, w<<8|i)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	var all error
	for range workers {
		all = errors.Join(all, <-done)
	}
	return all
}

// boardClose: Close ends the calls under way and to come.
func boardClose(ctx context.Context, b device.Board) error {
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			if i == 1 {
				close(started)
			}
			err = b.Write32(ctx, device.RegScratch, 1)
		}
		ended <- err
	}()
	select {
	case <-started:
	case err := <-ended:
		return err
	}
	if err := within("Close", b.Close); err != nil {
		return err
	}
	if err := within("Write32 after Close", func() error { return <-ended }); !errors.Is(err, device.ErrClosed) {
		return fmt.Errorf("write at Close: got %w, want ErrClosed", err)
	}
	if _, err := b.Read32(ctx, device.RegID); !errors.Is(err, device.ErrClosed) {
		return fmt.Errorf("read after Close: got %w, want ErrClosed", err)
	}
	return b.Close()
}
