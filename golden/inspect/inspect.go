// Package inspect is the logic of `epic decode`: the frames of a capture file, one record each, with
// their fields and their verdict.
//
//	err := inspect.File(ctx, path, inspect.Options{Check: check}, inspect.JSON(os.Stdout))
//
// or, for people:
//
//	table := inspect.NewTable(os.Stdout)
//	err := inspect.File(ctx, path, inspect.Options{}, table.Add)
//	err = errors.Join(err, table.Close())
//
// Every frame of the file makes one record, in the order of the file, before the next is read. The error
// of File is nil if the whole file was read and every frame is whole; a *capture.FormatError if the file
// is no capture, is truncated or is not Ethernet; *CutFrames if frames were cut by the one who captured
// (their records were made, with what is there); ctx's error; or that of the emit function. The first two
// are bad input.
package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Verdicts of a record.
const (
	OK   = "ok"   // taken, or not for the engine: whole and unchanged to the bypass port
	Drop = "drop" // dropped and counted under Reason
)

// Record is what is said of one frame. As JSON its fields come in this order.
//
// A pointer is nil (null) where the frame does not say or cannot be trusted to: of a frame that is not
// RoCE all of them; of one whose lengths are wrong, payload_len and icrc_ok; of one too short for BTH,
// all that BTH holds.
type Record struct {
	N          int      `json:"n"`           // frame number in the file, from 1
	RoCE       bool     `json:"roce"`        // IPv4 or IPv6, UDP destination port 4791
	Opcode     *uint8   `json:"opcode"`      // of BTH, known or not
	OpcodeName *string  `json:"opcode_name"` // as in rtl/spec/inc.yaml; null if it is not there
	PSN        *uint32  `json:"psn"`
	QPN        *uint32  `json:"qpn"` // destination QP
	AckReq     *bool    `json:"ack_req"`
	Pad        *int     `json:"pad"`         // pad count of BTH
	VLAN       []uint16 `json:"vlan"`        // VLAN identifiers, outermost first; never null
	Src        *string  `json:"src"`         // IP address
	Dst        *string  `json:"dst"`         // IP address
	PayloadLen *int     `json:"payload_len"` // bytes without pad
	ICRCOK     *bool    `json:"icrc_ok"`     // null where the lengths leave in doubt what the ICRC is
	Verdict    string   `json:"verdict"`     // OK or Drop
	// Reason is the name of the verdict in rtl/spec/inc.yaml, which is also that of its counter: "ok"
	// for a frame that is taken; "not_roce" (and with a table "no_endpoint", "dst_ip") for one that
	// goes to the bypass port, whose Verdict is OK; anything else for a Drop.
	Reason string `json:"reason"`
	// The headers after BTH, and the control signal that a frame may be; left out where there is none, or where its
	// lengths cannot be trusted.
	RETH    *RETH    `json:"reth,omitempty"`
	Imm     *uint32  `json:"imm,omitempty"`
	AETH    *AETH    `json:"aeth,omitempty"`
	Control *Control `json:"control,omitempty"`
	// Error is set for a frame that the capture cut: then nothing else is the truth about the frame.
	Error string `json:"error,omitempty"`

	Detail string       `json:"-"` // field, offset, got and wanted of a wire-stage reason; empty if none
	Code   spec.Verdict `json:"-"` // Reason as a number
}

// RETH says where an RDMA WRITE goes.
type RETH struct {
	VA        uint64 `json:"va"`
	RKey      uint32 `json:"rkey"`
	DMALength uint32 `json:"dma_length"` // bytes of the whole message
}

// AETH is an answer.
type AETH struct {
	Syndrome uint8  `json:"syndrome"`
	Name     string `json:"name"` // of the syndrome: "ack", "rnr nak 12" with the timer code, "nak sequence error" ...
	MSN      uint32 `json:"msn"`
}

// Control is what a SEND Only with Immediate of 16 bytes says if it is a control signal (protocol.md 10). Only
// its PSN makes it one, which a frame alone does not tell: a frame that cannot be one has none.
type Control struct {
	Type     string `json:"type"`
	Op       string `json:"op"`
	DType    string `json:"dtype"`
	Flags    uint8  `json:"flags"`
	Root     uint16 `json:"root"`
	Bytes    uint64 `json:"bytes"`
	Sequence uint64 `json:"sequence"`
}

// Options of an inspection.
type Options struct {
	// Check, if not nil, is asked about every frame that the wire stage takes and gives the verdict of
	// the stages behind it. Port is the number of the pcapng interface that the frame came in at, -1 of
	// a pcap file, which does not know: then the rule about ports cannot be applied.
	Check func(port int, p *roce.Packet) spec.Verdict
	// Ports says that pcapng interfaces are ports of the engine, as in the files that this project
	// writes. False: Check gets -1 for every frame.
	Ports bool
}

