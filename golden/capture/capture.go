// Package capture reads the Ethernet frames of pcap and pcapng files, one at a time, and says of a file
// that is wrong where it is wrong and what was expected there.
//
// gopacket/pcapgo reads both formats too, but its pcapng reader panics on short options, takes a capture
// length beyond its block and a file that ends within a block, and both of its readers keep 8 bits of the
// link type, so that they take type 257 for Ethernet. A file given on a command line deserves better.
//
// Formats: draft-ietf-opsawg-pcap (versions 2.x, micro- and nanoseconds, both byte orders),
// draft-ietf-opsawg-pcapng (version 1.x, several sections and interfaces, both byte orders).
package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// MaxFrame is the most bytes of one frame that are read, the limit of libpcap.
const MaxFrame = 262144

// LinkTypeEthernet is the one link type that is read.
const LinkTypeEthernet = 1

const maxBlock = 16 << 20 // of pcapng; a longer one is taken for garbage

// Frame is one frame of a capture.
type Frame struct {
	N         int       // from 1, as tshark counts
	Interface int       // of a pcapng section, from 0; 0 of a pcap file
	Name      string    // of the interface, if the file says it
	Time      time.Time // zero if the file does not say it
	Data      []byte    // captured bytes, no FCS; the caller's to keep
	Length    int       // bytes the frame had; more than len(Data) if the capture cut it
	Offset    int64     // of the frame's record from the start of the file
}

// FormatError is a file that is no capture, ends early, or holds other than Ethernet.
type FormatError struct {
	File   string
	Offset int64 // of what is wrong, in bytes from the start of the file
	Got    string
	Want   string
}

// Error is one line: file, offset, got, wanted.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: at byte %d: got %s, want %s", e.File, e.Offset, e.Got, e.Want)
}

// Reader reads one capture.
type Reader struct {
	file   string
	in     *bufio.Reader
	offset int64 // of the next byte
	n      int
	order  binary.ByteOrder
	next   func() (Frame, error)
	err    error

	pcap       bool
	nanos      bool    // pcap
	interfaces []iface // pcapng, of this section
}

type iface struct {
	linkType uint16
	snap     uint32
	name     string
	perSec   uint64 // timestamp units in a second
	shift    int64  // seconds to add
}

// File is a Reader of an open file.
type File struct {
	*Reader
	io.Closer
}

// Open opens a capture file.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open capture: %w", err)
	}
	r, err := NewReader(path, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{Reader: r, Closer: f}, nil
}

// NewReader reads the head of a capture. Name stands for the file in errors.
func NewReader(name string, in io.Reader) (*Reader, error) {
	r := &Reader{file: name, in: bufio.NewReaderSize(in, 1<<16)}
	magic, err := r.in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: read: %w", name, err)
	}
	const want = "the magic number of pcap or pcapng"
	if len(magic) < 4 {
		return nil, r.bad(0, fmt.Sprintf("a file of %d bytes", len(magic)), want)
	}
	switch {
	case [4]byte(magic) == [4]byte{0x0a, 0x0d, 0x0d, 0x0a}:
		r.next = r.nextBlock
		return r, nil
	case magic[0] == 0x1f && magic[1] == 0x8b:
		return nil, r.bad(0, "gzip-compressed data", want+": decompress it first")
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch order.Uint32(magic) {
		case 0xa1b23c4d:
			r.nanos = true
			fallthrough
		case 0xa1b2c3d4:
			r.pcap, r.order = true, order
			r.next = r.nextRecord
			return r, r.pcapHeader()
		}
	}
	return nil, r.bad(0, fmt.Sprintf("% x", magic), want)
}

// Next is the next frame; io.EOF after the last one. Any other error is final.
func (r *Reader) Next() (Frame, error) {
	if r.err != nil {
		return Frame{}, r.err
	}
	f, err := r.next()
	if err != nil {
		r.err = err
		return Frame{}, err
	}
	r.n++
	f.N = r.n
	return f, nil
}

func (r *Reader) bad(offset int64, got, want string) error {
	return &FormatError{File: r.file, Offset: offset, Got: got, Want: want}
}

// read fills b. At the end of the file before the first byte it is io.EOF if that is a good place for
// one, otherwise the file is truncated.
func (r *Reader) read(b []byte, what string, eofGood bool) error {
	n, err := io.ReadFull(r.in, b)
	start := r.offset
	r.offset += int64(n)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) && eofGood:
		return io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.bad(start, fmt.Sprintf("the end of the file after %d bytes", n),
			fmt.Sprintf("%d bytes of %s (the capture is truncated)", len(b), what))
	}
	return fmt.Errorf("%s: read at byte %d: %w", r.file, r.offset, err)
}

