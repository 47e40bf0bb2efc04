package devicetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/devicetest"
)

// memory is a board that is right, or has one fault.
type memory struct {
	mu     sync.Mutex
	regs   map[uint32]uint32
	closed bool
	stay   chan struct{} // of a goroutine that is left

	fault string
	count int
}

func (m *memory) access(ctx context.Context, addr uint32, write bool) error {
	time.Sleep(50 * time.Microsecond)
	if m.closed && m.fault != "goes on after close" {
		return device.ErrClosed
	}
	if err := ctx.Err(); err != nil && m.fault != "ignores contexts" {
		return err
	}
	readOnly, writeOnly := addr == device.RegID, addr == device.RegCtrl
	known := addr == device.RegScratch || readOnly || writeOnly || addr >= device.RegTableData && addr < device.RegTableData+4*device.RegTableDataCount
	if addr%4 != 0 && m.fault == "rounds addresses down" {
		return nil
	}
	if !known && m.fault == "knows every address" {
		return nil
	}
	if readOnly && write && m.fault == "writes what is read-only" {
		return nil
	}
	if addr%4 != 0 || !known || readOnly && write || writeOnly && !write {
		return errors.New("no such access")
	}
	return nil
}

func (m *memory) Read32(ctx context.Context, addr uint32) (uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.access(ctx, addr, false); err != nil {
		return 0, err
	}
	if addr == device.RegID && m.fault != "writes what is read-only" {
		return device.IDValue, nil
	}
	if m.fault == "answers are another's" && ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if d, ok := ctx.Deadline(); ok && m.fault == "answers are another's" && time.Until(d) < time.Second {
		m.count = 1
	} else if m.count == 1 && m.fault == "answers are another's" {
		return 0xdead, nil
	}
	return m.regs[addr], nil
}

func (m *memory) Write32(ctx context.Context, addr, value uint32) error {
	if m.fault == "two writes mix" {
		m.count++
		if m.count%7 == 0 {
			return nil
		}
	}
	if !m.mu.TryLock() {
		if m.fault == "one caller at a time" {
			return nil
		}
		m.mu.Lock()
	}
	defer m.mu.Unlock()
	if err := m.access(ctx, addr, true); err != nil {
		return err
	}
	if m.fault == "swaps bytes" {
		value = value>>8 | value<<24
	}
	if m.fault == "aliases" {
		addr &^= 0x20
	}
	m.regs[addr] = value
	return nil
}

func (m *memory) Links() []device.Link { return nil }

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == "leaves a goroutine" && !m.closed {
		go func() { <-m.stay }()
	}
	m.closed = true
	return nil
}

func opener(fault string, stay chan struct{}) func() (device.Board, error) {
	return func() (device.Board, error) {
		return &memory{regs: map[uint32]uint32{device.RegID: device.IDValue}, fault: fault, stay: stay}, nil
	}
}

func TestBoard(t *testing.T) { devicetest.RunBoard(t, opener("", nil)) }

// Each fault is one that the named check must find; the same board without it passes (TestBoard).
func TestBoardSuiteCatches(t *testing.T) {
	stay := make(chan struct{})
	defer close(stay)
	for fault, check := range map[string]string{
		"swaps bytes":              "registers",
		"two writes mix":           "registers",
		"aliases":                  "order",
		"rounds addresses down":    "refused",
		"knows every address":      "refused",
		"writes what is read-only": "refused",
		"ignores contexts":         "context ends",
		"answers are another's":    "context ends",
		"one caller at a time":     "concurrent",
		"goes on after close":      "close",
		"leaves a goroutine":       "close",
	} {
		t.Run(fault, func(t *testing.T) {
			for _, c := range devicetest.BoardChecks() {
				if c.Name == check {
					require.Error(t, c.Do(opener(fault, stay)), "%s is not found by %q", fault, check)
					return
				}
			}
			t.Fatalf("no check %q", check)
		})
	}
}
