// Package device is the way to an engine, its registers, and to a network, links.
//
// The register map is generated from rtl/spec/inc_csr.rdl (csr_gen.go, docs/registers.md).
package device

import (
	"context"
	"fmt"
)

//go:generate ../../scripts/generate-csr

// Registers reads and writes the 32-bit registers of one engine. Addresses are in bytes from the engine's base,
// a multiple of 4: the constants Reg... of this package.
//
// A call returns when the engine has answered or ctx is done. An address the engine does not know, or an access it
// does not allow (AXI4-Lite SLVERR), is an error. Calls of one goroutine reach the engine in their order; an
// implementation need not allow calls from several at once.
type Registers interface {
	Read32(ctx context.Context, addr uint32) (uint32, error)
	Write32(ctx context.Context, addr, value uint32) error
}

// Register is one register of the map, or an array of them 4 bytes apart.
type Register struct {
	Name     string // as in docs/registers.md
	Addr     uint32
	Count    int // 1 if it is no array
	Readable bool
	Writable bool
}

// Field is one field of a register.
type Field struct {
	Name  string // register.field, as in docs/registers.md
	Shift uint   // lowest bit
	Width uint   // bits
}

// Get returns the field's value in a register's.
func (f Field) Get(register uint32) uint32 { return register >> f.Shift & f.max() }

// Put returns v at the field's place, to be ORed with other fields. A value wider than the field is a programming
// error: Put panics, because what it would write belongs to another field.
func (f Field) Put(v uint32) uint32 {
	if v > f.max() {
		panic(fmt.Sprintf("device: %s: got %d, want 0..%d", f.Name, v, f.max()))
	}
	return v << f.Shift
}

func (f Field) max() uint32 { return uint32(uint64(1)<<f.Width - 1) }