// CutFrames are the frames of a file that hold fewer bytes than the frame had.
type CutFrames struct {
	File   string
	Frames []string // one line for each of the first 10
	Count  int
}

// Error names the frames, one a line.
func (e *CutFrames) Error() string {
	s := fmt.Sprintf("%s: %d frames are cut, want whole frames (capture with snap length 0):\n%s",
		e.File, e.Count, strings.Join(e.Frames, "\n"))
	if more := e.Count - len(e.Frames); more > 0 {
		s += fmt.Sprintf("\nand %d more", more)
	}
	return s
}

// File inspects a capture file.
func File(ctx context.Context, path string, opt Options, emit func(Record) error) (err error) {
	f, err := capture.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return frames(ctx, path, f.Reader, opt, emit)
}

// Stream inspects a capture that comes from a reader, which may be a pipe: if ctx ends, Stream does, although a
// read of in may still be waiting. name stands for in in errors.
func Stream(ctx context.Context, name string, in io.Reader, opt Options, emit func(Record) error) error {
	r, err := capture.NewReader(name, &interruptible{ctx: ctx, in: in})
	if err != nil {
		return err
	}
	return frames(ctx, name, r, opt, emit)
}

func frames(ctx context.Context, name string, r *capture.Reader, opt Options, emit func(Record) error) error {
	var cut CutFrames
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("inspect %s: %w", name, err)
		}
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		port := -1
		if opt.Ports && !r.IsPcap() {
			port = f.Interface
		}
		rec := Frame(f.N, f.Data, port, opt.Check)
		if len(f.Data) < f.Length {
			rec.Error = fmt.Sprintf("frame %d at byte %d: captured %d bytes, want all %d", f.N, f.Offset, len(f.Data), f.Length)
			if cut.Count++; cut.Count <= 10 {
				cut.Frames = append(cut.Frames, rec.Error)
			}
		}
		if err := emit(rec); err != nil {
			return fmt.Errorf("inspect %s: frame %d: %w", name, f.N, err)
		}
	}
	if cut.Count > 0 {
		cut.File = name
		return &cut
	}
	return nil
}

// Frame makes the record of one frame. Check may be nil; see Options.
func Frame(n int, data []byte, port int, check func(port int, p *roce.Packet) spec.Verdict) Record {
	d := roce.Dissect(data)
	rec := Record{N: n, RoCE: d.RoCE, VLAN: []uint16{}}
	for _, tag := range d.VLAN {
		rec.VLAN = append(rec.VLAN, tag.TCI&0xfff)
	}
	if d.RoCE {
		rec.Src, rec.Dst = ptr(d.Packet.Src.String()), ptr(d.Packet.Dst.String())
	}
	if d.HasBTH {
		p := &d.Packet
		rec.Opcode = ptr(uint8(p.Opcode))
		if info, ok := p.Opcode.Info(); ok {
			rec.OpcodeName = ptr(info.Name)
		}
		rec.PSN, rec.QPN = ptr(uint32(p.PSN)), ptr(p.DestQP)
		rec.AckReq, rec.Pad = ptr(p.AckReq), ptr(d.Pad)
	}
	if d.PayloadLen >= 0 {
		rec.PayloadLen = ptr(d.PayloadLen)
		rec.headers(&d.Packet)
	}
	if d.ICRCKnown {
		rec.ICRCOK = ptr(d.ICRCGood)
	}
	switch {
	case d.Malformed != nil:
		rec.Code, rec.Detail = d.Malformed.Verdict, d.Malformed.Error()
	case check != nil:
		rec.Code = check(port, &d.Packet)
	}
	rec.Reason = rec.Code.String()
	rec.Verdict = OK
	if rec.Code.Class() == spec.ClassDrop {
		rec.Verdict = Drop
	}
	return rec
}

// headers fills in what follows BTH.
func (rec *Record) headers(p *roce.Packet) {
	if p.HasRETH() {
		rec.RETH = &RETH{VA: p.VA, RKey: p.RKey, DMALength: p.DMALength}
	}
	if p.HasImm() {
		rec.Imm = ptr(p.Imm)
	}
	if p.HasAETH() {
		rec.AETH = &AETH{Syndrome: p.Syndrome, Name: syndromeName(p.Syndrome), MSN: p.MSN}
	}
	if p.Opcode != spec.OpcodeSendOnlyImm || len(p.Payload) != spec.ControlBytes {
		return
	}
	c := roce.ParseControl(p.Imm, p.Payload)
	if c.Type <= spec.CollTypeBarrier && c.Op <= spec.OpXor && c.DType <= spec.DTypeInt8 && c.Flags <= spec.ControlReproducible {
		rec.Control = &Control{Type: c.Type.String(), Op: c.Op.String(), DType: c.DType.String(), Flags: c.Flags, Root: c.Root,
			Bytes: c.Bytes, Sequence: c.Sequence}
	}
}

