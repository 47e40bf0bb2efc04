// Package frame is the serial protocol between a host and a board's UART bridge, as docs/serial.md has it: requests and
// responses with a CRC-32, stuffed so that a zero byte (COBS) is always the end of a frame and never in one. Its
// numbers are generated from rtl/spec/uart.yaml.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

//go:generate go run ../../../../scripts/generate -root ../../../..

// Sizes in bytes.
const (
	// MaxRequest and MaxResponse are the longest bodies: header, payload and CRC, before they are stuffed.
	MaxRequest  = RequestHeaderBytes + PayloadBytes + CRCBytes
	MaxResponse = ResponseHeaderBytes + PayloadBytes + CRCBytes
	maxBody     = MaxRequest
	maxStuffed  = maxBody + maxBody/254 + 1
)

// Delimiter ends a frame. One before a frame makes an end of whatever came before it.
const Delimiter = 0

// Request is what a host sends.
type Request struct {
	Version uint8 // 0..15; Version but for tests
	Op      Op    // 0..15
	Tag     uint8 // the response carries it; never that of the request before
	Addr    uint32
	Payload []byte // at most PayloadBytes
}

// Response is what a bridge answers.
type Response struct {
	Version uint8
	Op      Op
	Tag     uint8
	Status  Status
	Payload []byte
}

// Append appends the frame of r to b, with the delimiter after it.
func (r Request) Append(b []byte) []byte {
	body := make([]byte, 0, maxBody)
	body = append(body, r.Version<<4|uint8(r.Op)&15, r.Tag)
	body = binary.LittleEndian.AppendUint32(body, r.Addr)
	return appendFrame(b, append(body, r.Payload...))
}

// Append appends the frame of r to b, with the delimiter after it.
func (r Response) Append(b []byte) []byte {
	body := make([]byte, 0, maxBody)
	body = append(body, r.Version<<4|uint8(r.Op)&15, r.Tag, uint8(r.Status))
	return appendFrame(b, append(body, r.Payload...))
}

func appendFrame(b, body []byte) []byte {
	body = binary.LittleEndian.AppendUint32(body, crc32.ChecksumIEEE(body))
	return append(stuff(b, body), Delimiter)
}

// What is wrong with the bytes between two delimiters.
var (
	ErrLength = errors.New("too long or too short for a frame")
	ErrStuff  = errors.New("not a stuffed frame")
	ErrCRC    = errors.New("the CRC is wrong")
)

// DecodeRequest takes a request out of a body without its CRC.
func DecodeRequest(body []byte) (Request, error) {
	if len(body) < RequestHeaderBytes || len(body) > RequestHeaderBytes+PayloadBytes {
		return Request{}, fmt.Errorf("request: got %d bytes, want %d..%d: %w",
			len(body), RequestHeaderBytes, RequestHeaderBytes+PayloadBytes, ErrLength)
	}
	return Request{
		Version: body[0] >> 4, Op: Op(body[0] & 15), Tag: body[1],
		Addr: binary.LittleEndian.Uint32(body[2:]), Payload: body[RequestHeaderBytes:],
	}, nil
}

// DecodeResponse takes a response out of a body without its CRC.
func DecodeResponse(body []byte) (Response, error) {
	if len(body) < ResponseHeaderBytes || len(body) > ResponseHeaderBytes+PayloadBytes {
		return Response{}, fmt.Errorf("response: got %d bytes, want %d..%d: %w",
			len(body), ResponseHeaderBytes, ResponseHeaderBytes+PayloadBytes, ErrLength)
	}
	return Response{
		Version: body[0] >> 4, Op: Op(body[0] & 15), Tag: body[1],
		Status: Status(body[2]), Payload: body[ResponseHeaderBytes:],
	}, nil
}

// DecodeHello takes the fields out of a response's payload; a later bridge may have more of them.
func DecodeHello(payload []byte) (Hello, error) {
	if len(payload) < HelloBytes {
		return Hello{}, fmt.Errorf("hello: got %d bytes, want %d at least", len(payload), HelloBytes)
	}
	return decodeHello(payload), nil
}

// stuff appends body to b in COBS: runs of up to 254 bytes that are not zero, each after its length and 1; between
// two runs stands a zero, but not after a run of 254.
func stuff(b, body []byte) []byte {
	at := len(b)
	b = append(b, 0)
	for i, c := range body {
		if c != 0 {
			b = append(b, c)
		}
		if n := len(b) - at; c == 0 || n == 255 && i < len(body)-1 {
			b[at] = byte(n)
			at = len(b)
			b = append(b, 0)
		}
	}
	b[at] = byte(len(b) - at)
	return b
}

// unstuff appends what was stuffed to b.
func unstuff(b, stuffed []byte) ([]byte, error) {
	for len(stuffed) > 0 {
		n := int(stuffed[0])
		if n == 0 || n > len(stuffed) {
			return nil, ErrStuff
		}
		b = append(b, stuffed[1:n]...)
		stuffed = stuffed[n:]
		if n < 255 && len(stuffed) > 0 {
			b = append(b, 0)
		}
	}
	return b, nil
}

// Scanner finds frames in a stream of bytes. The zero value is ready: it begins at a frame's first byte.
type Scanner struct {
	stuffed []byte
	over    bool // more bytes than a frame has
}

// Feed takes the bytes of b and calls found for each frame that ends in them: with its body, without CRC, or with what
// is wrong with it. The body is the callee's. Delimiters in a row are nothing.
func (s *Scanner) Feed(b []byte, found func(body []byte, err error)) {
	for _, c := range b {
		if c != Delimiter {
			if s.over = s.over || len(s.stuffed) == maxStuffed; !s.over {
				s.stuffed = append(s.stuffed, c)
			}
			continue
		}
		switch body, err := unstuff(make([]byte, 0, maxBody), s.stuffed); {
		case len(s.stuffed) == 0:
		case s.over:
			found(nil, ErrLength)
		case err != nil:
			found(nil, err)
		default:
			found(check(body))
		}
		s.stuffed, s.over = s.stuffed[:0], false
	}
}

// check takes the CRC off a body.
func check(body []byte) ([]byte, error) {
	n := len(body) - CRCBytes
	if n < 1 {
		return nil, ErrLength
	}
	if got, want := crc32.ChecksumIEEE(body[:n]), binary.LittleEndian.Uint32(body[n:]); got != want {
		return nil, fmt.Errorf("%w: got %#08x, want %#08x", ErrCRC, want, got)
	}
	return body[:n:n], nil
}

func (o Op) String() string {
	if o < OpCount {
		return opNames[o]
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

func (s Status) String() string {
	if s < StatusCount {
		return statusTexts[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

func (b Board) String() string {
	if b < BoardCount {
		return boardNames[b]
	}
	return fmt.Sprintf("board %d", uint32(b))
}
