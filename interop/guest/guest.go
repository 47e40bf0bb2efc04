// Package guest boots virtual machines with Linux's own RoCE stack (rdma_rxe), which scripts/interop-image makes
// out of Debian packages, and runs programs in them.
//
// A guest's network card is a pair of Unix datagram sockets: one datagram is one Ethernet frame, without FCS.
// Such sockets lose nothing and keep the order, so whatever a wire does to a frame, the caller did.
package guest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/epic-inc/epic/golden/roce"
)

// ErrLost means that a guest is gone, or does not answer.
var ErrLost = errors.New("the guest is lost")

// ImageFolder is where scripts/interop-image puts the guest, below the project's folder.
const ImageFolder = ".tools/interop"

// MTU of the guests' interface, in bytes: a packet of path MTU 4096 with the longest headers, in IPv6.
const MTU = 4300

const (
	memoryMB   = 256
	aliveWait  = 20 * time.Second  // from the start to the first word of a guest with hardware's help
	bootWait   = 480 * time.Second // from the start to ready: seconds, but much more on a machine that does other things
	offWait    = 3 * time.Second
	tailBytes  = 4 << 10
	sunPathMax = 107 // longest path of a Unix socket
	frameMost  = 1 << 14
)

// Accel says who executes a guest's instructions.
type Accel string

// The accelerators of QEMU.
const (
	KVM Accel = "kvm" // the processor
	TCG Accel = "tcg" // QEMU, ten to twenty times slower
)

// Options of a guest.
type Options struct {
	Image string // folder with vmlinuz and initrd.gz; empty: ImageFolder
	Name  string // for messages
	MAC   roce.MAC
	IPs   []netip.Prefix // an IPv4 and an IPv6 address with the length of its network's prefix
	Accel Accel          // empty: TCG
}

// Guest is a running machine. Its methods may be used by several goroutines.
type Guest struct {
	o    Options
	dir  string // of the sockets, and of the folder that the guest sees as /host
	cmd  *exec.Cmd
	out  *bytes.Buffer // QEMU's own words; read after exited
	nic  *net.UnixConn
	far  *net.UnixAddr
	line net.Conn // the second serial port
	lead string   // the kernel's release

	exited  chan struct{}
	waitErr error

	mu    sync.Mutex
	jobs  map[string]*Job // until the guest says how they ended
	next  int
	said  map[string]bool
	heard chan struct{} // closed and made anew with every line
	fault error         // what the guest says has failed at boot
}

// Boot starts a guest. Alive or Ready wait for it. Close ends it, and is needed after every successful Boot.
func Boot(o Options) (_ *Guest, err error) {
	if o.Image == "" {
		o.Image = ImageFolder
	}
	if o.Accel == "" {
		o.Accel = TCG
	}
	kernel, initrd := filepath.Join(o.Image, "vmlinuz"), filepath.Join(o.Image, "initrd.gz")
	for _, f := range []string{kernel, initrd} {
		if _, err := os.Stat(f); err != nil {
			return nil, fmt.Errorf("guest %s: %w (scripts/setup interop makes it)", o.Name, err)
		}
	}
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return nil, fmt.Errorf("guest %s: %w (scripts/setup interop installs it)", o.Name, err)
	}
	g := &Guest{o: o, out: &bytes.Buffer{}, exited: make(chan struct{}), jobs: map[string]*Job{}, said: map[string]bool{}, heard: make(chan struct{})}
	if g.dir, err = os.MkdirTemp("", "epic-guest-"); err != nil {
		return nil, fmt.Errorf("guest %s: %w", o.Name, err)
	}
	defer func() {
		if err != nil {
			_ = g.Close()
			err = fmt.Errorf("guest %s: %w", o.Name, err)
		}
	}()
	if len(g.path("console")) > sunPathMax {
		return g, fmt.Errorf("the path %s of a socket is longer than %d bytes; set TMPDIR to a shorter folder", g.path("console"), sunPathMax)
	}
	if err := os.Mkdir(g.Folder(), 0o777); err != nil {
		return g, err
	}
	if g.nic, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: g.path("wire"), Net: "unixgram"}); err != nil {
		return g, err
	}
	g.far = &net.UnixAddr{Name: g.path("nic"), Net: "unixgram"}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: g.path("line"), Net: "unix"})
	if err != nil {
		return g, err
	}
	defer listener.Close()
	g.cmd = exec.Command(qemu, g.arguments(kernel, initrd)...)
	g.cmd.Stdout, g.cmd.Stderr = g.out, g.out
	// A group of its own, so that an interrupt at the terminal reaches this process alone; and its end with ours.
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := g.cmd.Start(); err != nil {
		g.cmd = nil
		return g, err
	}
	go func() {
		g.waitErr = g.cmd.Wait()
		close(g.exited)
		_ = listener.Close()
	}()
	_ = listener.SetDeadline(time.Now().Add(offWait * 5))
	if g.line, err = listener.Accept(); err != nil {
		select {
		case <-g.exited:
			return g, g.lost()
		default:
			return g, fmt.Errorf("%w: QEMU does not connect: %w", ErrLost, err)
		}
	}
	go g.listen()
	return g, nil
}

