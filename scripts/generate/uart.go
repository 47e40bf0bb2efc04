package main

import (
	"fmt"
	"math/bits"

	"github.com/goccy/go-yaml"
)

// uartFile is uart.yaml as it is written.
type uartFile struct {
	Version   int           `yaml:"version"`
	Constants yaml.MapSlice `yaml:"constants"`
	Ops       []named       `yaml:"ops"`
	Statuses  []named       `yaml:"statuses"`
	Features  []named       `yaml:"features"`
	Hello     []field       `yaml:"hello"`
	Boards    []named       `yaml:"boards"`
}

// uart is uart.yaml, checked and laid out.
type uart struct {
	uartFile
	Constants  []constant
	HelloBytes int
}

// generateUART makes every file from the text of uart.yaml.
func generateUART(source []byte) ([]file, error) {
	u, err := parseUART(source)
	if err != nil {
		return nil, err
	}
	return render(u, nil, []output{
		{"uart.go.tmpl", "driver/device/uart/frame/spec_gen.go"},
		{"uart.sv.tmpl", "rtl/pkg/inc_uart_pkg.sv"},
	})
}

func parseUART(source []byte) (*uart, error) {
	u := &uart{}
	if err := yaml.UnmarshalWithOptions(source, &u.uartFile, yaml.Strict()); err != nil {
		return nil, err
	}
	if u.Version < 1 || u.Version > 15 {
		return nil, fmt.Errorf("version: got %d, want 1..15 (4 bits)", u.Version)
	}
	if err := decodeMap(u.uartFile.Constants, "constants", func(name string, b []byte) error {
		c := constant{Name: name}
		if err := yaml.UnmarshalWithOptions(b, &c, yaml.Strict()); err != nil {
			return err
		}
		if c.W != 0 && bits.Len32(c.Value) > c.W {
			return fmt.Errorf("value %d does not fit w: %d", c.Value, c.W)
		}
		u.Constants = append(u.Constants, c)
		return nil
	}); err != nil {
		return nil, err
	}
	nm := func(n named) string { return n.Name }
	for where, list := range map[string]struct {
		names []string
		most  int
	}{
		"constants": {namesOf(u.Constants, func(c constant) string { return c.Name }), 1 << 16},
		"ops":       {namesOf(u.Ops, nm), 16},
		"statuses":  {namesOf(u.Statuses, nm), 256},
		"features":  {namesOf(u.Features, nm), 8},
		"hello":     {namesOf(u.Hello, fieldName), 256},
		"boards":    {namesOf(u.Boards, nm), 1 << 16},
	} {
		if err := names(where, list.names); err != nil {
			return nil, err
		}
		if len(list.names) > list.most {
			return nil, fmt.Errorf("%s: got %d, want at most %d", where, len(list.names), list.most)
		}
	}
	lsb := 0
	for i := range u.Hello {
		f := &u.Hello[i]
		if f.W != 8 && f.W != 16 && f.W != 32 {
			return nil, fmt.Errorf("hello.%s.w: got %d, want 8, 16 or 32", f.Name, f.W)
		}
		f.Lsb = lsb
		lsb += f.W
	}
	u.HelloBytes = lsb / 8
	return u, nil
}