// pcapHeader reads the 24 bytes at the start of a pcap file.
func (r *Reader) pcapHeader() error {
	var h [24]byte
	if err := r.read(h[:], "pcap file header", false); err != nil {
		return err
	}
	if v := r.order.Uint16(h[4:]); v != 2 {
		return r.bad(4, fmt.Sprintf("pcap version %d", v), "2")
	}
	// The low 16 bits; above them is how long an FCS is.
	if t := r.order.Uint32(h[20:]); uint16(t) != LinkTypeEthernet {
		return r.bad(20, fmt.Sprintf("link type %d", uint16(t)), fmt.Sprintf("%d (Ethernet)", LinkTypeEthernet))
	}
	return nil
}

// nextRecord reads a record of a pcap file.
func (r *Reader) nextRecord() (Frame, error) {
	f := Frame{Offset: r.offset}
	var h [16]byte
	if err := r.read(h[:], "pcap record header", true); err != nil {
		return f, err
	}
	unit := time.Microsecond
	if r.nanos {
		unit = time.Nanosecond
	}
	f.Time = time.Unix(int64(r.order.Uint32(h[0:])), int64(r.order.Uint32(h[4:]))*int64(unit)).UTC()
	captured := r.order.Uint32(h[8:])
	f.Length = int(r.order.Uint32(h[12:]))
	if err := r.checkLengths(f.Offset+8, captured, f.Length, MaxFrame); err != nil {
		return f, err
	}
	f.Data = make([]byte, captured)
	return f, r.read(f.Data, fmt.Sprintf("frame %d", r.n+1), false)
}

// checkLengths checks a captured length, found at an offset, against what the record has room for.
func (r *Reader) checkLengths(offset int64, captured uint32, length int, room int) error {
	if int64(captured) > int64(min(room, MaxFrame)) {
		return r.bad(offset, fmt.Sprintf("captured length %d of frame %d", captured, r.n+1),
			fmt.Sprintf("at most %d", min(room, MaxFrame)))
	}
	if int64(captured) > int64(length) {
		return r.bad(offset, fmt.Sprintf("captured length %d of frame %d", captured, r.n+1),
			fmt.Sprintf("at most its length %d", length))
	}
	return nil
}

// Block types of pcapng.
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 2 // obsolete
	blockSimple    = 3
	blockEnhanced  = 6
)

// nextBlock reads blocks of a pcapng file until one holds a frame.
func (r *Reader) nextBlock() (Frame, error) {
	for {
		at := r.offset
		var h [12]byte
		if err := r.read(h[:8], "pcapng block header", true); err != nil {
			return Frame{}, err
		}
		section := binary.LittleEndian.Uint32(h[:]) == blockSection // the same in both byte orders
		head := 8
		if section {
			if err := r.read(h[8:], "pcapng byte-order magic", false); err != nil {
				return Frame{}, err
			}
			head = 12
			switch uint32(0x1a2b3c4d) {
			case binary.LittleEndian.Uint32(h[8:]):
				r.order = binary.LittleEndian
			case binary.BigEndian.Uint32(h[8:]):
				r.order = binary.BigEndian
			default:
				return Frame{}, r.bad(at+8, fmt.Sprintf("% x", h[8:]), "pcapng byte-order magic 1a2b3c4d")
			}
		}
		typ, total := r.order.Uint32(h[:]), r.order.Uint32(h[4:])
		if least := uint32(head) + 4; total < least || total%4 != 0 || total > maxBlock {
			return Frame{}, r.bad(at+4, fmt.Sprintf("block length %d", total),
				fmt.Sprintf("a multiple of 4 in %d..%d", least, maxBlock))
		}
		body := make([]byte, int(total)-head)
		if err := r.read(body, fmt.Sprintf("pcapng block of type %#x", typ), false); err != nil {
			return Frame{}, err
		}
		body, tail := body[:len(body)-4], body[len(body)-4:]
		if again := r.order.Uint32(tail); again != total {
			return Frame{}, r.bad(r.offset-4, fmt.Sprintf("block length %d at its end", again),
				fmt.Sprintf("%d as at its start", total))
		}
		f, found, err := r.block(typ, at, at+int64(head), body)
		if err != nil || found {
			return f, err
		}
	}
}

