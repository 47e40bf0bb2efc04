package table_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Addresses and fields as in docs/registers.md, on purpose not those of package device.
const (
	addrID, addrVersion, addrHash, addrScratch     = 0x00, 0x04, 0x08, 0x0c
	addrData, addrTables, addrMemory, addrLists    = 0x10, 0x14, 0x18, 0x1c
	addrCtrl, addrTick, addrCmd, addrStatus        = 0x20, 0x24, 0x30, 0x34
	addrIndex, addrLo, addrHi                      = 0x40, 0x44, 0x48
	addrFirst, addrPSN, addrGot, addrWanted        = 0x60, 0x64, 0x68, 0x6c
	addrPipeErrors, addrTableData, addrAfterTables = 0x80, 0x100, 0x160
	addrEngine, addrDrained                        = 0x28, 0xa0
)

var errSlave = errors.New("SLVERR")

type place struct{ table, index uint32 }

// fake is an engine behind its registers: the table protocol, binding, the drained rule, counters and the first
// error. It refuses what no driver may do.
type fake struct {
	regs    map[uint32]uint32
	data    [24]uint32
	entries map[place][24]uint32
	limits  [9]uint32
	busy    int // status reads until the command is done
	pending func() uint32
	status  uint32
	binding map[uint32]int // pipe to reads of its state until it is bound
	writes  []place        // accepted, in order
	counts  map[uint32]uint64
	hang    bool
	failAt  uint32 // an access to this address fails
}

func newFake() *fake {
	return &fake{
		regs: map[uint32]uint32{
			addrID: 0x45504943, addrVersion: 0x00010001, addrHash: spec.SpecHash,
			addrData: 512 | 8<<16 | 1<<25, addrTables: 64 | 16<<16, addrMemory: 128 | 12<<24,
			addrLists: 64 | uint32(spec.CounterCount)<<16, addrFirst: 0,
			addrEngine: 64, addrDrained: 0,
		},
		entries: map[place][24]uint32{},
		limits:  [9]uint32{64, 16, 64, 64, 64, 16, 64, 16, 16},
		binding: map[uint32]int{},
		counts:  map[uint32]uint64{},
	}
}

func (f *fake) Read32(ctx context.Context, addr uint32) (uint32, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	switch {
	case addr == f.failAt && addr != 0:
		return 0, errSlave
	case addr == addrStatus:
		if f.pending != nil && !f.hang {
			if f.busy--; f.busy < 0 {
				f.status = f.pending() << 4
				f.pending = nil
			}
		}
		if f.pending != nil {
			return f.status&2 | 1, nil
		}
		return f.status, nil
	case addr >= addrTableData && addr < addrAfterTables:
		return f.data[(addr-addrTableData)/4], nil
	case addr == addrLo:
		v := f.counts[f.regs[addrIndex]]
		f.regs[addrHi] = uint32(v >> 32)
		f.counts[f.regs[addrIndex]] += 0x1_0000_0000 // it counts on: a high part read later would be another
		return uint32(v), nil
	}
	if v, ok := f.regs[addr]; ok {
		return v, nil
	}
	return 0, errSlave
}

func (f *fake) Write32(ctx context.Context, addr, value uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case addr == f.failAt && addr != 0:
		return errSlave
	case addr >= addrTableData && addr < addrAfterTables:
		if f.pending != nil {
			return errors.New("TABLE_DATA written while a command is busy")
		}
		f.data[(addr-addrTableData)/4] = value
		return nil
	case addr == addrCmd:
		if f.pending != nil {
			f.status = 2
			return nil
		}
		f.busy = 2
		f.status = 0
		f.pending = func() uint32 { return f.command(value&1 != 0, place{value >> 4 & 15, value >> 16 & 0xfff}) }
		return nil
	case addr == addrCtrl:
		if value&1 != 0 {
			f.regs[addrFirst] &^= 1 << 31
		}
		return nil
	case addr == addrTick || addr == addrIndex || addr == addrScratch:
		f.regs[addr] = value
		return nil
	}
	return errSlave
}

// state returns the entry of a state table, unpacked.
func (f *fake) pipeState(pipe uint32) spec.PipeState {
	var s spec.PipeState
	w := f.entries[place{5, pipe}]
	if err := s.SetWords(w[:spec.Tables[spec.TablePipeState].Words]); err != nil {
		panic(err)
	}
	return s
}

