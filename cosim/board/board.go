// Package board builds and runs the virtual board: the core that is on every board (fpga/core) under Verilator, with its
// serial line on a pseudo terminal, a flash at its pins, and network interfaces at its ports (bench/). Board time passes
// only while something is under way, and a little of it where ports have interfaces.
package board

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// What the bench is built with.
const (
	Baud     = 1000000
	ClockHz  = 8333333    // little, so that little is simulated: 8.33 clocks of a bit
	DeviceID = 0x41111043 // it says it is an LFE5U-25F
	UserBase = 1 << 20
	Ports    = 4
)

var lists = []string{"rtl/rtl.f", "fpga/core/core.f"}

// Build makes the bench in the repository at root, unless the one that is there was made from the same files, and
// returns its path. It waits for another process that builds it.
func Build(ctx context.Context, root string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("virtual board: %w", err)
	}
	if _, err := os.Stat(filepath.Join(root, lists[0])); err != nil {
		return "", fmt.Errorf("virtual board: %s is not the repository: %w", root, err)
	}
	out := filepath.Join(root, "build", "board")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", fmt.Errorf("virtual board: %w", err)
	}
	lock, err := os.Create(filepath.Join(out, "lock"))
	if err != nil {
		return "", fmt.Errorf("virtual board: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("virtual board: lock %s: %w", lock.Name(), err)
	}
	args := []string{
		"--cc", "--exe", "--build", "-j", "2", "-O3", "--assert", "-DINC_ASSERT",
		"--x-assign", "unique", "--x-initial", "unique", "-Wno-lint", "-Wno-style", "--top-module", "inc_board_tb",
		"-CFLAGS", "-std=c++17 -O2",
		// The wheel's precompiled headers are not included by its own make rules.
		"-MAKEFLAGS", "OPT_FAST=-O2 VK_PCH_I_FAST= VK_PCH_I_SLOW=",
	}
	var inputs []string
	for _, list := range lists {
		args = append(args, "-F", filepath.Join(root, list))
		files, err := sources(filepath.Join(root, filepath.Dir(list)))
		if err != nil {
			return "", fmt.Errorf("virtual board: %w", err)
		}
		inputs = append(inputs, files...)
	}
	for _, name := range []string{"inc_board_tb.sv", "board_tb.cpp", "flash.cpp", "ports.cpp"} {
		args = append(args, filepath.Join(root, "cosim/board/bench", name))
	}
	if path, err := exec.LookPath("ccache"); err == nil {
		args = append(args, "-MAKEFLAGS", "OBJCACHE="+path)
	}
	bench, err := filepath.Glob(filepath.Join(root, "cosim/board/bench/*"))
	if err != nil {
		return "", fmt.Errorf("virtual board: %w", err)
	}
	inputs = append(append(inputs, bench...), filepath.Join(root, "scripts/versions"))
	slices.Sort(inputs)
	h := sha256.New()
	fmt.Fprintln(h, strings.Join(args, "\n"))
	for _, path := range inputs {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("virtual board: %w", err)
		}
		fmt.Fprintf(h, "%s %x\n", path, sha256.Sum256(data))
	}
	sum := fmt.Sprintf("%x", h.Sum(nil))
	binary, stamp := filepath.Join(out, "board_tb"), filepath.Join(out, "hash")
	if old, err := os.ReadFile(stamp); err == nil && string(old) == sum {
		if _, err := os.Stat(binary); err == nil {
			return binary, nil
		}
	}
	if err := os.Remove(stamp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("virtual board: %w", err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts/verilator"), append(args, "--Mdir", filepath.Join(out, "obj"), "-o", binary)...)
	if said, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return "", fmt.Errorf("virtual board: build (scripts/setup sim brings what it needs): %w\n%s", err, strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
	if err := os.WriteFile(stamp, []byte(sum), 0o644); err != nil {
		return "", fmt.Errorf("virtual board: %w", err)
	}
	return binary, nil
}

// sources are the file lists, and what they can name, in a folder.
func sources(folder string) (files []string, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && slices.Contains([]string{".f", ".sv", ".vlt"}, filepath.Ext(path)) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// Options of a virtual board.
type Options struct {
	Program string    // path of the bench, as Build returns it
	Args    []string  // further arguments of the bench (cosim/board/bench/board_tb.cpp)
	Log     io.Writer // gets what the bench prints, a line at a time; nil: nobody
}

// Board is a running virtual board.
type Board struct {
	Path string // of its serial port

	cmd      *exec.Cmd
	ended    chan struct{}
	once     sync.Once
	mu       sync.Mutex
	lines    []string
	exit     error
	complain strings.Builder
}

// Start starts one; Close ends it, and so does the end of ctx.
func Start(ctx context.Context, o Options) (*Board, error) {
	b := &Board{cmd: exec.CommandContext(ctx, o.Program, o.Args...), ended: make(chan struct{})}
	b.cmd.Cancel = func() error { return b.cmd.Process.Signal(syscall.SIGTERM) }
	b.cmd.WaitDelay = 5 * time.Second
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us to pass on
	b.cmd.Stderr = &b.complain
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("virtual board: %w", err)
	}
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("virtual board: %w", err)
	}
	first := make(chan string, 1)
	go func() {
		defer close(b.ended)
		scanner := bufio.NewScanner(out)
		for n := 0; scanner.Scan(); n++ {
			if n == 0 {
				first <- scanner.Text()
				continue
			}
			b.mu.Lock()
			b.lines = append(b.lines, scanner.Text())
			b.mu.Unlock()
			if o.Log != nil {
				fmt.Fprintln(o.Log, scanner.Text())
			}
		}
		err := b.cmd.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if err != nil {
			b.exit = fmt.Errorf("virtual board: %w: %s", err, strings.TrimSpace(b.complain.String()+" "+strings.Join(b.lines, "; ")))
		}
	}()
	select {
	case line := <-first:
		var ok bool
		if b.Path, ok = strings.CutPrefix(line, "port "); !ok {
			return nil, errors.Join(fmt.Errorf("virtual board: got %q, want its port", line), b.Close())
		}
		return b, nil
	case <-b.ended:
		return nil, errors.Join(errors.New("virtual board: it ended at once"), b.exit)
	}
}

// Wait waits until the board has ended.
func (b *Board) Wait() error {
	<-b.ended
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exit
}

// Close ends the board; an error if its flash was used wrongly, or its golden image was touched.
func (b *Board) Close() error {
	b.once.Do(func() { b.cmd.Process.Signal(syscall.SIGTERM) }) // it may have ended: Wait says how
	return b.Wait()
}

// Lines are what it has printed so far; after Close its report is the last.
func (b *Board) Lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

var roundTrip = regexp.MustCompile(`^response of (\d+) bytes after ([0-9.]+) us of board time$`)

// RoundTrips are the board times from the first bit of each request to the last of its response, of a bench with
// --trace.
func (b *Board) RoundTrips() (times []time.Duration) {
	for _, line := range b.Lines() {
		if m := roundTrip.FindStringSubmatch(line); m != nil {
			if us, err := strconv.ParseFloat(m[2], 64); err == nil {
				times = append(times, time.Duration(us*1000))
			}
		}
	}
	return times
}

// Run builds and runs a virtual board, with network interfaces at its first ports, until ctx ends, and says on out where
// it is and, at the end, how it went.
func Run(ctx context.Context, root string, interfaces []string, out io.Writer) error {
	if len(interfaces) > Ports {
		return fmt.Errorf("virtual board: got %d interfaces, want at most %d, a port each", len(interfaces), Ports)
	}
	var args []string
	for _, name := range interfaces {
		if _, err := net.InterfaceByName(name); err != nil {
			return fmt.Errorf("virtual board: interface %q: %w (ip link lists them)", name, err)
		}
		args = append(args, "--ethernet", name)
	}
	program, err := Build(ctx, root)
	if err != nil {
		return err
	}
	b, err := Start(context.WithoutCancel(ctx), Options{Program: program, Args: args, Log: out})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "virtual board at %s, %d baud\n", b.Path, Baud)
	select {
	case <-ctx.Done():
		return errors.Join(b.Close(), ctx.Err())
	case <-b.ended:
		return errors.Join(errors.New("virtual board: it has ended by itself"), b.Wait())
	}
}
