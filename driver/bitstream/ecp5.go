// Package bitstream reads bitstreams of Lattice ECP5 FPGAs and loads them into a board's flash. A file that is not a
// whole, right bitstream of the board's FPGA is refused before anything is erased, and the golden image, by which a
// board always comes up, is never written.
package bitstream

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Device is a kind of FPGA.
type Device struct {
	Name       string
	ID         uint32 // IDCODE, as VERIFY_ID has it
	Frames     int    // of its configuration
	FrameBytes int    // of each
}

// Devices are those that are known: Project Trellis' devices.json, with bits of a frame and its padding in bytes.
var Devices = []Device{
	{"LFE5U-12F", 0x21111043, 7562, 74},
	{"LFE5U-25F", 0x41111043, 7562, 74},
	{"LFE5U-45F", 0x41112043, 9470, 106},
	{"LFE5U-85F", 0x41113043, 13294, 142},
	{"LFE5UM-25F", 0x01111043, 7562, 74},
	{"LFE5UM-45F", 0x01112043, 9470, 106},
	{"LFE5UM-85F", 0x01113043, 13294, 142},
	{"LFE5UM5G-25F", 0x81111043, 7562, 74},
	{"LFE5UM5G-45F", 0x81112043, 9470, 106},
	{"LFE5UM5G-85F", 0x81113043, 13294, 142},
}

// DeviceName is the name of the FPGA with an IDCODE.
func DeviceName(id uint32) string {
	if d, ok := deviceOf(id); ok {
		return d.Name
	}
	return fmt.Sprintf("an unknown FPGA (IDCODE %#08x)", id)
}

func deviceOf(id uint32) (Device, bool) {
	for _, d := range Devices {
		if d.ID == id {
			return d, true
		}
	}
	return Device{}, false
}

// Bitstream is a whole bitstream that was found right.
type Bitstream struct {
	Header     []string // its words to the reader: "Part: LFE5U-25F-6CABGA381"
	Device     Device
	Compressed bool
	Data       []byte // the file, as it goes into the flash
}

// Commands of a bitstream (FPGA-TN-02039, table of slave SPI commands; names as there).
const (
	lscResetCRC        = 0x3b
	verifyID           = 0xe2
	lscWriteCompDic    = 0x02
	lscProgCntrl0      = 0x22
	lscInitAddress     = 0x46
	lscProgIncrCmp     = 0xb8
	lscProgIncrRTI     = 0x82
	lscEBRAddress      = 0xf6
	lscEBRWrite        = 0xb2
	spiMode            = 0x79
	jump               = 0x7e
	iscProgramUsercode = 0xc2
	iscProgramSecurity = 0xce
	iscProgramDone     = 0x5e
	dummy              = 0xff
)

var preamble = []byte{0xff, 0xff, 0xbd, 0xb3}

// Load reads and checks a file.
func Load(path string) (*Bitstream, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("bitstream: %w", err)
	}
	b, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("bitstream %s: %w", path, err)
	}
	return b, nil
}

// Parse reads a bitstream to its end and checks all of it: its commands, the configuration and every CRC.
func Parse(data []byte) (*Bitstream, error) {
	b := &Bitstream{Data: data}
	switch {
	case len(data) == 0:
		return nil, errors.New("the file is empty")
	case len(data) < 2 || data[0] != 0xff || data[1] != 0:
		return nil, errors.New("not a Lattice .bit file: it does not begin with ff 00")
	}
	end := bytes.IndexByte(data[2:], 0xff)
	if end < 0 {
		return nil, errors.New("the file ends in its header")
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(string(data[2:2+end]), "\x00"), "\x00") {
		if strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
			return nil, errors.New("not a Lattice .bit file: its header is not text")
		}
		b.Header = append(b.Header, text)
	}
	at := bytes.Index(data[2+end:], preamble)
	if at < 0 {
		return nil, errors.New("no preamble ff ff bd b3: the file is truncated or no bitstream")
	}
	for _, c := range data[2+end : 2+end+at] {
		if c != dummy {
			return nil, fmt.Errorf("byte %#02x between header and preamble, want ff alone", c)
		}
	}
	r := &reader{data: data, at: 2 + end + at + len(preamble)}
	if err := b.commands(r); err != nil {
		return nil, err
	}
	return b, nil
}