// syndromeName says what an AETH syndrome means (IBTA 9.7.5.1).
func syndromeName(s uint8) string {
	switch {
	case s < spec.SyndromeRNR:
		return "ack"
	case s < 0x40:
		return fmt.Sprintf("rnr nak %d", s&0x1f)
	case s == spec.SyndromeNakSequence:
		return "nak sequence error"
	case s == spec.SyndromeNakInvalid:
		return "nak invalid request"
	case s == spec.SyndromeNakAccess:
		return "nak remote access error"
	case s == spec.SyndromeNakOperation:
		return "nak remote operational error"
	case s == spec.SyndromeNakRd:
		return "nak invalid RD request"
	}
	return fmt.Sprintf("%#02x", s)
}

// extra are the headers in words, for people: "" if there are none.
func (rec *Record) extra() string {
	var words []string
	if r := rec.RETH; r != nil {
		words = append(words, fmt.Sprintf("va %#x rkey %#x dma %d", r.VA, r.RKey, r.DMALength))
	}
	if a := rec.AETH; a != nil {
		words = append(words, fmt.Sprintf("%s msn %d", a.Name, a.MSN))
	}
	if rec.Imm != nil {
		words = append(words, fmt.Sprintf("imm %#08x", *rec.Imm))
	}
	if c := rec.Control; c != nil {
		words = append(words, fmt.Sprintf("control? %s %s %s flags %d root %d bytes %d sequence %d", c.Type, c.Op, c.DType, c.Flags,
			c.Root, c.Bytes, c.Sequence))
	}
	return strings.Join(words, ", ")
}

func ptr[T any](v T) *T { return &v }

// JSON is an emit function that writes one line of JSON for each record, at once.
func JSON(w io.Writer) func(Record) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(r Record) error {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("write record: %w", err)
		}
		return nil
	}
}

// Table writes records as lines for people, with a head, and at the end how many there were of each
// reason.
type Table struct {
	w      *bufio.Writer
	n      int
	counts map[spec.Verdict]int
}

// NewTable makes a table that writes to w.
func NewTable(w io.Writer) *Table {
	return &Table{w: bufio.NewWriter(w), counts: map[spec.Verdict]int{}}
}

// Add writes one record. It is an emit function.
func (t *Table) Add(r Record) error {
	if t.n == 0 {
		fmt.Fprintf(t.w, "%6s  %-15s  %-15s  %-14s  %6s  %6s  %-3s  %5s  %-4s  %s\n",
			"n", "src", "dst", "opcode", "psn", "qpn", "ack", "bytes", "icrc", "verdict")
	}
	t.n++
	t.counts[r.Code]++
	opcode := "-"
	switch {
	case r.OpcodeName != nil:
		opcode = *r.OpcodeName
	case r.Opcode != nil:
		opcode = fmt.Sprintf("%#02x", *r.Opcode)
	}
	verdict := r.Verdict
	if r.Code != spec.VerdictOk {
		verdict += " " + r.Reason
	}
	for i, id := range r.VLAN {
		if i == 0 {
			verdict += "  vlan"
		}
		verdict += fmt.Sprintf(" %d", id)
	}
	if extra := r.extra(); extra != "" {
		verdict += "  " + extra
	}
	if _, detail, ok := strings.Cut(r.Detail, ": "); ok {
		verdict += "  (" + detail + ")"
	}
	if r.Error != "" {
		verdict = "cut: " + r.Error
	}
	_, err := fmt.Fprintf(t.w, "%6d  %-15s  %-15s  %-14s  %6s  %6s  %-3s  %5s  %-4s  %s\n", r.N, text(r.Src, "%s"), text(r.Dst, "%s"),
		opcode, text(r.PSN, "%06x"), text(r.QPN, "%06x"), yes(r.AckReq, "yes", "no"), text(r.PayloadLen, "%d"),
		yes(r.ICRCOK, "ok", "bad"), verdict)
	if err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// Close writes the counts and what is buffered.
func (t *Table) Close() error {
	fmt.Fprintf(t.w, "%d frames\n", t.n)
	for _, v := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Fprintf(t.w, "%6d  %-16s  %s\n", t.counts[v], v, v.Doc())
	}
	if err := t.w.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func text[T any](v *T, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

func yes(v *bool, t, f string) string {
	switch {
	case v == nil:
		return "-"
	case *v:
		return t
	}
	return f
}