func (f *fake) put(p place, words []uint32) {
	var w [24]uint32
	copy(w[:], words)
	f.entries[p] = w
}

func (f *fake) command(write bool, p place) uint32 {
	const none, busy, badIndex, badTable = 0, 1, 2, 3
	lists2 := p.table == 6 || p.table == 7 // in_list and pipe_ctl are of Mode-II
	if p.table > 8 || write && p.table > 2 && !lists2 || lists2 && f.regs[addrData]>>24&1 == 0 {
		return badTable
	}
	if p.index >= f.limits[p.table] {
		return badIndex
	}
	if !write {
		if left, ok := f.binding[p.index]; ok && p.table == 5 {
			s := f.pipeState(p.index)
			f.binding[p.index]--
			if left == 0 {
				s.Binding, s.Bound = false, true
				f.put(p, s.Words())
				delete(f.binding, p.index)
			}
		}
		f.data = f.entries[p]
		return none
	}
	switch p.table {
	case 0: // its state goes to psn0
		var ep spec.EpCfg
		if err := ep.SetWords(f.data[:22]); err != nil {
			panic(err)
		}
		f.put(place{3, p.index}, (&spec.EpRx{EPSN: ep.PSN0}).Words())
		last := (ep.PSN0 - 1) & 0xffffff
		f.put(place{4, p.index}, (&spec.EpTx{LastAcked: last, Cursor: ep.PSN0, SentMax: last}).Words())
	case 1:
		s := f.pipeState(p.index)
		still := s.PSNStart != s.NextSend
		if old := f.entries[p]; f.mode(old) == 2 {
			still = !s.Quiesced || s.Incomplete != 0
		}
		if s.Binding || s.Bound && !s.PipeError && still {
			return busy
		}
		var pipe spec.PipeCfg
		if err := pipe.SetWords(f.data[:6]); err != nil {
			panic(err)
		}
		f.put(place{5, p.index}, (&spec.PipeState{PSNStart: pipe.PSN0, NextSend: pipe.PSN0, Binding: true}).Words())
		f.binding[p.index] = 3
	case 7:
		s := f.pipeState(p.index)
		s.Quiesced = f.data[0]&1 != 0
		f.put(place{5, p.index}, s.Words())
	}
	f.entries[p] = f.data
	f.writes = append(f.writes, p)
	return none
}

// mode is the protocol mode of a pipe_cfg entry.
func (f *fake) mode(words [24]uint32) uint8 {
	var pipe spec.PipeCfg
	if err := pipe.SetWords(words[:spec.Tables[spec.TablePipeCfg].Words]); err != nil {
		panic(err)
	}
	return pipe.Mode
}

// inner is an inner switch of a tree: two children, one parent, a pipe up and a pipe down.
func inner() engine.Config {
	ep := func(i int, qpn uint32, in, out, bit int) engine.Endpoint {
		return engine.Endpoint{
			Name: fmt.Sprintf("child%d", i), Port: i,
			MAC: roce.MAC{0x52, 0x54, 0, 0, 0, 0x63}, PeerMAC: roce.MAC{0x52, 0x54, 0, 0, 0, byte(i + 1)},
			IP: netip.MustParseAddr("10.9.0.99"), PeerIP: netip.MustParseAddr(fmt.Sprintf("10.9.0.%d", i+1)),
			QPN: qpn, PeerQPN: 0x800011, PKey: 0xffff, UDPSport: 49999, TTL: 64, TOS: 2, MigReq: true,
			PSN0: 0xfffff0, InPipe: in, OutPipe: out, InIndex: bit,
		}
	}
	pipe := func(name string, base int, ins, outs []int) engine.Pipe {
		return engine.Pipe{Name: name, Mode: 3, Op: spec.OpSum, DType: spec.DTypeInt32, Ins: ins, Outs: outs, N: 32, MTU: 1024,
			PSN0: 0xfffff0, AckEvery: 2, RNRCode: 1, Retries: 7, BackoffMax: 3, Timeout: 1680, Base: base}
	}
	cfg := engine.Config{
		Name:      "leaf",
		Endpoints: []engine.Endpoint{ep(0, 0x101, 0, 1, 0), ep(1, 0x102, 0, 1, 1), ep(2, 0x4103, 1, 0, 0)},
		Pipes:     []engine.Pipe{pipe("up", 0, []int{0, 1}, []int{2}), pipe("down", 128, []int{2}, []int{0, 1})},
	}
	cfg.Endpoints[2].Name = "parent"
	vlan := uint16(0x2005)
	cfg.Endpoints[2].VLAN = &vlan
	return cfg
}