func (g *Guest) path(name string) string { return filepath.Join(g.dir, name) }

// Folder is the folder of the host that the guest sees as /host.
func (g *Guest) Folder() string { return g.path("host") }

// Name is that of Options.
func (g *Guest) Name() string { return g.o.Name }

// Kernel is the release of the guest's kernel, once it is ready.
func (g *Guest) Kernel() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lead
}

func (g *Guest) arguments(kernel, initrd string) []string {
	words := []string{"console=ttyS0", "quiet", "panic=-1", "mitigations=off", "nokaslr", "no_timer_check", "random.trust_cpu=on", "mtu=" + strconv.Itoa(MTU)}
	for _, p := range g.o.IPs {
		family := "ip6="
		if p.Addr().Is4() {
			family = "ip4="
		}
		words = append(words, family+p.String())
	}
	cpu := "host"
	if g.o.Accel == TCG {
		// A busy machine lets the kernel measure the processor's own clock wrongly, by several times: its timers then
		// run out early.
		cpu, words = "max", append(words, "tsc=unstable", "clocksource=hpet")
	}
	return []string{
		"-M", "q35", "-accel", string(g.o.Accel), "-cpu", cpu, "-m", strconv.Itoa(memoryMB), "-smp", "1", "-nodefaults", "-no-user-config",
		"-display", "none", "-no-reboot", "-kernel", kernel, "-initrd", initrd, "-append", strings.Join(words, " "),
		"-chardev", "file,id=console,path=" + g.path("console"), "-serial", "chardev:console",
		"-chardev", "socket,id=line,path=" + g.path("line"), "-serial", "chardev:line",
		"-fsdev", "local,id=host,path=" + g.Folder() + ",security_model=none", "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
		"-netdev", "dgram,id=nic,local.type=unix,local.path=" + g.path("nic") + ",remote.type=unix,remote.path=" + g.path("wire"),
		"-device", fmt.Sprintf("virtio-net-pci,netdev=nic,mac=%v,host_mtu=%d,romfile=", g.o.MAC, MTU),
	}
}

// listen takes the guest's lines until it is gone.
func (g *Guest) listen() {
	lines := bufio.NewScanner(g.line)
	for lines.Scan() {
		words := strings.Fields(strings.TrimSpace(lines.Text()))
		if len(words) == 0 {
			continue
		}
		g.mu.Lock()
		g.said[words[0]] = true
		switch words[0] {
		case "ready":
			g.lead = strings.Join(words[1:], " ")
		case "fail":
			if g.fault == nil {
				g.fault = fmt.Errorf("it says: %s failed", strings.Join(words[1:], " "))
			}
		case "done":
			if len(words) == 3 {
				status, err := strconv.Atoi(words[2])
				if j := g.jobs[words[1]]; j != nil && err == nil {
					delete(g.jobs, words[1])
					j.status = status
					close(j.ended)
				}
			}
		}
		close(g.heard)
		g.heard = make(chan struct{})
		g.mu.Unlock()
	}
}

// await waits until the guest has said a word.
func (g *Guest) await(ctx context.Context, word string, most time.Duration) error {
	timeout := time.NewTimer(most)
	defer timeout.Stop()
	for {
		g.mu.Lock()
		said, fault, heard := g.said[word], g.fault, g.heard
		g.mu.Unlock()
		switch {
		case fault != nil:
			return fmt.Errorf("guest %s: %w", g.o.Name, fault)
		case said:
			return nil
		}
		select {
		case <-heard:
		case <-g.exited:
			return fmt.Errorf("guest %s: %w", g.o.Name, g.lost())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return fmt.Errorf("guest %s: %w: it has not said %q within %v: %s", g.o.Name, ErrLost, word, most, g.console())
		}
	}
}

// Ready waits until the guest takes jobs.
func (g *Guest) Ready(ctx context.Context) error { return g.await(ctx, "ready", bootWait) }

// Alive waits for the guest's first word, which a guest that KVM runs says within seconds, if KVM works at all.
func (g *Guest) Alive(ctx context.Context) error { return g.await(ctx, "alive", aliveWait) }

// lost says how QEMU ended.
func (g *Guest) lost() error {
	how := "QEMU ended with exit status 0"
	if g.waitErr != nil {
		how = "QEMU ended: " + g.waitErr.Error()
	}
	return fmt.Errorf("%w: %s: %s %s", ErrLost, how, strings.TrimSpace(g.out.String()), g.console())
}

