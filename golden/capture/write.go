package capture

import (
	"fmt"
	"io"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// Writer writes frames as pcapng, with times in ns. Nothing is written before the first interface is named.
type Writer struct {
	out         io.Writer
	application string
	w           *pcapgo.NgWriter
	interfaces  map[string]int
}

// NewWriter returns a writer that says in the file which program wrote it.
func NewWriter(out io.Writer, application string) *Writer {
	return &Writer{out: out, application: application, interfaces: map[string]int{}}
}

// Interface names an interface of the file, if there is none of that name.
func (w *Writer) Interface(name string) error {
	if _, known := w.interfaces[name]; known {
		return nil
	}
	one := pcapgo.NgInterface{Name: name, LinkType: layers.LinkTypeEthernet, TimestampResolution: 9}
	n, err := 0, error(nil)
	if w.w == nil {
		w.w, err = pcapgo.NewNgWriterInterface(w.out, one, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: w.application}})
	} else {
		n, err = w.w.AddInterface(one)
	}
	if err != nil {
		return fmt.Errorf("write pcapng: interface %s: %w", name, err)
	}
	w.interfaces[name] = n
	return nil
}

// Write adds a frame, seen at an interface so long after the start.
func (w *Writer) Write(name string, at time.Duration, frame []byte) error {
	if err := w.Interface(name); err != nil {
		return err
	}
	info := gopacket.CaptureInfo{Timestamp: time.Unix(0, int64(at)).UTC(), CaptureLength: len(frame), Length: len(frame),
		InterfaceIndex: w.interfaces[name]}
	if err := w.w.WritePacket(info, frame); err != nil {
		return fmt.Errorf("write pcapng: %w", err)
	}
	return nil
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	if w.w == nil {
		return nil
	}
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("write pcapng: %w", err)
	}
	return nil
}