func open(t *testing.T, f *fake) *table.Engine {
	t.Helper()
	e, err := table.Open(t.Context(), f)
	require.NoError(t, err)
	return e
}

func TestOpen(t *testing.T) {
	e := open(t, newFake())
	assert.Equal(t, table.Capabilities{DataW: 512, Ports: 8, Endpoints: 64, Pipes: 16, Outs: 64, PoolKB: 128, MTU: 4096, FanIn: 64,
		Mode3: true},
		e.Capabilities())
	assert.Equal(t, 512, e.Capabilities().Blocks())

	for _, tt := range []struct {
		name string
		addr uint32
		v    uint32
		want string
	}{
		{"no engine", addrID, 0xffffffff, "engine: ID reads 0xffffffff, want 0x45504943: no engine at this address"},
		{"other map", addrVersion, 0x00020001, "engine: register map version 2.1, want 1.1 or a later 1.x"},
		{"older map", addrVersion, 0x00010000, "engine: register map version 1.0, want 1.1 or a later 1.x"},
		{"other spec", addrHash, 1, fmt.Sprintf("engine: built from spec 0x00000001, want %#08x, which this driver was generated from", spec.SpecHash)},
		{"odd table", addrTables, 48 | 16<<16, "engine: 48 endpoint entries, want a power of two"},
		{"other counters", addrLists, 64 | 3<<16, fmt.Sprintf("engine: 3 counters, want %d", spec.CounterCount)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.regs[tt.addr] = tt.v
			_, err := table.Open(t.Context(), f)
			assert.EqualError(t, err, tt.want)
		})
	}
	f := newFake()
	f.failAt = addrHash
	_, err := table.Open(t.Context(), f)
	assert.EqualError(t, err, "read of SPEC_HASH (0x008): SLVERR")
	assert.ErrorIs(t, err, errSlave)
}

func TestProgram(t *testing.T) {
	f := newFake()
	e := open(t, f)
	plan, err := e.Program(t.Context(), inner())
	require.NoError(t, err)

	// Out lists, endpoints by the low six bits of their QPNs, pipes.
	assert.Equal(t, []place{{2, 0}, {2, 1}, {2, 2}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}}, f.writes)
	assert.Equal(t, uint32(3), f.entries[place{2, 0}][0], "up leaves at the parent")
	assert.Equal(t, uint32(1), f.entries[place{2, 1}][0])
	assert.Equal(t, uint32(2), f.entries[place{2, 2}][0])

	var ep spec.EpCfg
	w := f.entries[place{0, 3}]
	require.NoError(t, ep.SetWords(w[:22]))
	assert.Equal(t, spec.EpCfg{Valid: true, VLANValid: true, MigReq: true, InValid: true, OutValid: true, Port: 2,
		InIndex: 0, InPipe: 1, OutPipe: 0, QPN: 0x4103, PeerQPN: 0x800011, PKey: 0xffff, UDPSport: 49999, TTL: 64, TOS: 2,
		VLANTCI: 0x2005, PSN0: 0xfffff0, MAC: 0x525400000063, PeerMAC: 0x525400000003,
		IP: spec.Uint128{Lo: 0x0a090063}, PeerIP: spec.Uint128{Lo: 0x0a090003}}, ep)
	w = f.entries[place{0, 2}]
	require.NoError(t, ep.SetWords(w[:22]))
	assert.Equal(t, uint8(1), ep.InIndex)
	assert.Equal(t, uint8(0), ep.InPipe)
	assert.Equal(t, uint8(1), ep.OutPipe)
	assert.False(t, ep.VLANValid)

	var pipe spec.PipeCfg
	w = f.entries[place{1, 1}]
	require.NoError(t, pipe.SetWords(w[:6]))
	assert.Equal(t, spec.PipeCfg{Valid: true, Mode: 3, FanIn: 1, FanOut: 2, NLog2: 5, MTULog2: 10, OutBase: 1, BaseBlock: 128,
		PSN0: 0xfffff0, AckEvery: 2, RNRCode: 1, Retries: 7, BackoffMax: 3, Timeout: 1680, Pinned: true, ReplayAsker: true}, pipe)

	assert.Empty(t, f.binding, "every pipe was waited for")
	require.NoError(t, e.Verify(t.Context(), plan))
	state, err := e.ReadState(t.Context(), plan)
	require.NoError(t, err)
	assert.Equal(t, spec.PipeState{PSNStart: 0xfffff0, NextSend: 0xfffff0, Bound: true}, state.Pipes[1])
	assert.Equal(t, spec.EpTx{LastAcked: 0xffffef, Cursor: 0xfffff0, SentMax: 0xffffef}, state.Tx[2])
	assert.Equal(t, spec.EpRx{EPSN: 0xfffff0}, state.Rx[0])

	_, err = e.Program(t.Context(), inner())
	assert.EqualError(t, err, "pipe 0 (up): bound already: repoint it, or reset the engine")

	broken := f.entries[place{0, 2}]
	broken[2] ^= 1 << 1 // bit 65: peer_qpn is bits 81:58
	f.entries[place{0, 2}] = broken
	assert.EqualError(t, e.Verify(t.Context(), plan), "not what was written: endpoint 1 (child1): ep_cfg[2].peer_qpn: got 0x800091, want 0x800011")
}

