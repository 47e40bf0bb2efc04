package engine

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// A scenario is a text file: settings, pipes, then commands at the left margin, each followed by what
// must come of it, indented. testdata/README.md describes the language. Every command steps one event
// unless it begins with `run`; what it expects is written by hand from protocol.md section 6 and
// docs/architecture.md.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			s := &scenario{file: file, settings: map[string]string{}}
			require.NoError(t, s.play(string(text)))
			require.Positive(t, s.commands, "%s: no command", file)
		})
	}
}

type scenario struct {
	file     string
	settings map[string]string
	cfg      Config
	names    []string // of endpoints
	e        *Engine
	commands int
}

type line struct {
	number int
	text   string
}

func (s *scenario) play(text string) error {
	var command line
	var want []line
	flush := func() error {
		if command.text == "" {
			return nil
		}
		if err := s.do(command.text, want); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", s.file, command.number, command.text, err)
		}
		return nil
	}
	for i, raw := range strings.Split(text, "\n") {
		body, _, _ := strings.Cut(raw, "#")
		l := line{i + 1, strings.TrimSpace(body)}
		switch {
		case l.text == "":
		case body[0] == ' ' || body[0] == '\t':
			want = append(want, l)
		default:
			if err := flush(); err != nil {
				return err
			}
			command, want = l, nil
		}
	}
	return flush()
}

func (s *scenario) do(command string, want []line) error {
	words := strings.Fields(command)
	switch words[0] {
	case "set":
		for _, w := range words[1:] {
			k, v, _ := strings.Cut(w, "=")
			s.settings[k] = v
		}
		return nil
	case "pipe":
		return s.addPipe(words[1], words[2:])
	case "rewrite":
		return s.addRewrite(words[1], words[2:])
	}
	if s.e == nil {
		if err := s.start(); err != nil {
			return err
		}
	}
	s.commands++
	switch words[0] {
	case "enabled":
		var got []string
		for _, ev := range s.e.Enabled() {
			got = append(got, s.event(ev))
		}
		if g, w := strings.Join(got, ", "), strings.Join(words[1:], " "); g != w {
			return fmt.Errorf("got enabled %q, want %q", g, w)
		}
		return nil
	case "illegal":
		ev, err := s.parse(words[1:])
		if err != nil {
			return err
		}
		legal := s.e.Legal(ev)
		if legal == nil {
			return fmt.Errorf("got a legal event, want one that is not")
		}
		for _, w := range want {
			if !strings.Contains(legal.Error(), w.text) {
				return fmt.Errorf("got error %q, want one with %q", legal, w.text)
			}
		}
		return nil
	case "drained":
		if got, w := fmt.Sprint(s.e.Drained(s.pipe(words[1]))), words[2]; got != w {
			return fmt.Errorf("got drained %s, want %s", got, w)
		}
		return nil
	case "fault":
		f := s.e.Fault(s.pipe(words[1]))
		got := fmt.Sprintf("%v", f.Kind)
		if f.Kind != spec.ErrorKindNone {
			got = fmt.Sprintf("%v %s psn=%x got=%d wanted=%d", f.Kind, s.names[f.Endpoint], uint32(f.PSN), f.Got, f.Wanted)
			if f.Got > 1<<16 || f.Wanted > 1<<16 {
				got = fmt.Sprintf("%v %s psn=%x got=%#x wanted=%#x", f.Kind, s.names[f.Endpoint], uint32(f.PSN), f.Got, f.Wanted)
			}
		}
		if w := strings.Join(words[2:], " "); got != w {
			return fmt.Errorf("got fault %q, want %q", got, w)
		}
		return nil
	case "run":
		ev, err := s.parse(words[1:])
		if err != nil {
			return err
		}
		if err := s.e.Legal(ev); err != nil {
			return err
		}
		var outs []Output
		for i, o := range s.e.Run(ev) {
			if o.Kind != Retire || i == 0 {
				outs = append(outs, o)
			}
		}
		if len(s.e.Enabled()) != 0 {
			return fmt.Errorf("after Run, enabled is %v", s.e.Enabled())
		}
		return s.match(outs, want)
	}
	ev, err := s.parse(words)
	if err != nil {
		return err
	}
	if err := s.e.Legal(ev); err != nil {
		return err
	}
	return s.match(s.e.Step(ev), want)
}

