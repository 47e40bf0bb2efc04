package uart

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tarm/serial"

	"github.com/epic-inc/epic/driver/device/uart/uarttest"
)

func terminal(t *testing.T) *uarttest.Terminal {
	t.Helper()
	tty, err := uarttest.OpenTerminal()
	require.NoError(t, err)
	t.Cleanup(func() { tty.Close() })
	return tty
}

// What port hides is there: when one of these fails, the library has changed and port.go has to.
func TestQuirksOfTheLibrary(t *testing.T) {
	tty := terminal(t)
	_, err := serial.OpenPort(&serial.Config{Name: tty.Path, Baud: 250000})
	assert.EqualError(t, err, "Unrecognized baud rate")

	line, err := serial.OpenPort(&serial.Config{Name: tty.Path, Baud: 9600, ReadTimeout: time.Millisecond})
	require.NoError(t, err)
	begin := time.Now()
	n, err := line.Read(make([]byte, 10))
	assert.Zero(t, n)
	assert.Equal(t, io.EOF, err)
	assert.GreaterOrEqual(t, time.Since(begin), 90*time.Millisecond, "a timeout of 1 ms takes 100")

	other, err := serial.OpenPort(&serial.Config{Name: tty.Path, Baud: 9600})
	require.NoError(t, err, "a second one may open it")
	ended := make(chan struct{})
	go func() {
		other.Read(make([]byte, 1))
		close(ended)
	}()
	time.Sleep(50 * time.Millisecond)
	go other.Close()
	select {
	case <-ended:
		t.Error("Close ends a Read")
	case <-time.After(200 * time.Millisecond):
	}
	_, err = tty.Write([]byte("x")) // which ends it
	require.NoError(t, err)
	<-ended
	require.NoError(t, line.Close())
}

func TestPort(t *testing.T) {
	tty := terminal(t)
	p, err := openPort(tty.Path, 115200)
	require.NoError(t, err)
	baud, err := tty.Baud()
	require.NoError(t, err)
	assert.Equal(t, 115200, baud)

	begin := time.Now()
	n, err := p.read(make([]byte, 10))
	assert.NoError(t, err, "a timeout is no error")
	assert.Zero(t, n)
	assert.Less(t, time.Since(begin), 2*tick)

	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	require.NoError(t, p.write(all, time.Second))
	got := make([]byte, 256)
	_, err = io.ReadFull(tty, got)
	require.NoError(t, err)
	assert.Equal(t, all, got, "every byte passes as it is, to the board")
	_, err = tty.Write(all)
	require.NoError(t, err)
	for n := 0; n < 256; {
		m, err := p.read(got[n:])
		require.NoError(t, err)
		n += m
	}
	assert.Equal(t, all, got, "and from it")

	// Nobody reads: write says so rather than wait for good.
	begin = time.Now()
	for err = nil; err == nil; {
		err = p.write(all, 200*time.Millisecond)
	}
	assert.EqualError(t, err, "the port takes no more bytes")
	assert.Less(t, time.Since(begin), time.Second)

	_, err = openPort(tty.Path, 115200)
	assert.ErrorContains(t, err, "is busy")
	require.NoError(t, tty.Close())
	for err = nil; err == nil; { // what ends this test if it never says so is its limit
		_, err = p.read(got)
	}
	assert.ErrorIs(t, err, errGone)
	require.NoError(t, p.close())
}

// hungUp says end of file at once, as a port does whose adapter was pulled out.
type hungUp struct{ reads int }

func (h *hungUp) Read([]byte) (int, error)    { h.reads++; return 0, io.EOF }
func (h *hungUp) Write(b []byte) (int, error) { return 0, errors.New("input/output error") }
func (h *hungUp) Close() error                { return nil }

func TestHungUp(t *testing.T) {
	h := &hungUp{}
	p := &port{line: h}
	var err error
	for err == nil && h.reads < 100 {
		_, err = p.read(make([]byte, 10))
	}
	assert.ErrorIs(t, err, errGone)
	assert.LessOrEqual(t, h.reads, 5, "it does not spin")
}