func TestIPv6(t *testing.T) {
	f := newFake()
	cfg := inner()
	for i := range cfg.Endpoints {
		cfg.Endpoints[i].IP = netip.MustParseAddr("fd00::63")
		cfg.Endpoints[i].PeerIP = netip.MustParseAddr(fmt.Sprintf("fd00::%d", i+1))
	}
	_, err := open(t, f).Program(t.Context(), cfg)
	require.NoError(t, err)
	var ep spec.EpCfg
	w := f.entries[place{0, 1}]
	require.NoError(t, ep.SetWords(w[:22]))
	assert.True(t, ep.IsV6)
	assert.Equal(t, spec.Uint128{Hi: 0xfd00 << 48, Lo: 0x63}, ep.IP)
}

// What the build cannot hold is refused before anything is written.
func TestDoesNotFit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*engine.Config, *fake)
		want   string
	}{
		{"QPNs meet", func(c *engine.Config, _ *fake) { c.Endpoints[2].QPN = 0x4102 },
			"endpoint 2 (parent): QPN 0x004102 takes entry 2 of 64, which is endpoint 1 (child1)'s (QPN 0x000102)"},
		{"port", func(_ *engine.Config, f *fake) { f.regs[addrData] = 512 | 2<<16 | 1<<25 },
			"endpoint 2 (parent): port: got 2, want 0..1"},
		{"pipes", func(_ *engine.Config, f *fake) { f.regs[addrTables] = 64 | 1<<16 }, "pipes: got 2, want at most 1"},
		{"pool", func(_ *engine.Config, f *fake) { f.regs[addrMemory] = 63 | 12<<24 },
			"pipe 1 (down): blocks 128..255 exceed the pool of 252"},
		{"overlap", func(c *engine.Config, _ *fake) { c.Pipes[1].Base = 127 }, "pipe 1 (down): blocks 127..254 overlap those of pipe 0 (up)"},
		{"MTU", func(_ *engine.Config, f *fake) { f.regs[addrMemory] = 128 | 9<<24 }, "pipe 0 (up): MTU 1024, want at most 512 in this build"},
		{"outs", func(_ *engine.Config, f *fake) { f.regs[addrLists] = 2 | uint32(spec.CounterCount)<<16 },
			"outs of all pipes: got 3, want at most 2"},
		{"mode", func(_ *engine.Config, f *fake) { f.regs[addrData] = 512 | 8<<16 | 1<<24 }, "pipe 0 (up): mode 3 is not in this build, which has mode 2"},
		{"mode 1", func(c *engine.Config, _ *fake) { c.Pipes[1].Mode = 1 }, "pipe 1 (down): mode 1 is not in this build, which has mode 3"},
		{"mode 2", func(c *engine.Config, _ *fake) { c.Pipes[1].Mode = 2 }, "pipe 1 (down): mode 2 is not in this build, which has mode 3"},
		{"fan-in", func(_ *engine.Config, f *fake) { f.regs[addrEngine] = 1 }, "pipe 0 (up): fan-in 2, want at most 1 in this build"},
		{"ins", func(c *engine.Config, f *fake) {
			mode2(c)
			c.Pipes[1].Outs = c.Pipes[1].Outs[:1]
			c.Endpoints[1].OutPipe = engine.None
			f.regs[addrData] |= 1 << 24
			f.regs[addrLists] = 2 | uint32(spec.CounterCount)<<16
		}, "ins of all Mode-II pipes: got 3, want at most 2"},
		{"slot below a beat", func(c *engine.Config, f *fake) {
			c.Pipes[0].MTU, c.Pipes[1].MTU = 256, 256
			f.regs[addrData] = 4096 | 8<<16 | 1<<25
		}, "pipe 1 (down): MTU 256, want at least 512 in this build: its data path has 4096 bits"},
		{"slot beside a beat", func(c *engine.Config, f *fake) {
			c.Pipes[1].Base = 129
			f.regs[addrData] = 4096 | 8<<16 | 1<<25
		}, "pipe 1 (down): base block 129, want a multiple of 2 in this build: its data path has 4096 bits"},
		{"float", func(c *engine.Config, _ *fake) { c.Pipes[0].DType = spec.DTypeFloat32 }, "pipe 0 (up): float32 is not in this build, which has integers only"},
		{"PSN space", func(c *engine.Config, _ *fake) {
			c.PSNBits = 23
			for i := range c.Endpoints {
				c.Endpoints[i].PSN0 = 0
			}
			c.Pipes[0].PSN0, c.Pipes[1].PSN0 = 0, 0
		}, "PSN bits: got 23, want 24"},
		{"variant", func(c *engine.Config, _ *fake) { c.Variant.Strict = true }, "variant: got"},
		{"invalid", func(c *engine.Config, _ *fake) { c.Pipes[0].N = 24 }, "pipe 0 (up): slots: got 24"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			cfg := inner()
			tt.change(&cfg, f)
			_, err := open(t, f).Program(t.Context(), cfg)
			assert.ErrorContains(t, err, tt.want)
			assert.Empty(t, f.writes)
		})
	}
}

