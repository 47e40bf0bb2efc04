package main

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"fmt"
	"go/format"
	"maps"
	"math/bits"
	"strings"
	"text/template"

	"github.com/goccy/go-yaml"
)

//go:embed templates/*.tmpl
var templateFS embed.FS

// file is one generated file: its path from the root of the repository and its content.
type file struct {
	path    string
	content []byte
}

// generate makes every file from the text of inc.yaml.
func generate(source []byte) ([]file, error) {
	s, err := parse(source)
	if err != nil {
		return nil, err
	}
	if s.Hash, err = hash(source); err != nil {
		return nil, err
	}
	return render(s, template.FuncMap{
		"recordType": recordType,
		"tableType":  tableType,
		"linkType":   func(f field) string { return fmt.Sprintf("uint%d", f.W) },
		"maxBits":    maxBits,
		"reverse":    reverse,
		"opcodes":    s.opcodesWhere,
		"readOnly":   s.readOnlyTables,
		"verdicts":   s.verdictsWhere,
		"hex":        func(digits int, v any) string { return fmt.Sprintf("%0*x", digits, v) },
		"has":        func(o opcode, h string) bool { return o.has(h) },
		"is": func(name, arg, labels string) map[string]string {
			return map[string]string{"Name": name, "Arg": arg, "Labels": labels}
		},
		"cenum": s.cEnum,
		"enum":  func(goType, what string) map[string]string { return map[string]string{"Type": goType, "What": what} },
	}, []output{
		{"spec.go.tmpl", "golden/spec/spec_gen.go"},
		{"spec.sv.tmpl", "rtl/pkg/inc_spec_pkg.sv"},
		{"spec.h.tmpl", "cosim/dpi/inc_spec.h"},
	})
}

// output is one template and the file that is made of it.
type output struct{ template, path string }

// render makes the outputs of data; a template that names a function of another source's is an error.
func render(data any, funcs template.FuncMap, outputs []output) ([]file, error) {
	all := template.FuncMap{
		"camel":  camel,
		"upper":  strings.ToUpper,
		"words":  func(name string) string { return strings.ReplaceAll(name, "_", " ") },
		"add":    func(a, b int) int { return a + b },
		"mul":    func(a, b int) int { return a * b },
		"shl":    func(i int) int { return 1 << i },
		"byteOf": func(lsb int) int { return lsb / 8 },
	}
	maps.Copy(all, funcs)
	var files []file
	for _, out := range outputs {
		t, err := template.New(out.template).Funcs(all).ParseFS(templateFS, "templates/"+out.template)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, data); err != nil {
			return nil, err
		}
		content := b.Bytes()
		if strings.HasSuffix(out.path, ".go") {
			if content, err = format.Source(content); err != nil {
				return nil, fmt.Errorf("%s: %w", out.path, err)
			}
		}
		files = append(files, file{out.path, content})
	}
	return files, nil
}

// hash is the number by which two ends of the link know that they mean the same spec: it depends on
// names, values and order, not on comments, docs or layout of the text.
func hash(source []byte) (uint32, error) {
	var tree yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(source, &tree, yaml.UseOrderedMap()); err != nil {
		return 0, err
	}
	canonical, err := yaml.Marshal(withoutDocs(tree))
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256(canonical)
	return binary.LittleEndian.Uint32(sum[:]), nil
}

