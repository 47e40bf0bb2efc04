// Package bench measures how many frames a second package stream plays into a veth, against tcpreplay at top speed on the same
// veth: with nobody at the other end, and with all of them received and checked there. A veth hands a frame over in the system
// call that sends it, so what listens slows whoever sends.
package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/epic-inc/epic/driver/namespace"
	"github.com/epic-inc/epic/driver/stream"
	"github.com/epic-inc/epic/golden/capture"
)

// Options of Run.
type Options struct {
	Payloads []int   // bytes of the frames' payloads
	Frames   int     // of a run
	Rounds   int     // runs of each, in turn; the best are compared, for what disturbs a run only makes it slower
	MinRatio float64 // of our rate to tcpreplay's below which Run fails, where nobody receives; 0: none
	Seed     uint64
}

// Row is one payload, received and checked at the other end or not.
type Row struct {
	Payload   int     `json:"payload"`
	Received  bool    `json:"received"`
	Rate      float64 `json:"frames_per_second"` // sent
	Tcpreplay float64 `json:"tcpreplay_frames_per_second"`
	Ratio     float64 `json:"ratio"`
}

// Report is all rows.
type Report struct {
	Rows []Row `json:"rows"`
}

// WriteText writes a line a row.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "payload\treceived\tframes/s\ttcpreplay\tratio")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%d\t%v\t%.0f\t%.0f\t%.2f\n", row.Payload, row.Received, row.Rate, row.Tcpreplay, row.Ratio)
	}
	return t.Flush()
}

var (
	// ErrLimit says that a ratio was below MinRatio.
	ErrLimit = errors.New("slower than wanted")
	// ErrTool says that tcpreplay did not do what it is for.
	ErrTool = errors.New("tcpreplay")
)

const pass = 4096 // different frames

// Run measures. The report is whole also when a limit is not kept; a frame that does not come back as it was sent is
// stream.ErrLoss.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Frames < pass || o.Rounds < 1 {
		return nil, fmt.Errorf("got %d frames and %d rounds, want %d frames or more and 1 round or more", o.Frames, o.Rounds, pass)
	}
	if _, err := exec.LookPath("tcpreplay"); err != nil {
		return nil, fmt.Errorf("%w is not there: scripts/setup test installs it", ErrTool)
	}
	folder, err := os.MkdirTemp("", "epic-stream-")
	if err != nil {
		return nil, fmt.Errorf("folder for the capture: %w", err)
	}
	defer os.RemoveAll(folder)
	report := &Report{}
	for _, payload := range o.Payloads {
		rows, err := o.rows(ctx, payload, filepath.Join(folder, strconv.Itoa(payload)+".pcapng"))
		if err != nil {
			return nil, fmt.Errorf("payload %d: %w", payload, err)
		}
		report.Rows = append(report.Rows, rows...)
	}
	for _, row := range report.Rows {
		// Who receives wants a processor, and gets what others leave of it.
		if !row.Received && row.Ratio < o.MinRatio {
			err = errors.Join(err, fmt.Errorf("%w: payload %d: got %.2f of tcpreplay's frames a second, want %.2f or more", ErrLimit, row.Payload, row.Ratio, o.MinRatio))
		}
	}
	return report, err
}

func (o *Options) rows(ctx context.Context, payload int, file string) (rows []Row, err error) {
	frames, err := stream.Load{Payload: payload, Flows: 4, Frames: pass, Seed: o.Seed}.Make()
	if err != nil {
		return nil, err
	}
	if err := write(file, frames); err != nil {
		return nil, err
	}
	cable, err := NewCable()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cable.Close()) }()
	for _, receive := range []string{stream.Nowhere, cable.B} {
		options := stream.Options{Send: cable.A, Receive: receive, Frames: frames, Total: uint64(o.Frames / pass * pass)}
		var ours, theirs []float64
		for range o.Rounds {
			r, err := play(ctx, options)
			if err != nil {
				return nil, err
			}
			ours = append(ours, r.Rate)
			var rate float64
			other := options
			other.Other = func(ctx context.Context) (uint64, error) {
				rate, err = tcpreplay(ctx, cable, file, o.Frames/pass)
				return options.Total, err
			}
			if _, err := play(ctx, other); err != nil {
				return nil, err
			}
			theirs = append(theirs, rate)
		}
		row := Row{Payload: payload, Received: receive != stream.Nowhere, Rate: slices.Max(ours), Tcpreplay: slices.Max(theirs)}
		row.Ratio = row.Rate / row.Tcpreplay
		rows = append(rows, row)
	}
	return rows, nil
}

func play(ctx context.Context, o stream.Options) (*stream.Report, error) {
	r, err := stream.Run(ctx, o)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	if o.Receive == stream.Nowhere {
		return r, nil
	}
	return r, r.Err()
}

func write(file string, frames [][]byte) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	buffer := bufio.NewWriter(f)
	w := capture.NewWriter(buffer, "epic")
	for _, frame := range frames {
		if err = w.Write(endA, 0, frame); err != nil {
			break
		}
	}
	if err = errors.Join(err, w.Flush(), buffer.Flush(), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

var rated = regexp.MustCompile(`(?m)^Rated: .* ([0-9.]+) pps$`)

// tcpreplay is the frames a second that it says it sent.
func tcpreplay(ctx context.Context, c *Cable, file string, loops int) (float64, error) {
	cmd := exec.CommandContext(ctx, "tcpreplay", "--topspeed", "--preload-pcap", "--loop="+strconv.Itoa(loops), "--intf1="+endA, file)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := namespace.Inside(c.Namespace, cmd.Start); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrTool, err)
	}
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%w: %w: %s", ErrTool, err, out.String())
	}
	m := rated.FindSubmatch(out.Bytes())
	if m == nil {
		return 0, fmt.Errorf("%w: got no line \"Rated: ... pps\" from it:\n%s", ErrTool, out.String())
	}
	rate, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil || !(rate > 0) {
		return 0, fmt.Errorf("%w: got a rate of %q", ErrTool, m[1])
	}
	return rate, nil
}