func TestRefusals(t *testing.T) {
	f := newFake()
	e := open(t, f)
	for _, tt := range []struct {
		index int
		entry spec.Entry
		want  string
	}{
		{64, &spec.EpCfg{}, "write of ep_cfg[64] refused: bad_index: the build has no such entry"},
		{4096, &spec.EpCfg{}, "write of ep_cfg[4096] refused: bad_index: the build has no such entry"},
		{-1, &spec.OutList{}, "write of out_list[-1] refused: bad_index: the build has no such entry"},
		{0, &spec.EpRx{}, "write of ep_rx[0] refused: bad_table: the build has no such table, or only the engine writes it"},
		{3, &spec.EpCfg{QPN: 1 << 24}, "write of ep_cfg[3]: ep_cfg.qpn: got 16777216, want 0..16777215 (24 bits)"},
	} {
		err := e.WriteEntry(t.Context(), tt.index, tt.entry)
		assert.EqualError(t, err, tt.want)
		assert.False(t, table.IsBusy(err))
	}
	assert.Empty(t, f.writes)

	f.failAt = addrTableData + 8
	assert.EqualError(t, e.WriteEntry(t.Context(), 1, &spec.EpCfg{}), "write of ep_cfg[1]: write of TABLE_DATA (0x108): SLVERR")
	f.failAt = 0

	// Somebody else's command is under way.
	f.hang = true
	require.NoError(t, f.Write32(t.Context(), addrCmd, 0))
	f.hang = false
	assert.ErrorContains(t, e.ReadEntry(t.Context(), 1, &spec.EpRx{}), "two drivers on one engine")
}

