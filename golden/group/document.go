package group

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxNodes bounds the values of a document after its aliases are put in, so that a small file
// cannot grow without end.
const maxNodes = 1 << 18

// maxDepth bounds the nesting of a document in brackets, and maxIndent that of a line: the parser's
// time grows with a high power of both. A group nests six deep.
const (
	maxDepth  = 64
	maxIndent = 200
)

// Problem is one thing wrong with a file: where, what was got and what is allowed. As an error it
// is one line.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // from 1; 0: nowhere in particular
	Column  int    `json:"column"` // from 1, in characters
	Path    string `json:"path"`   // as switches[0].pipes[1].slots; empty: the whole file
	Message string `json:"message"`
}

// Error is FILE:LINE:COLUMN: PATH: MESSAGE.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is everything wrong with a file, in the order of its lines.
type Problems []Problem

// Error has one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// position of a key or value in the file, from 1.
type position struct{ line, column int }

// document is a YAML file as plain values (map[string]any, []any, string, int64, uint64, float64,
// bool, nil) that remembers where each stands. Places are JSON pointers: "/switches/0/name".
type document struct {
	file     string
	root     any
	values   map[string]position
	keys     map[string]position // of the key of the value at that place
	problems Problems
	anchors  map[string]ast.Node
	within   map[string]bool // anchors being read: an alias to one of them is a loop
	nodes    int
}

// readDocument parses one YAML document. Syntax errors are in its problems.
func readDocument(file string, text []byte) *document {
	d := &document{
		file:    file,
		values:  make(map[string]position),
		keys:    make(map[string]position),
		anchors: make(map[string]ast.Node),
		within:  make(map[string]bool),
	}
	if i := firstBinary(text); i >= 0 {
		line := 1 + strings.Count(string(text[:i]), "\n")
		column := 1 + i - (strings.LastIndexByte(string(text[:i]), '\n') + 1)
		d.fail(position{line, column}, "", "got the byte 0x%02x, want YAML text in UTF-8", text[i])
		return d
	}
	if line := tooDeep(text); line > 0 {
		d.fail(position{line, 1}, "", "nested more than %d deep, want a group.yaml", maxDepth)
		return d
	}
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		var at position
		message := strings.SplitN(err.Error(), "\n", 2)[0]
		var y yaml.Error
		if errors.As(err, &y) {
			message = y.GetMessage()
			if tk := y.GetToken(); tk != nil && tk.Position != nil {
				at = position{tk.Position.Line, tk.Position.Column}
			}
		}
		d.fail(at, "", "not valid YAML: %s", message)
		return d
	}
	var bodies []ast.Node
	for _, doc := range f.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		d.fail(position{1, 1}, "", "got an empty file, want a group with at least `version: 1`")
	case 1:
		d.root = d.value(bodies[0], "")
	default:
		d.fail(where(bodies[1]), "", "got a second YAML document, want one")
	}
	return d
}

// firstBinary is the offset of the first byte that no UTF-8 text holds, or -1.
func firstBinary(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 || r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return i
		}
		i += n
	}
	return -1
}

// tooDeep is the first line that nests deeper than maxDepth brackets or begins with more than maxIndent
// blanks and dashes, or 0. It may count a bracket in a text that goes over several lines, where no group
// has one.
func tooDeep(text []byte) int {
	depth := 0
	for number, line := range strings.Split(string(text), "\n") {
		if len(line)-len(strings.TrimLeft(line, " -?:")) > maxIndent {
			return number + 1
		}
		quote := byte(0)
	scan:
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case quote != 0:
				if c == '\\' && quote == '"' {
					i++
				} else if c == quote {
					quote = 0
				}
			case c == '"' || c == '\'':
				quote = c
			case c == '#' && (i == 0 || line[i-1] == ' '):
				break scan
			case c == '[' || c == '{':
				if depth++; depth > maxDepth {
					return number + 1
				}
			case (c == ']' || c == '}') && depth > 0:
				depth--
			}
		}
	}
	return 0
}

func where(n ast.Node) position {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return where(m.Values[0].Key) // a block mapping's own token is its first colon
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return where(m.Key)
	}
	tk := n.GetToken()
	if tk == nil || tk.Position == nil {
		return position{}
	}
	return position{tk.Position.Line, tk.Position.Column}
}

func (d *document) fail(at position, place, format string, args ...any) {
	d.problems = append(d.problems, Problem{d.file, at.line, at.column, pretty(place), fmt.Sprintf(format, args...)})
}

// value turns a node into plain values.
func (d *document) value(n ast.Node, place string) any {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.fail(where(n), place, "more than %d values once aliases are put in", maxNodes)
		}
		return nil
	}
	at := where(n)
	if _, seen := d.values[place]; !seen { // an alias keeps the place where it is used
		d.values[place] = at
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return d.mapping(n.Values, place)
	case *ast.MappingValueNode:
		return d.mapping([]*ast.MappingValueNode{n}, place)
	case *ast.SequenceNode:
		list := make([]any, 0, len(n.Values))
		for i, v := range n.Values {
			list = append(list, d.value(v, fmt.Sprintf("%s/%d", place, i)))
		}
		return list
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		d.anchors[name] = n.Value
		d.within[name] = true
		defer delete(d.within, name)
		return d.value(n.Value, place)
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		target, ok := d.anchors[name]
		if !ok || d.within[name] {
			d.fail(at, place, "alias *%s has no anchor &%s before it", name, name)
			return nil
		}
		return d.value(target, place)
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.IntegerNode:
		digits := strings.TrimLeft(n.Token.Value, "+-")
		if len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
			d.fail(at, place, "got %s, want a number without leading zeros (0x for hexadecimal)", n.Token.Value)
		}
		return n.Value
	case *ast.FloatNode:
		if i := int64(n.Value); float64(i) == n.Value && math.Abs(n.Value) < 1<<53 {
			return i // JSON schema counts 4.0 as an integer
		}
		return n.Value
	case *ast.BoolNode:
		return n.Value
	case *ast.NullNode:
		return nil
	case *ast.CommentGroupNode:
		return nil
	default:
		d.fail(at, place, "got %s, want a plain mapping, sequence, string, number, true or false", strings.ToLower(n.Type().String()))
		return nil
	}
}

func (d *document) mapping(entries []*ast.MappingValueNode, place string) any {
	m := make(map[string]any, len(entries))
	for _, e := range entries {
		at := where(e.Key)
		key, ok := e.Key.(*ast.StringNode)
		if !ok {
			d.fail(at, place, "got the key %s, want a plain name", e.Key.String())
			continue
		}
		below := place + "/" + escape(key.Value)
		if _, twice := m[key.Value]; twice {
			d.fail(at, below, "given twice")
			continue
		}
		if _, seen := d.keys[below]; !seen {
			d.keys[below] = at
		}
		m[key.Value] = d.value(e.Value, below)
	}
	return m
}

// at is the position of a value, or of the nearest thing around it that the file has.
func (d *document) at(place string) position {
	for {
		if p, ok := d.values[place]; ok {
			return p
		}
		i := strings.LastIndexByte(place, '/')
		if i < 0 {
			return position{}
		}
		place = place[:i]
	}
}

func escape(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

func unescape(token string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}

// pretty turns /switches/0/pipes/1/slots into switches[0].pipes[1].slots.
func pretty(place string) string {
	var b strings.Builder
	for _, t := range strings.Split(strings.TrimPrefix(place, "/"), "/") {
		if t == "" {
			continue
		}
		if _, err := strconv.Atoi(t); err == nil {
			b.WriteString("[" + t + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(unescape(t))
	}
	return b.String()
}
