// Package core drives the stages of rtl/core one by one: a stage of cosim/stage/bench/core sits between
// streams whose tokens come from here, and every token that moves comes back with its clock. The tests
// replay what moved, in that order, into the golden model.
package core

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Field is a piece of a packed struct.
type Field struct {
	LSB, Width int // bits
}

// Layout is a packed struct of the RTL. Fields of a nested struct are named outer.inner.
type Layout struct {
	Name   string
	Width  int // bits
	Fields map[string]Field
}

// Layouts are the packed structs of SystemVerilog packages, by name without the package's.
type Layouts map[string]*Layout

var (
	comments   = regexp.MustCompile(`//[^\n]*`)
	localparam = regexp.MustCompile(`localparam\s+int\s+(\w+)\s*=\s*([^;]+);`)
	structs    = regexp.MustCompile(`(?s)typedef\s+struct\s+packed\s*\{(.*?)\}\s*(\w+)\s*;`)
	member     = regexp.MustCompile(`^(?:logic\s*(?:\[(.+):0\])?|([\w:]+))\s+(\w+)$`)
)

// ReadLayouts reads the structs of the packages, which are in the order of their use. dataW is the value of
// the macro INC_BENCH_DATA_W.
func ReadLayouts(dataW int, files ...string) (Layouts, error) {
	all := Layouts{}
	numbers := map[string]int{"INC_BENCH_DATA_W": dataW}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("layouts of the streams: %w", err)
		}
		if err := all.read(string(b), numbers); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return all, nil
}

func (all Layouts) read(text string, numbers map[string]int) error {
	text = strings.ReplaceAll(comments.ReplaceAllString(text, ""), "`INC_", "INC_")
	for _, m := range localparam.FindAllStringSubmatch(text, -1) {
		if v, err := evaluate(m[2], numbers); err == nil { // the others are no widths of ours
			numbers[m[1]] = v
		}
	}
	for _, m := range structs.FindAllStringSubmatch(text, -1) {
		l, err := all.parse(m[2], m[1], numbers)
		if err != nil {
			return fmt.Errorf("struct %s: %w", m[2], err)
		}
		all[l.Name] = l
	}
	return nil
}

// parse places the members: the last is at bit 0.
func (all Layouts) parse(name, body string, numbers map[string]int) (*Layout, error) {
	l := &Layout{Name: name, Fields: map[string]Field{}}
	members := strings.Split(body, ";")
	for i := len(members) - 1; i >= 0; i-- {
		text := strings.Join(strings.Fields(members[i]), " ")
		if text == "" {
			continue
		}
		m := member.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("member %q is neither logic nor a struct", text)
		}
		width := 1
		if inner := m[2]; inner != "" {
			nested, ok := all[inner[strings.LastIndex(inner, ":")+1:]]
			if !ok {
				return nil, fmt.Errorf("member %q: no struct %s before it", text, inner)
			}
			width = nested.Width
			for n, f := range nested.Fields {
				l.Fields[m[3]+"."+n] = Field{l.Width + f.LSB, f.Width}
			}
		} else if m[1] != "" {
			msb, err := evaluate(m[1], numbers)
			if err != nil {
				return nil, fmt.Errorf("member %q: %w", text, err)
			}
			width = msb + 1
		}
		l.Fields[m[3]] = Field{l.Width, width}
		l.Width += width
	}
	return l, nil
}

// evaluate computes an expression of integers, known names and + - * /.
func evaluate(text string, numbers map[string]int) (int, error) {
	expr, err := parser.ParseExpr(regexp.MustCompile(`\w+::`).ReplaceAllString(text, ""))
	if err != nil {
		return 0, fmt.Errorf("expression %q: %w", text, err)
	}
	return value(expr, numbers)
}

func value(expr ast.Expr, numbers map[string]int) (int, error) {
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return value(e.X, numbers)
	case *ast.Ident:
		if v, ok := numbers[e.Name]; ok {
			return v, nil
		}
		return 0, fmt.Errorf("%s has no known value", e.Name)
	case *ast.BasicLit:
		v, ok := constant.Int64Val(constant.MakeFromLiteral(e.Value, token.INT, 0))
		if e.Kind != token.INT || !ok {
			return 0, fmt.Errorf("%s is no integer", e.Value)
		}
		return int(v), nil
	case *ast.BinaryExpr:
		a, err := value(e.X, numbers)
		if err != nil {
			return 0, err
		}
		b, err := value(e.Y, numbers)
		if err != nil {
			return 0, err
		}
		switch e.Op {
		case token.ADD:
			return a + b, nil
		case token.SUB:
			return a - b, nil
		case token.MUL:
			return a * b, nil
		case token.QUO:
			return a / b, nil
		}
	}
	return 0, fmt.Errorf("expression of type %T", expr)
}

// Token is a value of a packed struct. Naming a field that is not there, or a value that does not fit, is a mistake
// in a test and panics.
type Token struct {
	*Layout
	Words []uint32 // bit 0 of the struct is bit 0 of word 0
}

// New returns a token of the named struct, all 0.
func (all Layouts) New(name string) Token {
	l, ok := all[name]
	if !ok {
		panic(fmt.Sprintf("no struct %s", name))
	}
	return Token{l, make([]uint32, (l.Width+31)/32)}
}

func (l *Layout) field(name string) Field {
	f, ok := l.Fields[name]
	if !ok {
		panic(fmt.Sprintf("struct %s has no field %s", l.Name, name))
	}
	return f
}

// Set writes a field of at most 64 bits and returns the token.
func (t Token) Set(name string, v uint64) Token {
	f := t.field(name)
	if f.Width < 64 && v>>f.Width != 0 {
		panic(fmt.Sprintf("%s.%s: got %#x, want at most %d bits", t.Name, name, v, f.Width))
	}
	for i := range min(f.Width, 64) {
		t.setBit(f.LSB+i, v>>i&1 != 0)
	}
	return t
}

// SetBool writes a field of one bit.
func (t Token) SetBool(name string, v bool) Token {
	if v {
		return t.Set(name, 1)
	}
	return t.Set(name, 0)
}

// SetWords writes a wide field, or a nested struct, from words of which the first is the least significant.
func (t Token) SetWords(name string, words []uint32) Token {
	f := t.field(name)
	for i := range f.Width {
		t.setBit(f.LSB+i, i/32 < len(words) && words[i/32]>>(i%32)&1 != 0)
	}
	return t
}

// Get reads a field of at most 64 bits.
func (t Token) Get(name string) uint64 {
	f := t.field(name)
	var v uint64
	for i := range min(f.Width, 64) {
		if t.bit(f.LSB + i) {
			v |= 1 << i
		}
	}
	return v
}

// GetWords reads a field as SetWords takes it.
func (t Token) GetWords(name string) []uint32 {
	f := t.field(name)
	words := make([]uint32, (f.Width+31)/32)
	for i := range f.Width {
		if t.bit(f.LSB + i) {
			words[i/32] |= 1 << (i % 32)
		}
	}
	return words
}

func (t Token) bit(i int) bool { return t.Words[i/32]>>(i%32)&1 != 0 }

func (t Token) setBit(i int, v bool) {
	t.Words[i/32] &^= 1 << (i % 32)
	if v {
		t.Words[i/32] |= 1 << (i % 32)
	}
}