// An engine that never answers, and a pipe that never binds, end with the context.
func TestWaits(t *testing.T) {
	f := newFake()
	e := open(t, f)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	f.hang = true
	assert.ErrorIs(t, e.ReadEntry(ctx, 1, &spec.EpRx{}), context.DeadlineExceeded)

	f = newFake()
	e = open(t, f)
	_, err := e.Program(t.Context(), inner())
	require.NoError(t, err)
	f.put(place{5, 1}, (&spec.PipeState{Binding: true}).Words())
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = e.WaitBound(ctx, 1)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestRepoint(t *testing.T) {
	f := newFake()
	e := open(t, f)
	_, err := e.Program(t.Context(), inner())
	require.NoError(t, err)

	next := inner()
	for i := range next.Endpoints {
		next.Endpoints[i].PSN0 = 0x400056
	}
	next.Pipes[0].PSN0, next.Pipes[1].PSN0 = 0x400056, 0x400056
	next.Pipes[0].Op = spec.OpMax
	next.Endpoints[1].QPN = 0x10a // another entry: the old one must go

	busy := func(what string) {
		t.Helper()
		f.writes = nil
		_, err := e.Repoint(t.Context(), next, 0, 1)
		require.Error(t, err)
		assert.True(t, table.IsBusy(err), err)
		assert.ErrorContains(t, err, what)
		assert.Empty(t, f.writes, "nothing is touched")
	}
	f.put(place{5, 1}, (&spec.PipeState{PSNStart: 0xfffff0, NextSend: 0xfffff1, Bound: true}).Words())
	busy("pipe 1 (down)")
	f.put(place{5, 1}, (&spec.PipeState{PSNStart: 0xfffff0, NextSend: 0xfffff0, Bound: true}).Words())
	f.put(place{3, 2}, (&spec.EpRx{EPSN: 0xfffff1}).Words())
	busy("pipe 0 (up)")
	f.put(place{3, 2}, (&spec.EpRx{EPSN: 0xfffff0}).Words())
	f.put(place{5, 0}, (&spec.PipeState{Binding: true}).Words())
	f.binding[0] = 1000
	busy("pipe 0 (up): binding")
	delete(f.binding, 0)
	// A pipe in error need not be drained.
	f.put(place{5, 0}, (&spec.PipeState{PSNStart: 0xfffff0, NextSend: 0xfffff3, Bound: true, PipeError: true}).Words())

	_, err = e.Repoint(t.Context(), next, 0)
	assert.ErrorContains(t, err, "endpoint 0 (child0): in-pipe 0 and out-pipe 1 start anew together, got pipes [0]")
	_, err = e.Repoint(t.Context(), next, 2)
	assert.EqualError(t, err, "repoint: got pipe 2, want 0..1")

	f.writes = nil
	plan, err := e.Repoint(t.Context(), next, 0, 1)
	require.NoError(t, err)
	assert.Equal(t, []place{{0, 1}, {0, 2}, {0, 3}, {2, 0}, {2, 1}, {2, 2}, {1, 0}, {1, 1}, {0, 1}, {0, 10}, {0, 3}}, f.writes)
	assert.Equal(t, uint32(0), f.entries[place{0, 2}][0]&1, "the entry of the old QPN is invalid")
	require.NoError(t, e.Verify(t.Context(), plan))
	state, err := e.ReadState(t.Context(), plan)
	require.NoError(t, err)
	assert.Equal(t, uint32(0x400056), state.Pipes[0].NextSend)
	assert.Equal(t, uint32(0x400056), state.Rx[1].EPSN)
}

// mode2 makes the pipes of inner Mode-II ones: what goes up is a Reduce, what comes down a Broadcast.
func mode2(c *engine.Config) {
	for i := range c.Pipes {
		c.Pipes[i].Mode = 2
		c.Pipes[i].AckEvery, c.Pipes[i].Timeout = 0, 0
	}
	c.Pipes[0].AckRule, c.Pipes[1].AckRule = spec.AckRuleReplicate, spec.AckRuleMinimum
}

func newMode2(t *testing.T) (*fake, *table.Engine, engine.Config) {
	f := newFake()
	f.regs[addrData] |= 1 << 24
	cfg := inner()
	mode2(&cfg)
	e := open(t, f)
	plan, err := e.Program(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, e.Verify(t.Context(), plan))
	return f, e, cfg
}

// The ins of a Mode-II pipe are written too, in the order of their bits, from its in_base on.
func TestMode2Lists(t *testing.T) {
	f, e, cfg := newMode2(t)
	assert.Equal(t, []place{{2, 0}, {6, 0}, {6, 1}, {2, 1}, {2, 2}, {6, 2}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}}, f.writes)
	for i, want := range []uint32{1, 2, 3} { // entries of the endpoints
		assert.Equal(t, want, f.entries[place{6, uint32(i)}][0], "in_list[%d]", i)
	}
	for i, want := range []uint16{0, 2} {
		var pipe spec.PipeCfg
		require.NoError(t, e.ReadEntry(t.Context(), i, &pipe))
		assert.Equal(t, want, pipe.InBase, "in_base of pipe %d", i)
	}
	plan, err := table.NewPlan(cfg, e.Capabilities())
	require.NoError(t, err)
	f.put(place{6, 2}, []uint32{7})
	assert.EqualError(t, e.Verify(t.Context(), plan),
		"not what was written: pipe 1 (down), in 0: in_list[2].endpoint: got 0x7, want 0x3")
}

