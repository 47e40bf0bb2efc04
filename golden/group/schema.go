package group

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

//go:embed group.schema.json
var schemaText []byte

// Schema is the JSON schema (draft 2020-12) of the file.
func Schema() []byte { return bytes.Clone(schemaText) }

// Every default of the file is in the schema and nowhere else.
var (
	schemaRoot map[string]any
	compiled   *jsonschema.Schema
)

func init() {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		panic("group.schema.json: " + err.Error())
	}
	schemaRoot = doc.(map[string]any)
	c := jsonschema.NewCompiler()
	if err := c.AddResource("group.schema.json", doc); err != nil {
		panic("group.schema.json: " + err.Error())
	}
	compiled = c.MustCompile("group.schema.json")
}

// resolve follows a $ref to the definition. What stands beside the $ref stays with the caller.
func resolve(schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	return lookup(ref)
}

// lookup finds a part of the schema by its URL's fragment.
func lookup(url string) map[string]any {
	_, fragment, _ := strings.Cut(url, "#")
	here := any(schemaRoot)
	for _, token := range strings.Split(fragment, "/") {
		if m, ok := here.(map[string]any); ok && token != "" {
			here = m[unescape(token)]
		}
	}
	m, _ := here.(map[string]any)
	return m
}

// addDefaults fills in what a valid value leaves out.
func addDefaults(schema map[string]any, value any) {
	schema = resolve(schema)
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			property := p.(map[string]any)
			if d, ok := property["default"]; ok {
				if _, given := value[name]; !given {
					value[name] = fresh(d)
				}
			}
			if v, given := value[name]; given {
				addDefaults(property, v)
			}
		}
	case []any:
		if items, ok := schema["items"].(map[string]any); ok {
			for _, v := range value {
				addDefaults(items, v)
			}
		}
	}
}

// fresh copies a default, so that no two files share one.
func fresh(d any) any {
	switch d.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	}
	return d
}

// validate checks the document against the schema and adds what is wrong to its problems.
func (d *document) validate() {
	err := compiled.Validate(d.root)
	if err == nil {
		return
	}
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		d.fail(d.at(""), "", "%v", err)
		return
	}
	d.explain(v)
}

func (d *document) explain(v *jsonschema.ValidationError) {
	if len(v.Causes) > 0 {
		for _, c := range v.Causes {
			d.explain(c)
		}
		return
	}
	var place strings.Builder
	for _, t := range v.InstanceLocation {
		place.WriteString("/" + escape(t))
	}
	p := place.String()
	schema := lookup(v.SchemaURL)
	say := func(format string, args ...any) { d.fail(d.at(p), p, format, args...) }
	switch k := v.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		properties, _ := schema["properties"].(map[string]any)
		var allowed []string
		for name := range properties {
			allowed = append(allowed, name)
		}
		sort.Strings(allowed)
		for _, name := range k.Properties {
			below := p + "/" + escape(name)
			d.fail(d.keys[below], below, "unknown field, want one of %s", strings.Join(allowed, ", "))
		}
	case *kind.Required:
		for _, name := range k.Missing {
			say("field %s is missing%s", name, describe(property(schema, name)))
		}
	case *kind.Type:
		got := k.Got
		if k.Got == "string" {
			got = fmt.Sprintf("the string %q", d.text(p))
		}
		say("got %s, want %s%s", got, strings.Join(k.Want, " or "), describe(schema))
	case *kind.Const:
		say("got %v, want %v", show(k.Got), show(k.Want))
	case *kind.Enum:
		if len(k.Want) > 8 {
			say("got %s, want %v", show(k.Got), schema["description"])
			return
		}
		var want []string
		for _, w := range k.Want {
			want = append(want, show(w))
		}
		say("got %s, want one of %s", show(k.Got), strings.Join(want, ", "))
	case *kind.Minimum:
		say("got %s, want %s%s", number(k.Got), limits(schema), describe(schema))
	case *kind.Maximum:
		say("got %s, want %s%s", number(k.Got), limits(schema), describe(schema))
	case *kind.ExclusiveMinimum:
		say("got %s, want more than %s%s", number(k.Got), number(k.Want), describe(schema))
	case *kind.MinItems:
		what := "entries"
		if strings.HasSuffix(p, "/ins") {
			what = "ins (fan-in)"
		} else if strings.HasSuffix(p, "/outs") {
			what = "outs (fan-out)"
		}
		say("got %d %s, want %v..%v", k.Got, what, schema["minItems"], schema["maxItems"])
	case *kind.MaxItems:
		say("got %d entries, want at most %d", k.Got, k.Want)
	case *kind.Pattern:
		say("got %q, want %v", k.Got, schema["description"])
	case *kind.MinLength, *kind.MaxLength:
		say("wrong length, want %v", schema["description"])
	default:
		say("%s", strings.ReplaceAll(v.Error(), "\n", " "))
	}
}

func property(schema map[string]any, name string) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	p, _ := properties[name].(map[string]any)
	return p
}

// describe is the schema's own words for a field, in parentheses.
func describe(schema map[string]any) string {
	text, ok := schema["description"].(string)
	if !ok {
		text, ok = resolve(schema)["description"].(string)
	}
	if !ok {
		return ""
	}
	return " (" + text + ")"
}

// limits is the range of a number.
func limits(schema map[string]any) string {
	of := func(key string) string {
		r, ok := new(big.Rat).SetString(fmt.Sprint(schema[key]))
		if !ok {
			return ""
		}
		return number(r)
	}
	lo, hi := of("minimum"), of("maximum")
	switch {
	case lo != "" && hi != "":
		return lo + ".." + hi
	case hi != "":
		return "at most " + hi
	default:
		return "at least " + lo
	}
}

// number shows a number in decimal; integers above 16 bits in hexadecimal too.
func number(r *big.Rat) string {
	if !r.IsInt() {
		f, _ := r.Float64()
		return fmt.Sprint(f)
	}
	if r.Num().BitLen() > 16 {
		return fmt.Sprintf("%v (%#x)", r.Num(), r.Num())
	}
	return r.Num().String()
}

func show(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	if v == nil {
		return "nothing"
	}
	return fmt.Sprint(v)
}

// sorted orders problems by place in the file and drops repetitions.
func sorted(p Problems) Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return slices.CompactFunc(p, func(a, b Problem) bool { return a == b })
}
