// Package table programs one engine through its registers and reads its state back.
//
// A Plan is an engine.Config laid out in the hardware's tables. Program writes a plan to an engine that has just
// been reset; Repoint gives drained pipes of a running one new entries (protocol.md 9).
package table

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/spec"
)

// Capabilities are the parameters an engine was built with.
type Capabilities struct {
	DataW     int // bits of the data path
	Ports     int
	Endpoints int // entries of ep_cfg, a power of two
	Pipes     int // entries of pipe_cfg
	Outs      int // entries of out_list, and of in_list
	PoolKB    int // payload pool
	MTU       int // largest payload of a packet, in bytes
	FanIn     int // most ins of a pipe
	Mode2     bool
	Mode3     bool
	Float     bool

	CutThrough bool // a result leaves while its last contribution arrives
}

// Blocks is the size of the payload pool in blocks of spec.BlockBytes.
func (c Capabilities) Blocks() int { return spec.PoolBlocks(c.PoolKB) }

// modes says which modes the build has, for messages.
func (c Capabilities) modes() string {
	switch {
	case c.Mode2 && c.Mode3:
		return "2 and 3"
	case c.Mode2:
		return "2"
	}
	return "3"
}

// Engine is one engine behind its registers. Its methods must not be called from several goroutines at once: a table
// command takes several register accesses.
type Engine struct {
	regs    device.Registers
	caps    Capabilities
	refused uint64
}