// block takes the body of a block that starts at byte `at`, its body at byte `bodyAt`.
func (r *Reader) block(typ uint32, at, bodyAt int64, body []byte) (f Frame, found bool, err error) {
	need := map[uint32]int{blockSection: 12, blockInterface: 8, blockPacket: 20, blockSimple: 4, blockEnhanced: 20}[typ]
	if len(body) < need {
		return f, false, r.bad(bodyAt, fmt.Sprintf("a block of type %#x with %d bytes", typ, len(body)),
			fmt.Sprintf("at least %d", need))
	}
	f.Offset = at
	var units uint64
	var captured uint32
	var head int
	switch typ {
	case blockSection:
		if v := r.order.Uint16(body); v != 1 {
			return f, false, r.bad(bodyAt, fmt.Sprintf("pcapng version %d", v), "1")
		}
		r.interfaces = nil
		return f, false, nil
	case blockInterface:
		i := iface{linkType: r.order.Uint16(body), snap: r.order.Uint32(body[4:])}
		err := r.options(&i, bodyAt+8, body[8:])
		r.interfaces = append(r.interfaces, i)
		return f, false, err
	case blockEnhanced:
		f.Interface = int(r.order.Uint32(body))
		units = uint64(r.order.Uint32(body[4:]))<<32 | uint64(r.order.Uint32(body[8:]))
		captured, f.Length, head = r.order.Uint32(body[12:]), int(r.order.Uint32(body[16:])), 20
	case blockPacket:
		f.Interface = int(r.order.Uint16(body))
		units = uint64(r.order.Uint32(body[4:]))<<32 | uint64(r.order.Uint32(body[8:]))
		captured, f.Length, head = r.order.Uint32(body[12:]), int(r.order.Uint32(body[16:])), 20
	case blockSimple:
		f.Length, head = int(r.order.Uint32(body)), 4
		captured = uint32(f.Length)
		if len(r.interfaces) > 0 && r.interfaces[0].snap != 0 {
			captured = min(captured, r.interfaces[0].snap)
		}
	default:
		return f, false, nil
	}
	if f.Interface >= len(r.interfaces) {
		return f, false, r.bad(bodyAt, fmt.Sprintf("frame %d of interface %d", r.n+1, f.Interface),
			fmt.Sprintf("one of the section's %d interfaces", len(r.interfaces)))
	}
	i := r.interfaces[f.Interface]
	if i.linkType != LinkTypeEthernet {
		return f, false, r.bad(bodyAt, fmt.Sprintf("frame %d of interface %d with link type %d", r.n+1, f.Interface, i.linkType),
			fmt.Sprintf("link type %d (Ethernet)", LinkTypeEthernet))
	}
	lengthAt := bodyAt + 12
	if typ == blockSimple {
		lengthAt = bodyAt
	}
	if err := r.checkLengths(lengthAt, captured, f.Length, len(body)-head); err != nil {
		return f, false, err
	}
	f.Name = i.name
	if typ != blockSimple {
		f.Time = i.time(units)
	}
	f.Data = body[head : head+int(captured) : head+int(captured)]
	return f, true, nil
}

// options reads those of an interface that matter here.
func (r *Reader) options(i *iface, at int64, b []byte) error {
	i.perSec = 1e6
	for len(b) >= 4 {
		code, n := r.order.Uint16(b), int(r.order.Uint16(b[2:]))
		padded := (n + 3) &^ 3
		if padded > len(b)-4 {
			return r.bad(at, fmt.Sprintf("option %d of %d bytes", code, n), fmt.Sprintf("at most %d", len(b)-4))
		}
		v := b[4 : 4+n]
		switch {
		case code == 0:
			return nil
		case code == 2:
			i.name = string(v)
		case code == 9 && n == 1: // if_tsresol
			i.perSec = 1
			base := uint64(10)
			if v[0]&0x80 != 0 {
				base = 2
			}
			limit := map[uint64]byte{2: 63, 10: 19}[base]
			if v[0]&0x7f > limit {
				return r.bad(at, fmt.Sprintf("time resolution %d^-%d", base, v[0]&0x7f), fmt.Sprintf("at most %d^-%d", base, limit))
			}
			for range v[0] & 0x7f {
				i.perSec *= base
			}
		case code == 14 && n == 8: // if_tsoffset
			i.shift = int64(r.order.Uint64(v))
		}
		b, at = b[4+padded:], at+4+int64(padded)
	}
	return nil
}

func (i iface) time(units uint64) time.Time {
	rest := float64(units%i.perSec) / float64(i.perSec)
	nanos := int64(rest*1e9 + 0.5)
	if i.perSec <= 1e9 && 1e9%i.perSec == 0 { // exact
		nanos = int64(units % i.perSec * (1e9 / i.perSec))
	}
	return time.Unix(int64(units/i.perSec)+i.shift, nanos).UTC()
}

// IsPcap says that the file is pcap, which knows no interfaces, and not pcapng.
func (r *Reader) IsPcap() bool { return r.pcap }
