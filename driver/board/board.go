// Package board is what `epic board` does: it finds boards, says what they are, loads bitstreams and reads and writes
// registers.
package board

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/epic-inc/epic/driver/bitstream"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/uart"
	"github.com/epic-inc/epic/driver/device/uart/frame"
)

// portNames are where Linux puts serial adapters: by what they are, or else by number.
var portNames = []string{"/dev/serial/by-id/*", "/dev/ttyUSB*", "/dev/ttyACM*"}

// Listing is the serial ports there are, and the FPGAs whose bitstreams are known.
type Listing struct {
	Ports []string `json:"ports"`
	FPGAs []string `json:"fpgas"`
}

// List looks for serial ports. It opens none: another program may be using it.
func List() *Listing { return list(portNames) }

func list(patterns []string) *Listing {
	l := &Listing{Ports: []string{}}
	seen := map[string]bool{}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		for _, path := range found {
			device, err := filepath.EvalSymlinks(path)
			if err == nil && !seen[device] {
				seen[device] = true
				l.Ports = append(l.Ports, path)
			}
		}
	}
	for _, d := range bitstream.Devices {
		l.FPGAs = append(l.FPGAs, d.Name)
	}
	return l
}

// WriteText writes the listing for people.
func (l *Listing) WriteText(w io.Writer) error {
	text := "serial ports: none\n"
	if len(l.Ports) > 0 {
		text = "serial ports:\n  " + strings.Join(l.Ports, "\n  ") + "\n"
	}
	_, err := fmt.Fprintf(w, "%sbitstreams of: %s\n", text, strings.Join(l.FPGAs, ", "))
	return err
}

// Where says which board.
type Where struct {
	Port string // serial port; "" if there is only one
	Baud int    // 0: uart.DefaultBaud
}

// open opens the board's serial port.
func (w Where) open(ctx context.Context) (*uart.Board, error) {
	if w.Port == "" {
		switch ports := List().Ports; len(ports) {
		case 0:
			return nil, errors.New("port: got none, and this machine has no serial port; want --port PATH")
		case 1:
			w.Port = ports[0]
		default:
			return nil, fmt.Errorf("port: got none, want --port with one of %s", strings.Join(ports, ", "))
		}
	}
	return uart.Open(ctx, w.Port, uart.Options{Baud: w.Baud})
}

// Info is what a board is.
type Info struct {
	Port       string `json:"port"`
	Baud       int    `json:"baud"`
	Board      string `json:"board"`
	FPGA       string `json:"fpga"`
	ClockHz    uint32 `json:"clock_hz"`
	FlashID    string `json:"flash_id"`
	FlashBytes int    `json:"flash_bytes"` // 0: no flash answers
	UserBase   uint32 `json:"user_base"`
	CanReload  bool   `json:"can_reload"`
	EngineID   uint32 `json:"engine_id"`
	Major      uint32 `json:"register_map_major"`
	Minor      uint32 `json:"register_map_minor"`
	SpecHash   uint32 `json:"spec_hash"`
}

// Ask asks a board what it is.
func Ask(ctx context.Context, w Where) (info *Info, err error) {
	b, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	h := b.Hello()
	info = &Info{
		Port: b.Path(), Baud: b.Baud(), Board: frame.Board(h.Board).String(), FPGA: bitstream.DeviceName(h.DeviceID),
		ClockHz: h.ClockHz, UserBase: h.UserBase, CanReload: h.Features&frame.FeatureReload != 0,
	}
	id, err := b.FlashID(ctx)
	if err != nil {
		return nil, err
	}
	info.FlashID, info.FlashBytes = id.String(), id.Bytes()
	if info.EngineID, err = b.Read32(ctx, device.RegID); err != nil || info.EngineID != device.IDValue {
		return info, err // no engine: the rest means nothing
	}
	version, err := b.Read32(ctx, device.RegVersion)
	if err != nil {
		return nil, err
	}
	info.Major, info.Minor = device.VersionMajor.Get(version), device.VersionMinor.Get(version)
	info.SpecHash, err = b.Read32(ctx, device.RegSpecHash)
	return info, err
}

