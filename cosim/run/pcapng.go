package run

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/scoreboard"
)

// pcapng writes frames at the engine's ports: one interface a stream, the time of a frame that of its
// first beat (in: that of its being due).
type pcapng struct {
	file   *os.File
	buffer *bufio.Writer
	writer *pcapgo.NgWriter
	period float64 // ns of a clock
}

func createPcapng(path string, clockMHz float64) (*pcapng, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write capture: %w", err)
	}
	p := &pcapng{file: file, buffer: bufio.NewWriterSize(file, 1<<20), period: 1000 / clockMHz}
	for i, name := range []string{"s_axis_rx", "m_axis_tx", "m_axis_bypass"} {
		intf := pcapgo.NgInterface{Name: name, LinkType: layers.LinkTypeEthernet, TimestampResolution: 9}
		if i == 0 {
			p.writer, err = pcapgo.NewNgWriterInterface(p.buffer, intf, pcapgo.NgWriterOptions{
				SectionInfo: pcapgo.NgSectionInfo{Application: "epic"}})
		} else {
			_, err = p.writer.AddInterface(intf)
		}
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("write capture %s: %w", path, err)
		}
	}
	return p, nil
}

func (p *pcapng) write(f *scoreboard.Frame) error {
	intf := 0
	switch f.Stream {
	case link.StreamTx:
		intf = 1
	case link.StreamBypass:
		intf = 2
	}
	ci := gopacket.CaptureInfo{Timestamp: time.Unix(0, int64(float64(f.Clock)*p.period)).UTC(),
		CaptureLength: len(f.Bytes), Length: len(f.Bytes), InterfaceIndex: intf}
	if err := p.writer.WritePacket(ci, f.Bytes); err != nil {
		return fmt.Errorf("write capture %s: %w", p.file.Name(), err)
	}
	return nil
}

func (p *pcapng) close() error {
	err := errors.Join(p.writer.Flush(), p.buffer.Flush(), p.file.Close())
	if err != nil {
		return fmt.Errorf("write capture %s: %w", p.file.Name(), err)
	}
	return nil
}