// Open looks at the engine behind regs: it must be one, of a register map and a spec that this driver knows.
func Open(ctx context.Context, regs device.Registers) (*Engine, error) {
	e := &Engine{regs: regs}
	id, err := e.read(ctx, "ID", device.RegID)
	if err != nil {
		return nil, err
	}
	if id != device.IDValue {
		return nil, fmt.Errorf("engine: ID reads %#08x, want %#08x: no engine at this address", id, device.IDValue)
	}
	version, err := e.read(ctx, "VERSION", device.RegVersion)
	if err != nil {
		return nil, err
	}
	major, minor := device.VersionMajor.Get(version), device.VersionMinor.Get(version)
	if major != device.MapMajor || minor < device.MapMinor {
		return nil, fmt.Errorf("engine: register map version %d.%d, want %d.%d or a later %d.x", major, minor,
			device.MapMajor, device.MapMinor, device.MapMajor)
	}
	hash, err := e.read(ctx, "SPEC_HASH", device.RegSpecHash)
	if err != nil {
		return nil, err
	}
	if hash != spec.SpecHash {
		return nil, fmt.Errorf("engine: built from spec %#08x, want %#08x, which this driver was generated from", hash, spec.SpecHash)
	}
	if err := e.readCapabilities(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Engine) readCapabilities(ctx context.Context) error {
	var words [5]uint32
	for i, addr := range []uint32{device.RegCapsData, device.RegCapsTables, device.RegCapsMemory, device.RegCapsLists,
		device.RegCapsEngine} {
		var err error
		if words[i], err = e.read(ctx, "CAPS", addr); err != nil {
			return err
		}
	}
	data, tables, memory, lists, rest := words[0], words[1], words[2], words[3], words[4]
	e.caps = Capabilities{
		DataW:     int(device.CapsDataDataW.Get(data)),
		Ports:     int(device.CapsDataPorts.Get(data)),
		Endpoints: int(device.CapsTablesEndpoints.Get(tables)),
		Pipes:     int(device.CapsTablesPipes.Get(tables)),
		Outs:      int(device.CapsListsOuts.Get(lists)),
		PoolKB:    int(device.CapsMemoryPoolKB.Get(memory)),
		MTU:       1 << device.CapsMemoryMTULog2.Get(memory),
		FanIn:     int(device.CapsEngineFanIn.Get(rest)),
		Mode2:     device.CapsDataMode2.Get(data) != 0,
		Mode3:     device.CapsDataMode3.Get(data) != 0,
		Float:     device.CapsDataFloat.Get(data) != 0,

		CutThrough: device.CapsEngineCutThrough.Get(rest) != 0,
	}
	if bits.OnesCount(uint(e.caps.Endpoints)) != 1 {
		return fmt.Errorf("engine: %d endpoint entries, want a power of two", e.caps.Endpoints)
	}
	if n := device.CapsListsCounters.Get(lists); n != spec.CounterCount {
		return fmt.Errorf("engine: %d counters, want %d", n, spec.CounterCount)
	}
	return nil
}

// Capabilities returns the parameters the engine was built with.
func (e *Engine) Capabilities() Capabilities { return e.caps }

// SetTickClocks sets the length of a timer tick in clocks: the engine's clock rate times spec.TickNs. Do it
// before Program. 0 stops all timers.
func (e *Engine) SetTickClocks(ctx context.Context, clocks uint32) error {
	return e.write(ctx, "TICK_CLOCKS", device.RegTickClocks, clocks)
}

// RefusedError says that the engine did not do a table command.
type RefusedError struct {
	Table  spec.TableID
	Index  int
	Write  bool
	Reason spec.TableError
}

func (r *RefusedError) Error() string {
	verb := "read"
	if r.Write {
		verb = "write"
	}
	why := map[spec.TableError]string{
		spec.TableErrorBusy:     ": the pipe is binding or not drained",
		spec.TableErrorBadIndex: ": the build has no such entry",
		spec.TableErrorBadTable: ": the build has no such table, or only the engine writes it",
	}[r.Reason]
	return fmt.Sprintf("%s of %v[%d] refused: %v%s", verb, r.Table, r.Index, r.Reason, why)
}

// IsBusy says whether err is the refusal of a command because the entry is in use: it may succeed later.
func IsBusy(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Reason == spec.TableErrorBusy
}

// Refused returns how many table commands the engine has refused this driver.
func (e *Engine) Refused() uint64 { return e.refused }

// WriteEntry writes one table entry. A pipe entry starts binding; wait with WaitBound.
func (e *Engine) WriteEntry(ctx context.Context, index int, entry spec.Entry) error {
	if err := entry.Validate(); err != nil {
		return fmt.Errorf("write of %v[%d]: %w", entry.Table(), index, err)
	}
	for i, w := range entry.Words() {
		if err := e.write(ctx, "TABLE_DATA", device.RegTableData+4*uint32(i), w); err != nil {
			return fmt.Errorf("write of %v[%d]: %w", entry.Table(), index, err)
		}
	}
	return e.command(ctx, entry.Table(), index, true)
}

// ReadEntry reads one table entry.
func (e *Engine) ReadEntry(ctx context.Context, index int, entry spec.Entry) error {
	if err := e.command(ctx, entry.Table(), index, false); err != nil {
		return err
	}
	words := make([]uint32, spec.Tables[entry.Table()].Words)
	for i := range words {
		var err error
		if words[i], err = e.read(ctx, "TABLE_DATA", device.RegTableData+4*uint32(i)); err != nil {
			return fmt.Errorf("read of %v[%d]: %w", entry.Table(), index, err)
		}
	}
	return entry.SetWords(words)
}

// command runs one table command and waits until it is done.
func (e *Engine) command(ctx context.Context, table spec.TableID, index int, write bool) error {
	where := func(err error) error { return fmt.Errorf("command for %v[%d]: %w", table, index, err) }
	if index < 0 || index >= 1<<device.TableCmdIndex.Width {
		return &RefusedError{Table: table, Index: index, Write: write, Reason: spec.TableErrorBadIndex}
	}
	cmd := device.TableCmdTableID.Put(uint32(table)) | device.TableCmdIndex.Put(uint32(index))
	if write {
		cmd |= device.TableCmdWrite.Put(1)
	}
	if err := e.write(ctx, "TABLE_CMD", device.RegTableCmd, cmd); err != nil {
		return where(err)
	}
	for {
		status, err := e.read(ctx, "TABLE_STATUS", device.RegTableStatus)
		if err != nil {
			return where(err)
		}
		switch reason := spec.TableError(device.TableStatusError.Get(status)); {
		case device.TableStatusOverrun.Get(status) != 0:
			return where(errors.New("another command was under way: two drivers on one engine"))
		case device.TableStatusBusy.Get(status) != 0:
			if err := ctx.Err(); err != nil {
				return where(fmt.Errorf("engine does not answer: %w", err))
			}
		case reason != spec.TableErrorNone:
			e.refused++
			return &RefusedError{Table: table, Index: index, Write: write, Reason: reason}
		default:
			return nil
		}
	}
}

func (e *Engine) read(ctx context.Context, name string, addr uint32) (uint32, error) {
	v, err := e.regs.Read32(ctx, addr)
	if err != nil {
		return 0, fmt.Errorf("read of %s (%#03x): %w", name, addr, err)
	}
	return v, nil
}

func (e *Engine) write(ctx context.Context, name string, addr, value uint32) error {
	if err := e.regs.Write32(ctx, addr, value); err != nil {
		return fmt.Errorf("write of %s (%#03x): %w", name, addr, err)
	}
	return nil
}