// commands reads what comes after the preamble.
func (b *Bitstream) commands(r *reader) (err error) {
	// What is wrong is found deep inside: reader panics with it.
	defer func() {
		if p := recover(); p != nil {
			fault, ok := p.(fault)
			if !ok {
				panic(p)
			}
			err = fault.error
		}
	}()
	identified, dictionary, configured := false, false, false
	for r.at < len(r.data) {
		start := r.at
		command := r.data[r.at]
		if command == dummy {
			r.at++ // not in the CRC
			continue
		}
		r.in = fmt.Sprintf("command %#02x at %#x", command, start)
		r.byte()
		operands := r.bytes(3)
		switch command {
		case lscResetCRC:
			r.crc = 0
		case verifyID:
			id := r.word()
			var ok bool
			if b.Device, ok = deviceOf(id); !ok {
				return fmt.Errorf("it is for the IDCODE %#08x, which is no ECP5", id)
			}
			identified = true
		case lscProgCntrl0, lscEBRAddress, jump:
			r.word()
		case lscInitAddress, iscProgramSecurity, spiMode:
		case iscProgramUsercode:
			r.word()
			if operands[0]&0x80 != 0 {
				r.check()
			}
		case lscWriteCompDic:
			r.bytes(8)
			dictionary = true
			if operands[0]&0x80 != 0 {
				r.check()
			}
		case lscProgIncrCmp, lscProgIncrRTI:
			if !identified {
				return fmt.Errorf("%s: the configuration comes before the device's id", r.in)
			}
			if b.Compressed = command == lscProgIncrCmp; b.Compressed && !dictionary {
				return fmt.Errorf("%s: the compressed configuration comes before its dictionary", r.in)
			}
			if n := int(operands[1])<<8 | int(operands[2]); n != b.Device.Frames {
				return fmt.Errorf("%s: got %d frames, want the %d of a whole %s: a partial bitstream", r.in, n, b.Device.Frames, b.Device.Name)
			}
			b.frames(r, operands[0])
			configured = true
		case lscEBRWrite:
			r.bytes(9 * (int(operands[1])<<8 | int(operands[2])))
			r.check()
		case iscProgramDone:
			if !configured {
				return fmt.Errorf("%s: it is done before it has a configuration", r.in)
			}
			for i, c := range r.data[r.at:] {
				if c != dummy {
					return fmt.Errorf("byte %#02x at %#x, after the end of the bitstream", c, r.at+i)
				}
			}
			return nil
		default:
			return fmt.Errorf("unknown %s: the file is corrupt, or not for an ECP5", r.in)
		}
	}
	return errors.New("the file ends before its end command: it is truncated")
}

// frames reads the configuration.
func (b *Bitstream) frames(r *reader, options byte) {
	if options&0x80 == 0 {
		r.fail(errors.New("the configuration has no CRC: it cannot be checked"))
	}
	each := options&0x40 == 0
	for i := range b.Device.Frames {
		r.in = fmt.Sprintf("frame %d of %d", i, b.Device.Frames)
		if b.Compressed {
			// Frames are padded to whole words of 64 bits before they are compressed.
			r.compressed((b.Device.FrameBytes + 7) / 8 * 8)
		} else {
			r.bytes(b.Device.FrameBytes)
		}
		if each || i == b.Device.Frames-1 {
			r.check()
		}
		r.bytes(int(options & 0x0f))
	}
}

// reader goes through a bitstream, and keeps the CRC-16 of what it has passed.
type reader struct {
	data []byte
	at   int
	crc  uint16
	in   string // for messages: what is being read
}

// fault is what reader panics with.
type fault struct{ error }

func (r *reader) fail(err error) { panic(fault{fmt.Errorf("%s: %w", r.in, err)}) }

func (r *reader) byte() byte {
	if r.at >= len(r.data) {
		r.fail(errors.New("the file ends here: it is truncated"))
	}
	c := r.data[r.at]
	r.at++
	r.crc = update(r.crc, c)
	return c
}

func (r *reader) bytes(n int) []byte {
	start := r.at
	for range n {
		r.byte()
	}
	return r.data[start:r.at]
}

func (r *reader) word() uint32 {
	b := r.bytes(4)
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// update adds a byte to a CRC-16 of polynomial 0x8005, highest bit first.
func update(crc uint16, c byte) uint16 {
	crc ^= uint16(c) << 8
	for range 8 {
		top := crc>>15 != 0
		crc <<= 1
		if top {
			crc ^= 0x8005
		}
	}
	return crc
}

// check reads a CRC and compares it.
func (r *reader) check() {
	want := r.crc
	b := r.bytes(2)
	if got := uint16(b[0])<<8 | uint16(b[1]); got != want {
		r.fail(fmt.Errorf("the CRC is %#04x, want %#04x: the file is corrupt", got, want))
	}
	r.crc = 0
}

// compressed passes n bytes that are written as 0 (a zero byte), 100nnn (bit n alone), 101nnn (entry n of the
// dictionary) or 11 and 8 bits; the last is filled up to a whole byte.
func (r *reader) compressed(n int) {
	var window uint32
	have := 0
	take := func(bits int) uint32 {
		for have < bits {
			window = window<<8 | uint32(r.byte())
			have += 8
		}
		have -= bits
		return window >> have & (1<<bits - 1)
	}
	for range n {
		switch {
		case take(1) == 0:
		case take(1) == 0:
			take(4)
		default:
			take(8)
		}
	}
}