func withoutDocs(v any) any {
	switch v := v.(type) {
	case yaml.MapSlice:
		out := yaml.MapSlice{}
		for _, item := range v {
			if item.Key != "doc" {
				out = append(out, yaml.MapItem{Key: item.Key, Value: withoutDocs(item.Value)})
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withoutDocs(e)
		}
		return out
	}
	return v
}

// initialisms are the words that Go names do not spell as Xxx. Ack and Nak are words of their own.
var initialisms = map[string]string{
	"aeth": "AETH", "bth": "BTH", "cnp": "CNP", "ce": "CE", "dma": "DMA", "dtype": "DType", "epsn": "EPSN", "icrc": "ICRC", "id": "ID",
	"ip": "IP", "ipv4": "IPv4", "ipv6": "IPv6", "mac": "MAC", "msn": "MSN", "mtu": "MTU", "pkey": "PKey",
	"psn": "PSN", "psn0": "PSN0", "qinq": "QinQ", "qpn": "QPN", "rnr": "RNR", "roce": "RoCE", "tci": "TCI",
	"tos": "TOS", "ttl": "TTL", "udp": "UDP", "va": "VA", "crc": "CRC", "hz": "Hz", "vlan": "VLAN", "kb": "KB", "ppm": "PPM", "ethertype": "EtherType",
}

// camel turns snake_case into a Go name: peer_qpn becomes PeerQPN.
func camel(snake string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(snake, "_") {
		if up, ok := initialisms[word]; ok {
			b.WriteString(up)
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// recordType is the Go type of a field of the retirement record. The enums are 32 bits wide, so a
// word that the RTL should never produce is kept and shown as it came.
func recordType(f field) string {
	switch f.Name {
	case "cause", "verdict", "ack_kind", "groups":
		return camel(f.Name)
	}
	return fmt.Sprintf("uint%d", f.W)
}

// tableType is the Go type of a field of a table entry.
func tableType(f field) string {
	switch {
	case f.Name == "op":
		return "Op"
	case f.Name == "dtype":
		return "DType"
	case f.Name == "ack_kind":
		return "AckKind"
	case f.Name == "ack_rule":
		return "AckRule"
	case f.W == 1:
		return "bool"
	case f.W <= 8:
		return "uint8"
	case f.W <= 16:
		return "uint16"
	case f.W <= 32:
		return "uint32"
	case f.W <= 64:
		return "uint64"
	}
	return "Uint128"
}

// maxBits is the number of bits that hold every entry of a list.
func maxBits(list []uint32) int {
	n := 1
	for _, v := range list {
		n = max(n, bits.Len32(v))
	}
	return n
}

func reverse(fields []field) []field {
	out := make([]field, len(fields))
	for i, f := range fields {
		out[len(fields)-1-i] = f
	}
	return out
}

// cEnum is the name of a C enum and those of its values, counted from 0.
func (s *spec) cEnum(name string) (map[string]any, error) {
	nm := func(n named) string { return n.Name }
	lists := map[string][]string{
		"verdict":     namesOf(s.Verdicts, func(v verdict) string { return v.Name }),
		"cause":       namesOf(s.Causes, nm),
		"ack_kind":    namesOf(s.AckKinds, nm),
		"ack_rule":    namesOf(s.AckRules, nm),
		"event":       namesOf(s.Counters, nm),
		"table_error": namesOf(s.TableErrors, nm),
		"error_kind":  namesOf(s.ErrorKinds, nm),
		"dtype":       s.DTypes,
		"op":          s.Ops,
		"coll_type":   s.Types,
		"table":       namesOf(s.Tables, func(t table) string { return t.Name }),
	}
	list, ok := lists[name]
	if !ok {
		return nil, fmt.Errorf("no C enum %q", name)
	}
	return map[string]any{"Name": name, "Names": list}, nil
}

// opcodesWhere is the case label of the opcodes that have a property, e.g. "8'h00, 8'h01".
func (s *spec) opcodesWhere(property string) string {
	var labels []string
	for _, o := range s.Opcodes {
		var yes bool
		switch property {
		case "known":
			yes = true
		case "first":
			yes = o.First
		case "last":
			yes = o.Last
		case "write":
			yes = strings.HasPrefix(o.Name, "write_")
		case "data", "ack", "cnp":
			yes = o.Kind == property
		default:
			yes = o.has(property)
		}
		if yes {
			labels = append(labels, fmt.Sprintf("8'h%02x", o.Value))
		}
	}
	return wrap(labels)
}

// verdictsWhere is the case label of the verdicts of a class or stage.
func (s *spec) verdictsWhere(property string) string {
	var labels []string
	for i, v := range s.Verdicts {
		if v.Class == property || v.Stage == property {
			labels = append(labels, fmt.Sprintf("8'd%d", i))
		}
	}
	return wrap(labels)
}

// readOnlyTables is the case label of the tables that only the engine writes.
func (s *spec) readOnlyTables() string {
	var labels []string
	for i, t := range s.Tables {
		if t.ReadOnly {
			labels = append(labels, fmt.Sprintf("4'd%d", i))
		}
	}
	return wrap(labels)
}

// wrap joins labels, eight to a line.
func wrap(labels []string) string {
	var b strings.Builder
	for i, l := range labels {
		switch {
		case i == 0:
		case i%8 == 0:
			b.WriteString(",\n      ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(l)
	}
	return b.String()
}