// A Mode-II pipe is drained when its manager says so and no started slot is incomplete: either alone is not enough.
func TestRepointMode2(t *testing.T) {
	f, e, cfg := newMode2(t)
	next := cfg
	busy := func(what string) {
		t.Helper()
		f.writes = nil
		_, err := e.Repoint(t.Context(), next, 0, 1)
		require.Error(t, err)
		assert.True(t, table.IsBusy(err), err)
		assert.ErrorContains(t, err, what)
		assert.Empty(t, f.writes, "nothing is touched")
	}
	busy("pipe 0 (up): not quiesced")
	require.NoError(t, e.Quiesce(t.Context(), 0))
	busy("pipe 1 (down): not quiesced")
	require.NoError(t, e.Quiesce(t.Context(), 1))
	s := f.pipeState(0)
	s.Incomplete = 3
	f.put(place{5, 0}, s.Words())
	busy("pipe 0 (up): 3 slots have started and are not complete")
	s.Incomplete = 0
	f.put(place{5, 0}, s.Words())
	_, err := e.Repoint(t.Context(), next, 0, 1)
	require.NoError(t, err)
	busy("pipe 0 (up): not quiesced") // writing the pipe took it back

	// A pipe that knows for itself, and one that is not there.
	f = newFake()
	e = open(t, f)
	_, err = e.Program(t.Context(), inner())
	require.NoError(t, err)
	assert.EqualError(t, e.Quiesce(t.Context(), 1), "quiesce pipe 1: got a pipe of mode 3, want 2")
	assert.EqualError(t, e.Quiesce(t.Context(), 5), "quiesce pipe 5: not bound, want a pipe of mode 2")
	assert.ErrorContains(t, e.Quiesce(t.Context(), 16), "pipe_state[16] refused: bad_index")
}

func TestWaitDrained(t *testing.T) {
	f := newFake()
	f.regs[addrTables] = 64 | 40<<16
	f.regs[addrDrained], f.regs[addrDrained+4] = 1<<3, 1<<7
	e := open(t, f)
	require.NoError(t, e.WaitDrained(t.Context(), 3))
	require.NoError(t, e.WaitDrained(t.Context(), 39))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := e.WaitDrained(ctx, 7)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.EqualError(t, e.WaitDrained(t.Context(), 40), "drained: got pipe 40, want 0..39")
	f.failAt = addrDrained
	assert.EqualError(t, e.WaitDrained(t.Context(), 3), "read of PIPE_DRAINED (0x0a0): SLVERR")
}

func TestPipeFault(t *testing.T) {
	f := newFake()
	e := open(t, f)
	_, ok, err := e.PipeFault(t.Context(), 2)
	require.NoError(t, err)
	assert.False(t, ok)
	f.put(place{8, 2}, (&spec.PipeError{Kind: uint8(spec.ErrorKindMismatchImm), Endpoint: 0x21, PSN: 0xfffff1,
		Got: 0xdeadbeef, Wanted: 7}).Words())
	fault, ok, err := e.PipeFault(t.Context(), 2)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, table.Fault{Kind: spec.ErrorKindMismatchImm, Pipe: 2, Endpoint: 0x21, PSN: 0xfffff1, Got: 0xdeadbeef,
		Wanted: 7}, fault)
	_, _, err = e.PipeFault(t.Context(), 16)
	assert.ErrorContains(t, err, "read of pipe_error[16] refused: bad_index")
}

