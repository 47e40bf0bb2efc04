// Package stage runs the stages of rtl/wire and the primitives of rtl/prim by themselves: one Verilated
// bench for each data width (bench/), driven from a file of frames and read back from a file of what
// came out. The stages of rtl/core are in the same bench; package stage/core drives them. rtl/csr has a
// bench of its own, in stage/csr. Expected values are the caller's business; they come from golden/roce.
package stage

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Source says what to build a bench from.
type Source struct {
	Root  string // the repository: scripts/verilator, cosim/stage/bench
	RTL   string // folder of packages, primitives, wire and core modules; "" for Root/rtl
	Width int    // DATA_W in bits, 64..4096, a power of two
	Out   string // folder that keeps the bench; "" for Root/build/stage/w<Width>
}

// Build makes the bench unless the one that is there was made from the same files and flags, and
// returns its path. It waits for another process that builds the same one.
func Build(ctx context.Context, src Source) (string, error) {
	if src.RTL == "" {
		src.RTL = filepath.Join(src.Root, "rtl")
	}
	if src.Out == "" {
		src.Out = filepath.Join(src.Root, "build", "stage", fmt.Sprintf("w%d", src.Width))
	}
	for _, path := range []*string{&src.Root, &src.RTL, &src.Out} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return "", fmt.Errorf("stage bench: %w", err)
		}
		*path = abs
	}
	if err := os.MkdirAll(src.Out, 0o755); err != nil {
		return "", fmt.Errorf("stage bench: %w", err)
	}
	lock, err := os.Create(filepath.Join(src.Out, "lock"))
	if err != nil {
		return "", fmt.Errorf("stage bench: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("stage bench: locking %s: %w", lock.Name(), err)
	}

	verilator := filepath.Join(src.Root, "scripts", "verilator")
	bench := filepath.Join(src.Root, "cosim", "stage", "bench")
	args := []string{
		"--cc", "--exe", "--build", "-j", "2", "-O3", "--assert", "-DINC_ASSERT",
		"--x-assign", "unique", "--x-initial", "unique", "-Wno-lint", "-Wno-style",
		"--top-module", "inc_stage_bench", "--prefix", "Vinc_stage_bench",
		fmt.Sprintf("-GDATA_W=%d", src.Width),
		"-CFLAGS", fmt.Sprintf("-std=c++17 -DSTAGE_DATA_W=%d", src.Width),
		// The wheel's precompiled headers are not included by its own make rules.
		"-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O1 OPT_GLOBAL=-O1 VK_PCH_I_FAST= VK_PCH_I_SLOW=",
		"-F", filepath.Join(src.RTL, "pkg", "pkg.f"),
		"-F", filepath.Join(src.RTL, "prim", "prim.f"),
		"-F", filepath.Join(src.RTL, "wire", "wire.f"),
		"-F", filepath.Join(src.RTL, "core", "core.f"),
		// The stages of rtl/core have benches of up to 512 bits; above, what comes along is small.
		fmt.Sprintf("-DINC_BENCH_DATA_W=%d", coreWidth(src.Width)),
		"-F", filepath.Join(bench, "core", "core.f"),
		filepath.Join(bench, "inc_stage_bench.sv"), filepath.Join(bench, "main.cpp"),
		filepath.Join(bench, "core", "core_bench.cpp"), filepath.Join(bench, "core", "core_main.cpp"),
	}
	if path, err := exec.LookPath("ccache"); err == nil {
		args = append(args, "-MAKEFLAGS", "OBJCACHE="+path)
	}
	sum, err := hash(args, filepath.Join(src.Root, "scripts", "versions"), bench,
		filepath.Join(src.RTL, "pkg"), filepath.Join(src.RTL, "prim"), filepath.Join(src.RTL, "wire"), filepath.Join(src.RTL, "core"))
	if err != nil {
		return "", fmt.Errorf("stage bench: %w", err)
	}
	binary, stamp := filepath.Join(src.Out, "stage_bench"), filepath.Join(src.Out, "hash")
	if old, err := os.ReadFile(stamp); err == nil && string(old) == sum {
		if _, err := os.Stat(binary); err == nil {
			return binary, nil
		}
	}
	if err := os.Remove(stamp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("stage bench: %w", err)
	}
	args = append(args, "--Mdir", filepath.Join(src.Out, "obj"), "-o", binary)
	cmd := exec.CommandContext(ctx, verilator, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("stage bench of %d bits: %s: %w\n%s", src.Width, verilator, err, tail(out, 40))
	}
	if err := os.WriteFile(stamp, []byte(sum), 0o644); err != nil {
		return "", fmt.Errorf("stage bench: %w", err)
	}
	return binary, nil
}