// addPipe reads NAME key=value...; endpoints come to be when a pipe first names them.
func (s *scenario) addPipe(name string, words []string) error {
	p := Pipe{Name: name, Mode: 3, N: 4, MTU: 256, AckEvery: 1, RNRCode: 1, Retries: 7, BackoffMax: 3, Timeout: 100}
	pipe := len(s.cfg.Pipes)
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		var err error
		switch k {
		case "n":
			p.N, err = strconv.Atoi(v)
		case "mtu":
			p.MTU, err = strconv.Atoi(v)
		case "ack_every":
			p.AckEvery, err = strconv.Atoi(v)
		case "rnr":
			p.RNRCode, err = strconv.Atoi(v)
		case "retries":
			p.Retries, err = strconv.Atoi(v)
		case "backoff":
			p.BackoffMax, err = strconv.Atoi(v)
		case "timeout":
			p.Timeout, err = strconv.Atoi(v)
		case "psn0":
			p.PSN0, err = parsePSN(v)
		case "mode":
			p.Mode, err = strconv.Atoi(v)
		case "op":
			p.Op, err = spec.ParseOp(v)
		case "dtype":
			p.DType, err = spec.ParseDType(v)
		case "rule":
			p.AckRule, err = spec.ParseAckRule(v)
		case "replay_all":
			p.ReplayAll = true
		case "reproducible":
			p.Reproducible = true
		case "unpinned":
			p.Unpinned = true
			p.Coll, err = spec.ParseCollType(v)
		case "root":
			p.Root, err = strconv.Atoi(v)
		case "leaves":
			for _, n := range strings.Split(v, ",") {
				s.cfg.Endpoints[s.endpoint(n)].Leaf = true
			}
		case "ins":
			for i, n := range strings.Split(v, ",") {
				ep := s.endpoint(n)
				p.Ins = append(p.Ins, ep)
				s.cfg.Endpoints[ep].InPipe, s.cfg.Endpoints[ep].InIndex = pipe, i
			}
		case "outs":
			for _, n := range strings.Split(v, ",") {
				ep := s.endpoint(n)
				p.Outs = append(p.Outs, ep)
				s.cfg.Endpoints[ep].OutPipe = pipe
			}
		default:
			err = fmt.Errorf("unknown setting %q", k)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	s.cfg.Pipes = append(s.cfg.Pipes, p)
	for _, m := range append(slices.Clone(p.Ins), p.Outs...) {
		s.cfg.Endpoints[m].PSN0 = p.PSN0
	}
	return nil
}

// addRewrite reads NAME in=VA out=VA rkey=R, all hex.
func (s *scenario) addRewrite(name string, words []string) error {
	w := &Rewrite{}
	for _, word := range words {
		k, v, _ := strings.Cut(word, "=")
		n, err := strconv.ParseUint(v, 16, 64)
		switch k {
		case "in":
			w.InVA = n
		case "out":
			w.OutVA = n
		case "rkey":
			w.RKey = uint32(n)
		default:
			err = fmt.Errorf("unknown setting")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	s.cfg.Endpoints[s.endpoint(name)].Rewrite = w
	return nil
}

func (s *scenario) endpoint(name string) int {
	if i := slices.Index(s.names, name); i >= 0 {
		return i
	}
	i := len(s.names)
	s.names = append(s.names, name)
	n := byte(i + 1)
	s.cfg.Endpoints = append(s.cfg.Endpoints, Endpoint{
		Name: name, Port: i,
		MAC: roce.MAC{2, 0, 0, 0, 0, n}, PeerMAC: roce.MAC{2, 0, 0, 0, 1, n},
		IP: netip.AddrFrom4([4]byte{10, 0, 0, n}), PeerIP: netip.AddrFrom4([4]byte{10, 0, 1, n}),
		QPN: 0x100 + uint32(n), PeerQPN: 0x200 + uint32(n), PKey: 0xffff, UDPSport: 49152, TTL: 64,
		InPipe: None, OutPipe: None,
	})
	return i
}

func (s *scenario) start() error {
	s.cfg.Name = "scenario"
	for k, v := range s.settings {
		switch k {
		case "psnbits":
			s.cfg.PSNBits, _ = strconv.Atoi(v)
		case "strict":
			s.cfg.Variant.Strict = true
		case "plain_nak":
			s.cfg.Variant.PlainNAK = true
		case "mistake":
			m, err := ParseMistake(v)
			if err != nil {
				return err
			}
			s.cfg.Variant.Mistake = m
		case "sparse_ackreq":
			s.cfg.Variant.SparseAckReq = true
		case "power_up": // nothing is written yet
		default:
			return fmt.Errorf("unknown setting %q", k)
		}
	}
	var err error
	if s.e, err = New(s.cfg); err != nil {
		return err
	}
	if _, raw := s.settings["power_up"]; !raw {
		s.e.Program()
	}
	return nil
}

func (s *scenario) pipe(name string) int {
	return slices.IndexFunc(s.cfg.Pipes, func(p Pipe) bool { return p.Name == name })
}

// parse reads a command that is an event.
func (s *scenario) parse(words []string) (Event, error) {
	verb := words[0]
	switch verb {
	case "data", "ack", "nak", "rnr", "fatal", "cnp", "write", "control":
		return s.parseFrame(verb, words[1:])
	case "full": // the frame that follows has no room for what it would make leave
		ev, err := s.parse(words[1:])
		ev.Verdict = spec.VerdictTxFull
		return ev, err
	case "quiesce", "unquiesce":
		return Event{Cause: spec.CauseTableWrite, Endpoint: None, Pipe: s.pipe(words[1]),
			Quiesce: verb == "quiesce", Unquiesce: verb == "unquiesce"}, nil
	case "forward":
		return Event{Cause: spec.CauseForward}, nil
	case "spoiled": // a frame that did not decode
		v, err := spec.ParseVerdict(words[1])
		return Event{Cause: spec.CauseDrop, Verdict: v}, err
	}
	cause, err := spec.ParseCause(verb)
	if err != nil {
		return Event{}, err
	}
	ev := Event{Cause: cause}
	if cause == spec.CauseTableWrite {
		ev.Endpoint, ev.Pipe = None, None
	}
	if len(words) < 2 {
		return ev, fmt.Errorf("want a name after %s", verb)
	}
	if p := s.pipe(words[1]); p >= 0 {
		ev.Pipe = p
	} else if i := slices.Index(s.names, words[1]); i >= 0 {
		ev.Endpoint = i
	} else {
		return ev, fmt.Errorf("unknown name %q", words[1])
	}
	for _, w := range words[2:] {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "psn":
			ev.PSN, err = parsePSN(v)
		case "slot":
			ev.Slot, err = strconv.Atoi(v)
		case "remove":
			ev.Remove = true
		case "psn0": // a new entry, the old one but for psn0
			var p0 psn.PSN
			p0, err = parsePSN(v)
			if ev.Pipe != None {
				p := s.e.cfg.Pipes[ev.Pipe]
				p.PSN0 = p0
				ev.NewPipe = &p
			} else {
				ep := s.e.cfg.Endpoints[ev.Endpoint]
				ep.PSN0 = p0
				ev.NewEndpoint = &ep
			}
		default:
			err = fmt.Errorf("unknown word")
		}
		if err != nil {
			return ev, fmt.Errorf("%s: %w", w, err)
		}
	}
	return ev, nil
}

// parseFrame reads ENDPOINT words...: a frame from the peer of that endpoint.
func (s *scenario) parseFrame(verb string, words []string) (Event, error) {
	i := slices.Index(s.names, words[0])
	if i < 0 {
		return Event{}, fmt.Errorf("unknown endpoint %q", words[0])
	}
	ep := s.cfg.Endpoints[i]
	pkt := &roce.Packet{
		DstMAC: ep.MAC, SrcMAC: ep.PeerMAC, Src: ep.PeerIP, Dst: ep.IP, TTL: 64, DF: true, SrcPort: 50000,
		PKey: 0xffff, DestQP: ep.QPN, Opcode: spec.OpcodeSendOnly,
	}
	ev := Event{Cause: spec.CauseDrop, Port: ep.Port, Packet: pkt}
	switch verb {
	case "ack":
		pkt.Opcode, pkt.Syndrome = spec.OpcodeAcknowledge, 0x1f
	case "nak":
		pkt.Opcode, pkt.Syndrome = spec.OpcodeAcknowledge, 0x60
	case "rnr":
		pkt.Opcode, pkt.Syndrome = spec.OpcodeAcknowledge, 0x21
	case "fatal":
		pkt.Opcode, pkt.Syndrome = spec.OpcodeAcknowledge, 0x63
	case "cnp":
		pkt.Opcode, pkt.Payload = spec.OpcodeCNP, make([]byte, 16)
	case "write":
		pkt.Opcode = spec.OpcodeWriteOnly
	case "control":
		pkt.Opcode = spec.OpcodeSendOnlyImm
		return ev, s.parseControl(pkt, words[1:])
	}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		var err error
		switch k {
		case "psn":
			pkt.PSN, err = parsePSN(v)
		case "op":
			pkt.Opcode, err = spec.ParseOpcode(v)
		case "imm":
			pkt.Imm, err = parse32(v, 16)
		case "se":
			pkt.SE = true
		case "ce":
			pkt.TOS |= 3
		case "ackreq":
			pkt.AckReq = true
		case "syndrome":
			var n uint32
			n, err = parse32(v, 16)
			pkt.Syndrome = uint8(n)
		case "sum": // int32 elements
			for _, x := range strings.Split(v, ",") {
				n, perr := strconv.ParseInt(x, 10, 32)
				if perr != nil {
					return ev, perr
				}
				pkt.Payload = binary.LittleEndian.AppendUint32(pkt.Payload, uint32(int32(n)))
			}
		case "va":
			pkt.VA, err = strconv.ParseUint(v, 16, 64)
		case "dma":
			pkt.DMALength, err = parse32(v, 10)
		case "msn":
			pkt.MSN, err = parse32(v, 10)
		case "full": // a full packet of one element repeated
			n, perr := strconv.ParseInt(v, 10, 32)
			if perr != nil {
				return ev, perr
			}
			for len(pkt.Payload) < s.cfg.Pipes[max(ep.InPipe, 0)].MTU {
				pkt.Payload = binary.LittleEndian.AppendUint32(pkt.Payload, uint32(int32(n)))
			}
		case "bytes":
			var n int
			n, err = strconv.Atoi(v)
			pkt.Payload = make([]byte, n)
		case "at": // port
			ev.Port, err = strconv.Atoi(v)
		case "qpn":
			pkt.DestQP, err = parse32(v, 16)
		case "dst":
			pkt.Dst, err = netip.ParseAddr(v)
		case "src":
			pkt.Src, err = netip.ParseAddr(v)
		case "smac":
			pkt.SrcMAC[5] = 0xee
		case "dmac":
			pkt.DstMAC[5] = 0xee
		case "pkey":
			var n uint32
			n, err = parse32(v, 16)
			pkt.PKey = uint16(n)
		default:
			err = fmt.Errorf("unknown word")
		}
		if err != nil {
			return ev, fmt.Errorf("%s: %w", w, err)
		}
	}
	return ev, nil
}

// parseControl reads a control signal: psn, type, op, dtype, flags, root, bytes, seq; bits=N cuts its payload.
func (s *scenario) parseControl(pkt *roce.Packet, words []string) error {
	var c roce.Control
	size := spec.ControlBytes
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		var err error
		var n uint64
		switch k {
		case "psn":
			pkt.PSN, err = parsePSN(v)
		case "type":
			c.Type, err = spec.ParseCollType(v)
		case "op":
			c.Op, err = spec.ParseOp(v)
		case "dtype":
			c.DType, err = spec.ParseDType(v)
		case "flags":
			n, err = strconv.ParseUint(v, 16, 4)
			c.Flags = uint8(n)
		case "root":
			n, err = strconv.ParseUint(v, 10, 16)
			c.Root = uint16(n)
		case "bytes":
			c.Bytes, err = strconv.ParseUint(v, 0, 64)
		case "seq":
			c.Sequence, err = strconv.ParseUint(v, 0, 64)
		case "size":
			size, err = strconv.Atoi(v)
		case "opcode":
			pkt.Opcode, err = spec.ParseOpcode(v)
		default:
			err = fmt.Errorf("unknown word")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	pkt.Imm, pkt.Payload = c.Imm(), append(c.Payload(), make([]byte, 64)...)[:size]
	return nil
}

func parsePSN(v string) (psn.PSN, error) {
	n, err := parse32(v, 16)
	return psn.PSN(n), err
}

func parse32(v string, base int) (uint32, error) {
	n, err := strconv.ParseUint(v, base, 32)
	return uint32(n), err
}

// event names an internal event as a command does.
func (s *scenario) event(ev Event) string {
	switch ev.Cause {
	case spec.CauseRecycle:
		return fmt.Sprintf("recycle %s psn=%x", s.cfg.Pipes[ev.Pipe].Name, uint32(ev.PSN))
	case spec.CauseBindStep:
		return fmt.Sprintf("bind_step %s slot=%d", s.cfg.Pipes[ev.Pipe].Name, ev.Slot)
	case spec.CauseForward:
		return "forward"
	case spec.CauseRelease, spec.CauseError, spec.CauseBindDone:
		return fmt.Sprintf("%v %s", ev.Cause, s.cfg.Pipes[ev.Pipe].Name)
	}
	return fmt.Sprintf("%v %s", ev.Cause, s.names[ev.Endpoint])
}

// match compares outputs with the expected lines: as many, in order, each with the words in it.
func (s *scenario) match(outs []Output, want []line) error {
	var got []string
	for _, o := range outs {
		got = append(got, s.describe(o))
	}
	all := "\n\t" + strings.Join(got, "\n\t")
	for i, w := range want {
		if i >= len(got) {
			return fmt.Errorf("line %d: %q did not come; got%s", w.number, w.text, all)
		}
		words := strings.Fields(got[i])
		for n, x := range strings.Fields(w.text) {
			if strings.Contains(x, "=") && slices.Contains(words, x) || n < len(words) && words[n] == x {
				continue
			}
			return fmt.Errorf("line %d: want %q in\n\t%s\nof%s", w.number, x, got[i], all)
		}
	}
	if len(got) > len(want) {
		return fmt.Errorf("got %d outputs, want %d:%s", len(got), len(want), all)
	}
	return nil
}

// describe writes an output as a line of words.
func (s *scenario) describe(o Output) string {
	switch o.Kind {
	case Retire:
		return s.describeRecord(&o.Record)
	case Frame:
		p := o.Packet
		text := fmt.Sprintf("frame %s %v psn=%x", s.names[o.Endpoint], p.Opcode, uint32(p.PSN))
		if p.HasAETH() {
			return text + fmt.Sprintf(" syndrome=%02x msn=%d ackreq=%d dqp=%x", p.Syndrome, p.MSN, bit(p.AckReq), p.DestQP)
		}
		text += fmt.Sprintf(" ackreq=%d se=%d tos=%d bytes=%d dqp=%x", bit(p.AckReq), bit(p.SE), p.TOS, len(p.Payload), p.DestQP)
		if p.HasRETH() {
			text += fmt.Sprintf(" va=%x rkey=%x dma=%d", p.VA, p.RKey, p.DMALength)
		}
		if p.HasImm() {
			text += fmt.Sprintf(" imm=%x", p.Imm)
		}
		var xs []string
		for b := p.Payload; len(b) >= 4; b = b[4:] {
			xs = append(xs, fmt.Sprint(int32(binary.LittleEndian.Uint32(b))))
		}
		if len(xs) > 0 && len(slices.Compact(slices.Clone(xs))) == 1 {
			text += " full=" + xs[0]
		}
		return text + " sum=" + strings.Join(xs, ",")
	case Bypass:
		return fmt.Sprintf("bypass port=%d", o.Port)
	case SetTimer:
		name := map[TimerKind]string{Retransmit: "timer", RNRWait: "rnrwait"}[o.Timer.Kind]
		if o.Timer.Arm {
			return fmt.Sprintf("%s %s arm ticks=%d", name, s.names[o.Endpoint], o.Timer.Ticks)
		}
		return fmt.Sprintf("%s %s stop", name, s.names[o.Endpoint])
	}
	return fmt.Sprintf("kind %d", o.Kind)
}

// describeRecord writes cause, verdict, and every field of the record that is valid; PSNs in hex.
func (s *scenario) describeRecord(r *spec.Record) string {
	words := []string{fmt.Sprint(r.Cause), fmt.Sprint(r.Verdict), "groups=" + strings.ReplaceAll(r.Groups.String(), "|", "+")}
	for i, f := range spec.RecordFields {
		switch f.Name {
		case "clock", "cause", "verdict", "frame", "groups":
			continue
		}
		if !r.Has(i) {
			continue
		}
		switch f.Name {
		case "psn", "epsn", "last_acked", "cursor", "sent_max", "psn_start", "next_send", "control_psn", "tag", "bitmap":
			words = append(words, fmt.Sprintf("%s=%x", f.Name, r.Field(i)))
		case "ack_kind":
			words = append(words, fmt.Sprintf("%s=%v", f.Name, r.AckKind))
		default:
			words = append(words, fmt.Sprintf("%s=%d", f.Name, r.Field(i)))
		}
	}
	return strings.Join(words, " ")
}