// WriteText writes it for people.
func (i *Info) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("port", "%s at %d baud", i.Port, i.Baud)
	row("board", "%s", i.Board)
	row("FPGA", "%s, clock %g MHz", i.FPGA, float64(i.ClockHz)/1e6)
	if i.FlashBytes == 0 {
		row("flash", "none answers (id %s)", i.FlashID)
	} else {
		row("flash", "id %s, %d KiB: golden image below %#x, user image from there", i.FlashID, i.FlashBytes>>10, i.UserBase)
	}
	if i.CanReload {
		row("reload", "the FPGA can load itself anew")
	} else {
		row("reload", "by power-cycling: PROGRAMN is not wired to the FPGA")
	}
	if i.EngineID == device.IDValue {
		row("engine", "register map %d.%d, spec %#08x", i.Major, i.Minor, i.SpecHash)
	} else {
		row("engine", "none: register ID reads %#08x, want %#08x", i.EngineID, device.IDValue)
	}
	return t.Flush()
}

// access is one read or write of a register.
type access struct {
	name  string
	addr  uint32
	write bool
	value uint32
}

// parse takes NAME, NAME[I], ADDRESS, each with =VALUE or without.
func parse(arg string) (access, error) {
	where, value, write := strings.Cut(arg, "=")
	a := access{name: where, write: write}
	if write {
		v, err := strconv.ParseUint(value, 0, 32)
		if err != nil {
			return a, fmt.Errorf("register %s: got the value %q, want 0..0xffffffff", where, value)
		}
		a.value = uint32(v)
	}
	if v, err := strconv.ParseUint(where, 0, 32); err == nil {
		if v%4 != 0 {
			return a, fmt.Errorf("register: got the address %s, want a multiple of 4", where)
		}
		a.addr = uint32(v)
		return a, nil
	}
	name, index, indexed := strings.Cut(strings.TrimSuffix(where, "]"), "[")
	i := slices.IndexFunc(device.RegisterMap, func(r device.Register) bool { return strings.EqualFold(r.Name, name) })
	if i < 0 {
		return a, fmt.Errorf("register: got %q, want an address or a name of docs/registers.md, such as ID or TABLE_DATA[3]", where)
	}
	r := device.RegisterMap[i]
	n := 0
	if indexed {
		var err error
		if n, err = strconv.Atoi(index); err != nil || n < 0 || n >= r.Count {
			return a, fmt.Errorf("register %s: got the index %q, want 0..%d", r.Name, index, r.Count-1)
		}
	} else if r.Count > 1 {
		return a, fmt.Errorf("register %s: got no index, want %s[0] to %s[%d]", r.Name, r.Name, r.Name, r.Count-1)
	}
	switch {
	case write && !r.Writable:
		return a, fmt.Errorf("register %s cannot be written", r.Name)
	case !write && !r.Readable:
		return a, fmt.Errorf("register %s cannot be read, want %s=VALUE", r.Name, r.Name)
	}
	a.addr = r.Addr + 4*uint32(n)
	return a, nil
}

// Values are registers that were read.
type Values []Value

// Value is one of them.
type Value struct {
	Name  string `json:"name"`
	Addr  uint32 `json:"addr"`
	Value uint32 `json:"value"`
}

// WriteText writes them for people.
func (v Values) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range v {
		fmt.Fprintf(t, "%s\t%#03x\t%#08x\n", r.Name, r.Addr, r.Value)
	}
	return t.Flush()
}

// Registers reads and writes registers of a board in the order of args: NAME or ADDRESS reads, NAME=VALUE writes. Without
// args it reads all that are no arrays. All of args is checked before the board is asked for anything.
func Registers(ctx context.Context, w Where, args []string) (values Values, err error) {
	if len(args) == 0 {
		for _, r := range device.RegisterMap {
			if r.Readable && r.Count == 1 {
				args = append(args, r.Name)
			}
		}
	}
	accesses := make([]access, len(args))
	for i, arg := range args {
		if accesses[i], err = parse(arg); err != nil {
			return nil, err
		}
	}
	b, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	values = Values{}
	for _, a := range accesses {
		if a.write {
			if err := b.Write32(ctx, a.addr, a.value); err != nil {
				return values, err
			}
			continue
		}
		value, err := b.Read32(ctx, a.addr)
		if err != nil {
			return values, err
		}
		values = append(values, Value{a.name, a.addr, value})
	}
	return values, nil
}
