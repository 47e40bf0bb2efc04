package interop

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/epic-inc/epic/golden/roce"
)

// tape writes RoCE frames as pcap, in microseconds, as the captures of testdata are. What else a guest says is left
// out. A nil tape takes nothing.
type tape struct {
	file *os.File
	buf  *bufio.Writer
	out  *pcapgo.Writer
}

func record(path string) (*tape, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	t := &tape{file: f, buf: bufio.NewWriter(f)}
	t.out = pcapgo.NewWriter(t.buf)
	if err := t.out.WriteFileHeader(1<<16-1, layers.LinkTypeEthernet); err != nil {
		return nil, fmt.Errorf("capture: %w", errors.Join(err, f.Close()))
	}
	return t, nil
}

func (t *tape) add(frame []byte) error {
	if t == nil {
		return nil
	}
	if _, other := roce.Decode(frame); other != nil {
		return nil
	}
	info := gopacket.CaptureInfo{Timestamp: time.Now(), CaptureLength: len(frame), Length: len(frame)}
	if err := t.out.WritePacket(info, frame); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}

func (t *tape) close() error {
	if err := errors.Join(t.buf.Flush(), t.file.Close()); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}