func coreWidth(width int) int {
	if width > 512 {
		return 64
	}
	return width
}

// hash is that of the arguments and of all files at or under the paths that a bench is made from.
func hash(args []string, paths ...string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, strings.Join(args, "\n"))
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if path != root && !slices.Contains([]string{".sv", ".f", ".cpp", ".h"}, filepath.Ext(path)) {
				return nil
			}
			data, err := os.ReadFile(path)
			fmt.Fprintf(h, "%s %x\n", path, sha256.Sum256(data))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// tail is the last lines of a log.
func tail(log []byte, lines int) string {
	all := strings.Split(strings.TrimRight(string(log), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Pace says how the bench treats its streams. All are parts per thousand of the clocks.
type Pace struct {
	Seed        uint64
	Idle        int // an input waits before a beat
	Stall       int // an output (and the decision) waits
	BypassStall int // m_axis_bypass waits; 1000: for ever
}

// String is a name for subtests.
func (p Pace) String() string {
	return fmt.Sprintf("idle %d stall %d bypass %d seed %d", p.Idle, p.Stall, p.BypassStall, p.Seed)
}

// RxFrame goes in at s_axis_rx.
type RxFrame struct {
	Port     uint8
	MACError bool // tuser on the last beat
	Bypass   bool // decide to send it on, if it fits
	Bytes    []byte
}

// TxFrame goes in at inc_deparse.
type TxFrame struct {
	Header  Struct
	Payload []byte
	Wait    int  // clocks from the offer of its header to that of its payload, at least
	Late    bool // its header says late: there is a word of s_end for it
	Poison  bool // of that word
	EndWait int  // clocks from the taking of its header to the offer of that word, at least
}

// Output is what came out, each stream in its order. Clocks are those at which a beat was taken.
type Output struct {
	Taken    []Span   // of each RxFrame
	Headers  []Header // m_hdr
	Payload  []Beat   // m_pay
	Ends     []End    // m_eof
	Decided  []Decision
	Bypassed []Frame // m_axis_bypass, Port is tid
	Started  []Start // of each TxFrame
	Sent     []Frame // m_axis_tx, Port is tdest
	Clocks   uint64
}

type (
	// Span is the clocks of a first and a last beat.
	Span struct{ First, Last uint64 }
	// Start is the clocks in which a header was offered and taken, its first payload beat was offered and its
	// word of s_end was taken; 0 for what it does not have.
	Start struct{ Offered, Taken, Payload, End uint64 }
	// Header is one word of m_hdr: the clocks in which it was taken and first shown, and the m_early_qpn in the
	// clock before that.
	Header struct {
		Clock  uint64
		Shown  uint64
		Early  uint32
		Fields map[string]*big.Int
	}
	// Beat is one of m_pay.
	Beat struct {
		Clock uint64
		Last  bool
		Data  []byte
	}
	// End is one of m_eof.
	End struct {
		Clock   uint64
		Verdict uint8
	}
	// Decision is one of the bypass: whether the frame fitted.
	Decision struct {
		Clock uint64
		Fits  bool
	}
	// Frame is one that left.
	Frame struct {
		Span
		Port  uint8
		User  bool // tuser on its last beat
		Bytes []byte
	}
)

// Bench is a built bench and the structs of its ports.
type Bench struct {
	Path string
	Rx   Layout // inc_pkg::hdr_t
	Tx   Layout // inc_pkg::txhdr_t
}

// NewBench builds the bench and reads the layouts.
func NewBench(ctx context.Context, src Source) (*Bench, error) {
	path, err := Build(ctx, src)
	if err != nil {
		return nil, err
	}
	rtl := src.RTL
	if rtl == "" {
		rtl = filepath.Join(src.Root, "rtl")
	}
	pkg := filepath.Join(rtl, "pkg", "inc_pkg.sv")
	text, err := os.ReadFile(pkg)
	if err != nil {
		return nil, fmt.Errorf("stage bench: %w", err)
	}
	b := &Bench{Path: path}
	if b.Rx, err = ParseLayout(string(text), "hdr_t"); err != nil {
		return nil, fmt.Errorf("%s: %w", pkg, err)
	}
	if b.Tx, err = ParseLayout(string(text), "txhdr_t"); err != nil {
		return nil, fmt.Errorf("%s: %w", pkg, err)
	}
	return b, nil
}

// Frames runs frames through the bench; dir holds the files it is run with.
func (b *Bench) Frames(ctx context.Context, dir string, pace Pace, rx []RxFrame, tx []TxFrame) (*Output, error) {
	in, out := filepath.Join(dir, "in.txt"), filepath.Join(dir, "out.txt")
	var text bytes.Buffer
	for _, f := range rx {
		fmt.Fprintf(&text, "R %x %d %d %x\n", f.Port, bit(f.MACError), bit(f.Bypass), f.Bytes)
	}
	for _, f := range tx {
		v, err := b.Tx.Pack(f.Header)
		if err != nil {
			return nil, err
		}
		payload := "-"
		if len(f.Payload) > 0 {
			payload = hex.EncodeToString(f.Payload)
		}
		end := "-"
		if f.Late {
			end = fmt.Sprint(bit(f.Poison))
		}
		fmt.Fprintf(&text, "T %s %s %d %s %d\n", v, payload, f.Wait, end, f.EndWait)
	}
	if err := os.WriteFile(in, text.Bytes(), 0o644); err != nil {
		return nil, fmt.Errorf("stage bench: %w", err)
	}
	if err := b.run(ctx, "--in", in, "--out", out, "--seed", fmt.Sprint(pace.Seed), "--idle", fmt.Sprint(pace.Idle),
		"--stall", fmt.Sprint(pace.Stall), "--bypass-stall", fmt.Sprint(pace.BypassStall)); err != nil {
		return nil, fmt.Errorf("%w (input %s)", err, in)
	}
	file, err := os.Open(out)
	if err != nil {
		return nil, fmt.Errorf("stage bench: %w", err)
	}
	defer file.Close()
	o, err := b.read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	return o, nil
}

// Prims runs every primitive beside its model for so many clocks.
func (b *Bench) Prims(ctx context.Context, clocks int, seed uint64) error {
	return b.run(ctx, "--prims", fmt.Sprint(clocks), "--seed", fmt.Sprint(seed))
}

func (b *Bench) run(ctx context.Context, args ...string) error {
	if got, err := exec.CommandContext(ctx, b.Path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", b.Path, strings.Join(args, " "), err, tail(got, 10))
	}
	return nil
}

// read parses what main.cpp describes.
func (b *Bench) read(r io.Reader) (*Output, error) {
	var o Output
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	ended := false
	for n := 1; lines.Scan(); n++ {
		f := fieldReader{words: strings.Fields(lines.Text())}
		switch kind := f.word(); kind {
		case "A":
			o.Taken = append(o.Taken, Span{f.uint(64), f.uint(64)})
		case "H":
			h := Header{Clock: f.uint(64), Shown: f.uint(64), Early: uint32(f.uint(24))}
			v, ok := new(big.Int).SetString(f.word(), 16)
			if !ok {
				f.err = errors.New("header is not hex")
				break
			}
			h.Fields = b.Rx.Unpack(v)
			o.Headers = append(o.Headers, h)
		case "P":
			o.Payload = append(o.Payload, Beat{f.uint(64), f.uint(1) != 0, f.bytes()})
		case "E":
			o.Ends = append(o.Ends, End{f.uint(64), uint8(f.uint(8))})
		case "D":
			o.Decided = append(o.Decided, Decision{f.uint(64), f.uint(1) != 0})
		case "B":
			o.Bypassed = append(o.Bypassed, Frame{Span: Span{f.uint(64), f.uint(64)}, Port: uint8(f.uint(8)), Bytes: f.bytes()})
		case "S":
			o.Started = append(o.Started, Start{f.uint(64), f.uint(64), f.uint(64), f.uint(64)})
		case "X":
			o.Sent = append(o.Sent, Frame{Span{f.uint(64), f.uint(64)}, uint8(f.uint(8)), f.uint(1) != 0, f.bytes()})
		case "END":
			o.Clocks, ended = f.uint(64), true
		default:
			f.err = fmt.Errorf("unknown line %q", kind)
		}
		if f.err != nil {
			return nil, fmt.Errorf("line %d: %w", n, f.err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !ended {
		return nil, errors.New("no END line: the bench stopped early")
	}
	return &o, nil
}

// fieldReader reads the words of a line and keeps the first error.
type fieldReader struct {
	words []string
	err   error
}

func (f *fieldReader) word() string {
	if len(f.words) == 0 {
		if f.err == nil {
			f.err = errors.New("too few fields")
		}
		return ""
	}
	w := f.words[0]
	f.words = f.words[1:]
	return w
}

func (f *fieldReader) uint(bits int) uint64 {
	v, err := strconv.ParseUint(f.word(), 10, bits)
	if err != nil && f.err == nil {
		f.err = err
	}
	return v
}

func (f *fieldReader) bytes() []byte {
	b, err := hex.DecodeString(f.word())
	if err != nil && f.err == nil {
		f.err = err
	}
	return b
}

func bit(v bool) int {
	if v {
		return 1
	}
	return 0
}

// Struct holds a value for each field of a packed struct; those that are missing are 0.
type Struct map[string]*big.Int

// Layout is the fields of a packed struct, the most significant first.
type Layout []LayoutField

// LayoutField is one of them.
type LayoutField struct {
	Name string
	Bits int
}

var layoutField = regexp.MustCompile(`^\s*logic\s*(?:\[(\d+):0\])?\s+(\w+);`)

// ParseLayout reads the fields of `typedef struct packed { logic [n:0] name; ... } <name>;`.
func ParseLayout(text, name string) (Layout, error) {
	end := strings.Index(text, "} "+name+";")
	if end < 0 {
		return nil, fmt.Errorf("no packed struct %s", name)
	}
	start := strings.LastIndex(text[:end], "struct packed {")
	if start < 0 {
		return nil, fmt.Errorf("no beginning of struct %s", name)
	}
	var l Layout
	for _, line := range strings.Split(text[start:end], "\n")[1:] {
		code, _, _ := strings.Cut(line, "//")
		if strings.TrimSpace(code) == "" {
			continue
		}
		m := layoutField.FindStringSubmatch(code)
		if m == nil {
			return nil, fmt.Errorf("struct %s: %q is not `logic [n:0] name;`", name, strings.TrimSpace(line))
		}
		bits := 1
		if m[1] != "" {
			top, err := strconv.Atoi(m[1])
			if err != nil {
				return nil, fmt.Errorf("struct %s: %w", name, err)
			}
			bits = top + 1
		}
		l = append(l, LayoutField{m[2], bits})
	}
	return l, nil
}

// Bits is the width of the struct.
func (l Layout) Bits() int {
	n := 0
	for _, f := range l {
		n += f.Bits
	}
	return n
}

// Pack is the struct as hex digits of whole bytes. A value that does not fit its field or has none is
// an error.
func (l Layout) Pack(s Struct) (string, error) {
	v, used := new(big.Int), 0
	for _, f := range l {
		v.Lsh(v, uint(f.Bits))
		x, ok := s[f.Name]
		if !ok {
			continue
		}
		used++
		if x.Sign() < 0 || x.BitLen() > f.Bits {
			return "", fmt.Errorf("field %s is %#x, want %d bits", f.Name, x, f.Bits)
		}
		v.Or(v, x)
	}
	if used != len(s) {
		return "", fmt.Errorf("%d of %d values have no field in the struct", len(s)-used, len(s))
	}
	return fmt.Sprintf("%0*x", (l.Bits()+7)/8*2, v), nil
}

// Unpack takes a struct apart.
func (l Layout) Unpack(v *big.Int) map[string]*big.Int {
	fields, rest := map[string]*big.Int{}, new(big.Int).Set(v)
	for _, f := range slices.Backward(l) {
		mask := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(f.Bits)), big.NewInt(1))
		fields[f.Name] = mask.And(mask, rest)
		rest.Rsh(rest, uint(f.Bits))
	}
	return fields
}
