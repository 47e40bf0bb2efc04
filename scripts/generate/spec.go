package main

import (
	"fmt"
	"math/bits"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

// specFile is inc.yaml as it is written. Maps whose order matters are yaml.MapSlice.
type specFile struct {
	Version        int           `yaml:"version"`
	Constants      yaml.MapSlice `yaml:"constants"`
	Opcodes        yaml.MapSlice `yaml:"opcodes"`
	Verdicts       []verdict     `yaml:"verdicts"`
	Causes         []named       `yaml:"causes"`
	AckKinds       []named       `yaml:"ack_kinds"`
	AckRules       []named       `yaml:"ack_rules"`
	Counters       []named       `yaml:"counters"`
	TableErrors    []named       `yaml:"table_errors"`
	ErrorKinds     []named       `yaml:"error_kinds"`
	DTypes         []string      `yaml:"dtypes"`
	Ops            []string      `yaml:"ops"`
	Types          []string      `yaml:"types"`
	Record         recordSpec    `yaml:"record"`
	ReadOnlyTables []string      `yaml:"read_only_tables"`
	Tables         yaml.MapSlice `yaml:"tables"`
	RNRTicks       []uint32      `yaml:"rnr_ticks"`
	Link           linkSpec      `yaml:"link"`
}

type named struct {
	Name string `yaml:"name"`
	Doc  string `yaml:"doc"`
}

type verdict struct {
	Name  string `yaml:"name"`
	Class string `yaml:"class"`
	Stage string `yaml:"stage"`
	Doc   string `yaml:"doc"`
}

type constant struct {
	Name  string `yaml:"-"`
	Value uint32 `yaml:"value"`
	W     int    `yaml:"w"`
	Doc   string `yaml:"doc"`
}

type opcode struct {
	Name    string   `yaml:"-"`
	Value   uint8    `yaml:"value"`
	Kind    string   `yaml:"kind"`
	Headers []string `yaml:"headers"`
	First   bool     `yaml:"first"`
	Last    bool     `yaml:"last"`
}

// has says whether the opcode carries the named header.
func (o opcode) has(header string) bool {
	for _, h := range o.Headers {
		if h == header {
			return true
		}
	}
	return false
}

// field is one field of a record, a table entry or a message.
type field struct {
	Name  string `yaml:"name"`
	W     int    `yaml:"w"`
	Group string `yaml:"group"`
	Doc   string `yaml:"doc"`

	Lsb  int `yaml:"-"` // table entries: first bit
	Word int `yaml:"-"` // records and messages: first 32-bit word
}

// UnmarshalYAML takes a bare name as a field of one 32-bit word.
func (f *field) UnmarshalYAML(b []byte) error {
	var bare string
	if err := yaml.Unmarshal(b, &bare); err == nil {
		*f = field{Name: bare}
		return nil
	}
	type plain field
	var p plain
	if err := yaml.UnmarshalWithOptions(b, &p, yaml.Strict()); err != nil {
		return err
	}
	*f = field(p)
	return nil
}

// Words is the number of 32-bit words of the field.
func (f field) Words() int { return (f.W + 31) / 32 }

// Msb is the last bit of a field of a table entry.
func (f field) Msb() int { return f.Lsb + f.W - 1 }

type recordSpec struct {
	Groups []string `yaml:"groups"`
	Fields []field  `yaml:"fields"`
}

// Words is the length of a record in 32-bit words.
func (r recordSpec) Words() int {
	last := r.Fields[len(r.Fields)-1]
	return last.Word + last.Words()
}

type table struct {
	Name     string
	Fields   []field
	Bits     int
	ReadOnly bool
}

// Words is the length of an entry in 32-bit words.
func (t table) Words() int { return (t.Bits + 31) / 32 }

type linkSpec struct {
	Magic    uint32    `yaml:"magic"`
	Version  uint32    `yaml:"version"`
	Messages []message `yaml:"messages"`
}

type message struct {
	Name   string  `yaml:"name"`
	From   string  `yaml:"from"`
	Fields []field `yaml:"fields"`
	Bytes  bool    `yaml:"bytes"`
	Doc    string  `yaml:"doc"`
}

// Words is the length of the fixed fields in 32-bit words, without the two words of the frame.
func (m message) Words() int {
	if len(m.Fields) == 0 {
		return 0
	}
	last := m.Fields[len(m.Fields)-1]
	return last.Word + last.Words()
}

// spec is inc.yaml, checked and laid out.
type spec struct {
	specFile
	Constants []constant
	Opcodes   []opcode
	Tables    []table
	Hash      uint32
}

// maxTableBits is the width of CSRs TABLE_DATA[0..19].
const maxTableBits = 24 * 32

var nameRE = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// parse reads inc.yaml, refuses what the generated files could not express and computes offsets.
func parse(source []byte) (*spec, error) {
	var f specFile
	if err := yaml.UnmarshalWithOptions(source, &f, yaml.Strict()); err != nil {
		return nil, err
	}
	s := &spec{specFile: f}
	if err := decodeMap(f.Constants, "constants", func(name string, b []byte) error {
		c := constant{Name: name}
		if err := yaml.UnmarshalWithOptions(b, &c, yaml.Strict()); err != nil {
			return err
		}
		if c.W != 0 && bits.Len32(c.Value) > c.W {
			return fmt.Errorf("value %d does not fit w: %d", c.Value, c.W)
		}
		s.Constants = append(s.Constants, c)
		return nil
	}); err != nil {
		return nil, err
	}
	if err := decodeMap(f.Opcodes, "opcodes", func(name string, b []byte) error {
		o := opcode{Name: name}
		if err := yaml.UnmarshalWithOptions(b, &o, yaml.Strict()); err != nil {
			return err
		}
		s.Opcodes = append(s.Opcodes, o)
		return nil
	}); err != nil {
		return nil, err
	}
	if err := decodeMap(f.Tables, "tables", func(name string, b []byte) error {
		t := table{Name: name}
		if err := yaml.UnmarshalWithOptions(b, &t.Fields, yaml.Strict()); err != nil {
			return err
		}
		s.Tables = append(s.Tables, t)
		return nil
	}); err != nil {
		return nil, err
	}
	if err := s.layOut(); err != nil {
		return nil, err
	}
	return s, nil
}

// decodeMap hands each entry of an ordered map to decode as YAML text of its own.
func decodeMap(m yaml.MapSlice, where string, decode func(name string, b []byte) error) error {
	for _, item := range m {
		name, ok := item.Key.(string)
		if !ok {
			return fmt.Errorf("%s: key %v is a %T, want a name", where, item.Key, item.Key)
		}
		b, err := yaml.Marshal(item.Value)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", where, name, err)
		}
		if err := decode(name, b); err != nil {
			return fmt.Errorf("%s.%s: %w", where, name, err)
		}
	}
	return nil
}

