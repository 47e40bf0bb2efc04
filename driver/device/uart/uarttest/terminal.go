package uarttest

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo terminal: a serial port for a program that opens its Path, and its other end.
type Terminal struct {
	*os.File // the other end; reads and writes end at Close
	Path     string
	slave    *os.File // kept open, so that the other end goes on when a program closes the port
}

// OpenTerminal makes one.
func OpenTerminal() (*Terminal, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("pseudo terminal: %w", err)
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		master.Close()
		return nil, fmt.Errorf("pseudo terminal: %w", err)
	}
	t := &Terminal{File: master, Path: fmt.Sprintf("/dev/pts/%d", n)}
	if t.slave, err = os.OpenFile(t.Path, unix.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		master.Close()
		return nil, fmt.Errorf("pseudo terminal: %w", err)
	}
	// No echo, no line editing, before a program sets its own.
	raw := unix.Termios{Cflag: unix.CREAD | unix.CLOCAL | unix.CS8 | unix.B9600}
	raw.Cc[unix.VMIN] = 1
	if err := unix.IoctlSetTermios(int(t.slave.Fd()), unix.TCSETS, &raw); err != nil {
		t.Close()
		return nil, fmt.Errorf("pseudo terminal: %w", err)
	}
	return t, nil
}

// rates of termios, as far as a model has them.
var rates = map[uint32]int{
	unix.B9600: 9600, unix.B19200: 19200, unix.B38400: 38400, unix.B57600: 57600, unix.B115200: 115200,
	unix.B230400: 230400, unix.B460800: 460800, unix.B500000: 500000, unix.B576000: 576000, unix.B921600: 921600,
	unix.B1000000: 1000000, unix.B1152000: 1152000, unix.B1500000: 1500000, unix.B2000000: 2000000,
	unix.B2500000: 2500000, unix.B3000000: 3000000, unix.B3500000: 3500000, unix.B4000000: 4000000,
}

// Baud is what the program at the port has set.
func (t *Terminal) Baud() (int, error) {
	raw, err := t.slave.SyscallConn() // Fd is not for one that may be closed meanwhile
	var s *unix.Termios
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) { s, failed = unix.IoctlGetTermios(int(fd), unix.TCGETS) })
		err = errors.Join(err, failed)
	}
	if err != nil {
		return 0, fmt.Errorf("pseudo terminal: %w", err)
	}
	return rates[s.Cflag&unix.CBAUD], nil
}

// readNow reads what is there; 0 bytes if nothing is.
func (t *Terminal) readNow(b []byte) (n int, err error) {
	raw, err := t.SyscallConn()
	if err != nil {
		return 0, err
	}
	var got error
	err = raw.Read(func(fd uintptr) bool {
		n, got = unix.Read(int(fd), b)
		return true
	})
	if errors.Is(got, unix.EAGAIN) || errors.Is(got, unix.EINTR) {
		return 0, err
	}
	return max(0, n), errors.Join(err, got)
}

// Close unplugs it: whoever has the port open finds it gone.
func (t *Terminal) Close() error {
	if t.slave != nil {
		t.slave.Close()
	}
	return t.File.Close()
}
