// Package link carries the messages of rtl/spec/inc.yaml `link` over a stream: the Go end of the
// co-simulation link. The simulator's end is cosim/dpi/link.cpp.
//
// A message is its whole length and its type, each a little-endian 32-bit word, then its fields, then
// raw bytes if it has any; golden/spec knows the layouts. The simulator speaks first (hello), the
// server answers (welcome), and both name magic, version and spec hash: two programs generated from
// different specs never get past the handshake.
package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/epic-inc/epic/golden/spec"
)

// MaxMessageBytes is the longest message that either end accepts, its header included.
const MaxMessageBytes = 16 << 20

// bufferBytes is the unit in which a Conn reads and writes: many messages each.
const bufferBytes = 256 << 10

// Pacing is how the simulator spaces the frames that it drives (inc_axis_source.sv).
type Pacing uint32

// Pacing modes.
const (
	PacingNone  Pacing = iota // back to back
	PacingGap                 // 0..15 idle clocks after each frame
	PacingBurst               // bursts of eight frames, then 0..511 idle clocks
)

var pacingNames = [...]string{"none", "gap", "burst"}

// String is the name that ParsePacing takes.
func (p Pacing) String() string {
	if int(p) < len(pacingNames) {
		return pacingNames[p]
	}
	return fmt.Sprintf("pacing(%d)", uint32(p))
}

// ParsePacing finds a mode by its name.
func ParsePacing(name string) (Pacing, error) {
	for i, n := range pacingNames {
		if n == name {
			return Pacing(i), nil
		}
	}
	return 0, fmt.Errorf("pacing: got %q, want none, gap or burst", name)
}

// Streams of a frame_out message.
const (
	StreamTx     = 0 // m_axis_tx
	StreamBypass = 1 // m_axis_bypass
)

// Conn reads and writes whole messages. Read and the writing methods may be used by one goroutine each.
type Conn struct {
	r       *bufio.Reader
	w       io.Writer
	out     []byte
	largest int
}

// NewConn returns a Conn over a connected stream.
func NewConn(stream io.ReadWriter) *Conn {
	return &Conn{r: bufio.NewReaderSize(stream, bufferBytes), w: stream, largest: MaxMessageBytes}
}

// Write appends a message to what the next Flush sends. It sends by itself only when much is waiting.
func (c *Conn) Write(m spec.Message) error {
	start := len(c.out)
	c.out = spec.AppendMessage(c.out, m)
	if n := len(c.out) - start; n > c.largest {
		c.out = c.out[:start]
		return fmt.Errorf("write %s: message of %d bytes, want at most %d", m.MessageID(), n, c.largest)
	}
	if len(c.out) >= bufferBytes {
		return c.Flush()
	}
	return nil
}

// Flush sends every message written so far.
func (c *Conn) Flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.w.Write(c.out)
	c.out = c.out[:0]
	if err != nil {
		return fmt.Errorf("send to the peer: %w", err)
	}
	return nil
}

// Read returns the next message. io.EOF, alone, means that the peer closed between two messages.
func (c *Conn) Read() (spec.Message, error) {
	head, err := c.r.Peek(spec.MessageHeaderBytes)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) > 0 {
			return nil, fmt.Errorf("the peer closed inside a message header, after %d of %d bytes: %w",
				len(head), spec.MessageHeaderBytes, io.ErrUnexpectedEOF)
		}
		return nil, err
	}
	length := int(binary.LittleEndian.Uint32(head))
	if length < spec.MessageHeaderBytes || length > c.largest {
		return nil, fmt.Errorf("message of %d bytes, want %d..%d", length, spec.MessageHeaderBytes, c.largest)
	}
	b := make([]byte, length)
	if n, err := io.ReadFull(c.r, b); err != nil {
		return nil, fmt.Errorf("the peer closed inside a message, after %d of %d bytes: %w", n, length, err)
	}
	return spec.DecodeMessage(b)
}

// CheckHello returns nil if the simulator was generated from this spec.
func CheckHello(h *spec.Hello) error {
	if h.Magic == spec.LinkMagic && h.Version == spec.LinkVersion && h.SpecHash == spec.SpecHash {
		return nil
	}
	return fmt.Errorf("hello: got magic %#x, version %d, spec hash %#08x; want %#x, %d, %#08x: rebuild the simulator",
		h.Magic, h.Version, h.SpecHash, uint32(spec.LinkMagic), uint32(spec.LinkVersion), spec.SpecHash)
}

// Records decodes the records of a retire message, appending to dst.
func Records(dst []spec.Record, m *spec.Retire) ([]spec.Record, error) {
	if want := int(m.Count) * spec.RecordBytes; len(m.Bytes) != want {
		return dst, fmt.Errorf("retire: got %d bytes for %d records, want %d", len(m.Bytes), m.Count, want)
	}
	for b := m.Bytes; len(b) > 0; b = b[spec.RecordBytes:] {
		var r spec.Record
		if err := r.Decode(b); err != nil {
			return dst, fmt.Errorf("retire: %w", err)
		}
		dst = append(dst, r)
	}
	return dst, nil
}