// names checks that a list of names is well formed and free of repetitions.
func names(where string, list []string) error {
	if len(list) == 0 {
		return fmt.Errorf("%s: got nothing, want at least one entry", where)
	}
	seen := map[string]bool{}
	for i, n := range list {
		if !nameRE.MatchString(n) {
			return fmt.Errorf("%s[%d]: got name %q, want snake_case", where, i, n)
		}
		if seen[n] {
			return fmt.Errorf("%s[%d]: name %q is there twice", where, i, n)
		}
		seen[n] = true
	}
	return nil
}

func namesOf[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = name(e)
	}
	return out
}

func fieldName(f field) string { return f.Name }

// layOut checks names and values and gives every field its place.
func (s *spec) layOut() error {
	nm := func(n named) string { return n.Name }
	id := func(n string) string { return n }
	for where, list := range map[string][]string{
		"constants":    namesOf(s.Constants, func(c constant) string { return c.Name }),
		"opcodes":      namesOf(s.Opcodes, func(o opcode) string { return o.Name }),
		"verdicts":     namesOf(s.Verdicts, func(v verdict) string { return v.Name }),
		"causes":       namesOf(s.Causes, nm),
		"ack_kinds":    namesOf(s.AckKinds, nm),
		"ack_rules":    namesOf(s.AckRules, nm),
		"counters":     namesOf(s.Counters, nm),
		"table_errors": namesOf(s.TableErrors, nm),
		"error_kinds":  namesOf(s.ErrorKinds, nm),
		"dtypes":       namesOf(s.DTypes, id),
		"ops":          namesOf(s.Ops, id),
		"types":        namesOf(s.Types, id),
		"tables":       namesOf(s.Tables, func(t table) string { return t.Name }),
		"record":       namesOf(s.Record.Fields, fieldName),
		"groups":       namesOf(s.Record.Groups, id),
		"messages":     namesOf(s.Link.Messages, func(m message) string { return m.Name }),
	} {
		if err := names(where, list); err != nil {
			return err
		}
	}
	values := map[uint8]string{}
	for _, o := range s.Opcodes {
		if other, ok := values[o.Value]; ok {
			return fmt.Errorf("opcodes.%s: value %#02x is that of %s", o.Name, o.Value, other)
		}
		values[o.Value] = o.Name
		if err := oneOf("opcodes."+o.Name+".kind", o.Kind, "data", "ack", "cnp"); err != nil {
			return err
		}
		for _, h := range o.Headers {
			if err := oneOf("opcodes."+o.Name+".headers", h, "reth", "immdt", "aeth"); err != nil {
				return err
			}
		}
	}
	for _, v := range s.Verdicts {
		if err := oneOf("verdicts."+v.Name+".class", v.Class, "ok", "bypass", "drop"); err != nil {
			return err
		}
		if err := oneOf("verdicts."+v.Name+".stage", v.Stage, "wire", "table", "engine"); err != nil {
			return err
		}
	}
	if n := len(s.Verdicts) + len(s.Counters); n > 256 {
		return fmt.Errorf("counters: got %d with those of the verdicts, want at most 256 (CSR CNT_INDEX)", n)
	}
	if len(s.RNRTicks) != 32 {
		return fmt.Errorf("rnr_ticks: got %d entries, want 32 (a 5-bit code)", len(s.RNRTicks))
	}
	if len(s.Tables) > 16 {
		return fmt.Errorf("tables: got %d, want at most 16 (a 4-bit table id)", len(s.Tables))
	}
	if len(s.TableErrors) > 4 {
		return fmt.Errorf("table_errors: got %d, want at most 4 (two bits)", len(s.TableErrors))
	}
	if err := layWords("record", s.Record.Fields); err != nil {
		return err
	}
	for _, f := range s.Record.Fields {
		if f.Group == "" {
			continue
		}
		if err := oneOf("record."+f.Name+".group", f.Group, s.Record.Groups...); err != nil {
			return err
		}
	}
	for i := range s.Tables {
		t := &s.Tables[i]
		if err := names("tables."+t.Name, namesOf(t.Fields, fieldName)); err != nil {
			return err
		}
		for j := range t.Fields {
			f := &t.Fields[j]
			if (f.W < 1 || f.W > 64) && f.W != 128 {
				return fmt.Errorf("tables.%s.%s: got w: %d, want 1..64 or 128", t.Name, f.Name, f.W)
			}
			f.Lsb = t.Bits
			t.Bits += f.W
		}
		if t.Bits > maxTableBits {
			return fmt.Errorf("tables.%s: got %d bits, want at most %d", t.Name, t.Bits, maxTableBits)
		}
	}
	for _, n := range s.ReadOnlyTables {
		found := false
		for i := range s.Tables {
			if s.Tables[i].Name == n {
				s.Tables[i].ReadOnly, found = true, true
			}
		}
		if !found {
			return fmt.Errorf("read_only_tables: got %q, want a name of tables", n)
		}
	}
	for _, m := range s.Link.Messages {
		where := "link.messages." + m.Name
		if len(m.Fields) > 0 {
			if err := names(where, namesOf(m.Fields, fieldName)); err != nil {
				return err
			}
		}
		if err := oneOf(where+".from", m.From, "sim", "go"); err != nil {
			return err
		}
		if err := layWords(where, m.Fields); err != nil {
			return err
		}
	}
	return nil
}

// layWords places fields in 32-bit words, one after the other.
func layWords(where string, fields []field) error {
	word := 0
	for i := range fields {
		f := &fields[i]
		if f.W == 0 {
			f.W = 32
		}
		if f.W != 32 && f.W != 64 {
			return fmt.Errorf("%s.%s: got w: %d, want 32 or 64", where, f.Name, f.W)
		}
		f.Word = word
		word += f.Words()
	}
	return nil
}

func oneOf(where, got string, want ...string) error {
	for _, w := range want {
		if got == w {
			return nil
		}
	}
	return fmt.Errorf("%s: got %q, want one of %s", where, got, strings.Join(want, ", "))
}
