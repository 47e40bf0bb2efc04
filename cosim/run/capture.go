package run

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/scoreboard"
	"github.com/epic-inc/epic/golden/capture"
)

// recording writes frames at an engine's ports: one interface a stream, the time of a frame that of its
// first beat (in: that of its being due).
type recording struct {
	file   *os.File
	buffer *bufio.Writer
	writer *capture.Writer
	period float64 // ns of a clock
}

var streamNames = map[int]string{scoreboard.In: "s_axis_rx", link.StreamTx: "m_axis_tx", link.StreamBypass: "m_axis_bypass"}

func createRecording(path string, clockMHz float64) (*recording, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write capture: %w", err)
	}
	r := &recording{file: file, buffer: bufio.NewWriterSize(file, 1<<20), period: 1000 / clockMHz}
	r.writer = capture.NewWriter(r.buffer, "epic")
	for _, stream := range []int{scoreboard.In, link.StreamTx, link.StreamBypass} {
		if err := r.writer.Interface(streamNames[stream]); err != nil {
			return nil, errors.Join(r.named(err), file.Close())
		}
	}
	return r, nil
}

func (r *recording) write(f *scoreboard.Frame) error {
	return r.named(r.writer.Write(streamNames[f.Stream], time.Duration(float64(f.Clock)*r.period), f.Bytes))
}

func (r *recording) close() error {
	return r.named(errors.Join(r.writer.Flush(), r.buffer.Flush(), r.file.Close()))
}

func (r *recording) named(err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", r.file.Name(), err)
	}
	return nil
}