// Pipes that are not listed stay as they are, and a configuration that says otherwise is refused.
func TestRepointLeavesOthersAlone(t *testing.T) {
	f := newFake()
	e := open(t, f)
	cfg := inner()
	// A second group: one endpoint that is its own pipe's in and out.
	extra := cfg.Endpoints[0]
	extra.Name, extra.QPN, extra.Port, extra.InPipe, extra.OutPipe, extra.InIndex = "loop", 0x120, 5, 2, 2, 0
	cfg.Endpoints = append(cfg.Endpoints, extra)
	loop := cfg.Pipes[0]
	loop.Name, loop.Ins, loop.Outs, loop.Base = "loop", []int{3}, []int{3}, 256
	cfg.Pipes = append(cfg.Pipes, loop)
	_, err := e.Program(t.Context(), cfg)
	require.NoError(t, err)

	f.writes = nil
	cfg.Pipes[2].Timeout = 99
	_, err = e.Repoint(t.Context(), cfg, 2)
	require.NoError(t, err)
	assert.Equal(t, []place{{0, 0x20}, {2, 3}, {1, 2}, {0, 0x20}}, f.writes)

	f.writes = nil
	cfg.Pipes[0].Retries = 3
	_, err = e.Repoint(t.Context(), cfg, 2)
	assert.EqualError(t, err, "pipe 0 (up) is not to change: not what was written: pipe 0 (up): pipe_cfg[0].retries: got 0x7, want 0x3")
	assert.Empty(t, f.writes)
}

func TestCounters(t *testing.T) {
	f := newFake()
	e := open(t, f)
	f.counts[uint32(spec.VerdictICRC)] = 0xabcd_ffff_fffe
	f.counts[uint32(spec.VerdictCount)] = 7 // the first event
	v, err := e.Counter(t.Context(), spec.VerdictICRC.Counter())
	require.NoError(t, err)
	assert.Equal(t, uint64(0xabcd_ffff_fffe), v)
	all, err := e.ReadCounters(t.Context())
	require.NoError(t, err)
	assert.Equal(t, uint64(7), all[spec.CounterRxData])
	assert.Equal(t, uint64(0xabce_ffff_fffe), all.Verdict(spec.VerdictICRC))
	assert.Zero(t, all.Verdict(spec.VerdictOk))
	_, err = e.Counter(t.Context(), spec.CounterCount)
	assert.EqualError(t, err, "counter: got 67, want 0..66")
	f.failAt = addrHi
	_, err = e.ReadCounters(t.Context())
	assert.EqualError(t, err, "counter verdict_ok: read of CNT_HI (0x048): SLVERR")
}

func TestFault(t *testing.T) {
	f := newFake()
	e := open(t, f)
	_, ok, err := e.Fault(t.Context())
	require.NoError(t, err)
	assert.False(t, ok)

	f.regs[addrFirst] = 1<<31 | 0x20<<16 | 1<<8 | uint32(spec.ErrorKindMismatchLength)
	f.regs[addrPSN], f.regs[addrGot], f.regs[addrWanted] = 0xfffff0, 1020, 1024
	fault, ok, err := e.Fault(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, "mismatch_length at pipe 1, endpoint entry 32, psn 0xfffff0: got 1020, want 1024", fault.String())
	require.NoError(t, e.ClearFault(t.Context()))
	_, ok, err = e.Fault(t.Context())
	require.NoError(t, err)
	assert.False(t, ok)

	f.regs[addrTables] = 64 | 40<<16
	f.regs[addrPipeErrors], f.regs[addrPipeErrors+4] = 1<<3, 1<<7
	list, err := open(t, f).PipesInError(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{3, 39}, list)
	require.NoError(t, e.SetTickClocks(t.Context(), 3220))
	assert.Equal(t, uint32(3220), f.regs[addrTick])
}