// console is the end of what the kernel has written.
func (g *Guest) console() string {
	b, err := os.ReadFile(g.path("console"))
	if err != nil {
		return ""
	}
	return "console: " + strings.TrimSpace(string(b[max(0, len(b)-tailBytes):]))
}

// Result is how a job ended.
type Result struct {
	Status         int // exit status; 137 if it was killed
	Stdout, Stderr string
}

// Job is a script that runs in the guest.
type Job struct {
	g      *Guest
	id     string
	ended  chan struct{}
	over   chan struct{} // ended, or its guest gone
	status int           // once it has ended
}

// Start runs a shell script in the guest, in a folder of its own: Job.Folder here, Job.Inside there.
func (g *Guest) Start(script func(j *Job) (string, error)) (*Job, error) {
	g.mu.Lock()
	g.next++
	j := &Job{g: g, id: strconv.Itoa(g.next), ended: make(chan struct{}), over: make(chan struct{})}
	g.jobs[j.id] = j
	g.mu.Unlock()
	go func() {
		select {
		case <-j.ended:
		case <-g.exited:
		}
		close(j.over)
	}()
	err := os.Mkdir(j.Folder(), 0o777)
	var text string
	if err == nil {
		text, err = script(j)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(j.Folder(), "script"), []byte(text), 0o644)
	}
	if err == nil {
		err = g.write("run " + j.id)
	}
	if err != nil {
		return nil, fmt.Errorf("guest %s: start a job: %w", g.o.Name, err)
	}
	return j, nil
}

func (g *Guest) write(line string) error {
	_, err := io.WriteString(g.line, line+"\n")
	return err
}

// Folder is the job's folder on the host; Remove removes it.
func (j *Job) Folder() string { return filepath.Join(j.g.Folder(), j.id) }

// Inside is the job's folder as the guest sees it.
func (j *Job) Inside() string { return "/host/" + j.id }

// Kill ends the job and what it started.
func (j *Job) Kill() error { return j.g.write("kill " + j.id) }

// Ended says that the job has, or that its guest is gone; Wait does not wait then.
func (j *Job) Ended() bool {
	select {
	case <-j.Over():
		return true
	default:
		return false
	}
}

// Over is closed once Ended.
func (j *Job) Over() <-chan struct{} { return j.over }

// Wait waits until the job has ended, or kills it when ctx ends.
func (j *Job) Wait(ctx context.Context) (Result, error) {
	select {
	case <-j.ended:
		r := Result{Status: j.status}
		for name, to := range map[string]*string{"stdout": &r.Stdout, "stderr": &r.Stderr} {
			b, err := os.ReadFile(filepath.Join(j.Folder(), name))
			if err != nil {
				return r, fmt.Errorf("guest %s: %w", j.g.o.Name, err)
			}
			*to = string(b)
		}
		return r, nil
	case <-j.g.exited:
		return Result{}, fmt.Errorf("guest %s: %w", j.g.o.Name, j.g.lost())
	case <-ctx.Done():
		_ = j.Kill()
		return Result{}, context.Cause(ctx)
	}
}

// Remove removes the job's folder.
func (j *Job) Remove() error { return os.RemoveAll(j.Folder()) }

// Run runs a script to its end.
func (g *Guest) Run(ctx context.Context, script string) (Result, error) {
	j, err := g.Start(func(*Job) (string, error) { return script, nil })
	if err != nil {
		return Result{}, err
	}
	r, err := j.Wait(ctx)
	return r, errors.Join(err, j.Remove())
}

// Receive waits for the next frame that the guest sends, until Close.
func (g *Guest) Receive() ([]byte, error) {
	frame := make([]byte, frameMost)
	n, err := g.nic.Read(frame)
	if err != nil {
		return nil, fmt.Errorf("guest %s: receive a frame: %w", g.o.Name, err)
	}
	return frame[:n:n], nil
}

// Send hands the guest a frame; it waits while the guest is slow to take it, for at most five seconds.
func (g *Guest) Send(frame []byte) error {
	_ = g.nic.SetWriteDeadline(time.Now().Add(5 * time.Second))
	if _, err := g.nic.WriteToUnix(frame, g.far); err != nil {
		return fmt.Errorf("guest %s: send a frame: %w", g.o.Name, err)
	}
	return nil
}

// Close ends the guest and removes its files.
func (g *Guest) Close() error {
	if g.cmd != nil {
		if g.line != nil {
			_ = g.write("off")
		}
		select {
		case <-g.exited:
		case <-time.After(offWait):
			_ = g.cmd.Process.Kill()
			<-g.exited
		}
	}
	if g.line != nil {
		_ = g.line.Close()
	}
	if g.nic != nil {
		_ = g.nic.Close()
	}
	return os.RemoveAll(g.dir)
}
