package uart

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/tarm/serial"
	"golang.org/x/sys/unix"
)

// Rates are the baud rates that a port can have, the slowest first: those of Linux from 9600 on.
var Rates = []int{
	9600, 19200, 38400, 57600, 115200, 230400, 460800, 500000, 576000, 921600,
	1000000, 1152000, 1500000, 2000000, 2500000, 3000000, 3500000, 4000000,
}

// tick is the shortest timeout of a read: termios counts in tenths of a second, and so does tarm/serial.
const tick = 100 * time.Millisecond

// port is a serial port, 8N1 without flow control. tarm/serial sets it up; what is odd about it ends here:
//   - a read that times out says 0, io.EOF: read says 0, nil. But a port that has gone says the same, at once and for
//     ever: read knows that by the time, and says errGone rather than let its caller spin.
//   - Close does not unblock a Read: whoever closes waits for the read to time out first, at most a tick.
//   - a Write blocks for good if nobody takes the bytes: write asks first whether there is room.
//   - it refuses a baud rate without saying which there are.
//   - it opens a port that another program has open: the lock on it keeps out whoever asks for one too.
type port struct {
	line io.ReadWriteCloser
	lock *os.File // the same device, opened apart: holds the lock, and is what poll asks
	path string

	early int // reads in a row that said io.EOF without having waited
}

// errGone is what a port says that is no longer there.
var errGone = errors.New("the port has gone: unplugged?")

func openPort(path string, baud int) (*port, error) {
	if !slices.Contains(Rates, baud) {
		return nil, fmt.Errorf("baud rate: got %d, want one of %v", baud, Rates)
	}
	lock, err := os.OpenFile(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, whyNot(path, err)
	}
	fail := func(err error) (*port, error) { return nil, errors.Join(err, lock.Close()) }
	if _, err := unix.IoctlGetTermios(int(lock.Fd()), unix.TCGETS); err != nil {
		return fail(fmt.Errorf("%s is not a serial port", path))
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fail(whyNot(path, err))
	}
	line, err := serial.OpenPort(&serial.Config{Name: path, Baud: baud, ReadTimeout: tick})
	if err != nil {
		return fail(whyNot(path, err))
	}
	if err := line.Flush(); err != nil { // what was left for somebody else
		return nil, errors.Join(fmt.Errorf("serial port %s: flush: %w", path, err), line.Close(), lock.Close())
	}
	return &port{line: line, lock: lock, path: path}, nil
}

// whyNot says what a person can do about a port that cannot be opened.
func whyNot(path string, err error) error {
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("serial port %s is busy: another program has it open (fuser %s says which)", path, path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("serial port %s: permission denied: be in the group that owns it (ls -l %s)", path, path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("serial port %s: there is none of this name (epic board list shows those there are)", path)
	}
	return fmt.Errorf("serial port %s: %w", path, err)
}

// read returns what has come, and waits a tick at most: 0, nil if nothing has.
func (p *port) read(b []byte) (int, error) {
	start := time.Now()
	n, err := p.line.Read(b)
	switch {
	case err == nil:
		p.early = 0
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, fmt.Errorf("%w (%w)", errGone, err)
	case time.Since(start) >= tick/2:
		p.early = 0
		return n, nil
	}
	// A signal may cut one wait short; several in a row are a port that hung up.
	if p.early++; p.early > 3 {
		return n, errGone
	}
	return n, nil
}

// write sends b, or says why not: within the time, if nobody takes it.
func (p *port) write(b []byte, timeout time.Duration) error {
	end := time.Now().Add(timeout)
	for {
		fds := []unix.PollFd{{Fd: int32(p.lock.Fd()), Events: unix.POLLOUT}}
		_, err := unix.Poll(fds, int(max(0, time.Until(end)).Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("serial port %s: poll: %w", p.path, err)
		}
		if fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			return errGone
		}
		if fds[0].Revents&unix.POLLOUT == 0 {
			return errors.New("the port takes no more bytes")
		}
		break
	}
	if _, err := p.line.Write(b); err != nil {
		return fmt.Errorf("%w (%w)", errGone, err)
	}
	return nil
}

// close must not be called while a read is under way.
func (p *port) close() error { return errors.Join(p.line.Close(), p.lock.Close()) }
