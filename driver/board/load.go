package board

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/epic-inc/epic/driver/bitstream"
	"github.com/epic-inc/epic/driver/device/uart"
	"github.com/epic-inc/epic/driver/device/uart/frame"
)

// Ways are how a bitstream gets into a board.
var Ways = []string{"uart", "openfpgaloader"}

// LoadOptions say what to load and how.
type LoadOptions struct {
	Where
	File   string // bitstream
	Via    string // one of Ways; "": uart
	Reload bool   // let the FPGA load it when it is there
	// JTAG: what openFPGALoader calls the board and, if it is not the board's own, the cable.
	JTAGBoard, JTAGCable string
	Progress             io.Writer // a bar for people; nil: none
}

// Loaded says what a load did.
type Loaded struct {
	File     string  `json:"file"`
	Via      string  `json:"via"`
	FPGA     string  `json:"fpga"`
	Bytes    int     `json:"bytes"`
	Kept     int     `json:"kept"`
	Written  int     `json:"written"`
	Seconds  float64 `json:"seconds"`
	Resent   int     `json:"resent"`
	Reloaded bool    `json:"reloaded"`
	// Note is what is left to do, or what came of the reload.
	Note string `json:"note,omitempty"`
}

// WriteText writes it for people.
func (l *Loaded) WriteText(w io.Writer) error {
	text := fmt.Sprintf("%s (%s): %d bytes", l.File, l.FPGA, l.Bytes)
	if l.Via == "uart" {
		text += fmt.Sprintf(", %d written and verified in %.1f s, %d were there", l.Written, l.Seconds, l.Kept)
		if l.Resent > 0 {
			text += fmt.Sprintf("; %d frames sent again", l.Resent)
		}
	}
	if l.Note != "" {
		text += "\n" + l.Note
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// Load loads a bitstream into the flash of a board: by the bridge as its user image, or by JTAG, with openFPGALoader, as
// its golden one. The file is checked before anything else.
func Load(ctx context.Context, o LoadOptions) (*Loaded, error) {
	if o.Via == "" {
		o.Via = Ways[0]
	}
	if !slices.Contains(Ways, o.Via) {
		return nil, fmt.Errorf("via: got %q, want one of %s", o.Via, strings.Join(Ways, ", "))
	}
	if o.Via == "uart" && o.JTAGBoard+o.JTAGCable != "" {
		return nil, errors.New("jtag-board and jtag-cable are for --via openfpgaloader")
	}
	image, err := bitstream.Load(o.File)
	if err != nil {
		return nil, err
	}
	l := &Loaded{File: o.File, Via: o.Via, FPGA: image.Device.Name, Bytes: len(image.Data)}
	if o.Via == "openfpgaloader" {
		err = l.byJTAG(ctx, o)
	} else {
		err = l.byUART(ctx, o, image)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Loaded) byUART(ctx context.Context, o LoadOptions, image *bitstream.Bitstream) (err error) {
	b, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	progress, end := bar(o.Progress)
	report, err := bitstream.Flash(ctx, bitstream.Target{Flash: b, DeviceID: b.Hello().DeviceID, UserBase: b.Hello().UserBase}, image, progress)
	end()
	if err != nil {
		return err
	}
	l.Kept, l.Written, l.Seconds, l.Resent = report.Kept, report.Written, report.Took.Seconds(), b.Resent()
	switch {
	case b.Hello().Features&frame.FeatureReload == 0:
		l.Note = "this board does not wire PROGRAMN to the FPGA: power-cycle it; it comes up with its golden image, which loads this one"
	case !o.Reload:
		l.Note = "the FPGA goes on with what it has; --reload makes it load this image"
	default:
		return l.reload(ctx, b)
	}
	return nil
}

// up is how long an FPGA may take to load itself: 2 MB at the slowest clock of an ECP5, 2.4 MHz, by one wire.
const up = 8 * time.Second

// reload makes the FPGA load itself and waits until a bridge answers again.
func (l *Loaded) reload(ctx context.Context, b *uart.Board) error {
	if err := b.Reload(ctx); err != nil {
		return err
	}
	l.Reloaded = true
	begin := time.Now()
	for {
		_, err := b.FlashID(ctx)
		switch {
		case err == nil:
			l.Note = fmt.Sprintf("the FPGA has loaded it: its bridge answers, %s, clock %g MHz", frame.Board(b.Hello().Board), float64(b.Hello().ClockHz)/1e6)
			return nil
		case !uart.Lost(err):
			return err
		case time.Since(begin) > up:
			l.Note = ""
			return fmt.Errorf("the FPGA was told to load the image and no bridge answers: the image has none, or it does not run; "+
				"power-cycle the board, and it comes up with its golden image: %w", err)
		}
	}
}

// bar returns a progress that is a bar on w for each step, and what ends the last one.
func bar(w io.Writer) (bitstream.Progress, func()) {
	if w == nil {
		return func(bitstream.Step, int, int) {}, func() {}
	}
	var now *progressbar.ProgressBar
	var step bitstream.Step
	end := func() {
		if now != nil {
			now.Exit() // leaves it as far as it has come
			fmt.Fprintln(w)
		}
		now = nil
	}
	return func(s bitstream.Step, done, total int) {
		if total == 0 {
			return
		}
		if now == nil || s != step {
			end()
			step = s
			now = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(true),
				progressbar.OptionSetDescription(fmt.Sprintf("%-8s", s)), progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionSetWidth(30), progressbar.OptionFullWidth())
		}
		now.Set(done)
	}, end
}

// byJTAG writes the file to the beginning of the flash with openFPGALoader.
func (l *Loaded) byJTAG(ctx context.Context, o LoadOptions) error {
	if o.JTAGBoard == "" {
		return errors.New("jtag-board: got none, want what openFPGALoader calls the board (openFPGALoader --list-boards)")
	}
	tool, err := exec.LookPath("openFPGALoader")
	if err != nil {
		return errors.New("openFPGALoader is not on PATH: scripts/setup board installs it")
	}
	args := []string{"--board", o.JTAGBoard}
	if o.JTAGCable != "" {
		args = append(args, "--cable", o.JTAGCable)
	}
	cmd := exec.CommandContext(ctx, tool, append(args, "--write-flash", "--verify", o.File)...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if o.Progress != nil {
		cmd.Stdout = io.MultiWriter(&said, o.Progress)
		cmd.Stderr = cmd.Stdout
	}
	// A program that has begun a command of the flash ends it when it is asked to end.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Second
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("%w: %w: %s", ErrTool, err, lines[len(lines)-1])
	}
	l.Written, l.Seconds = l.Bytes, time.Since(begin).Seconds()
	l.Note = "openFPGALoader wrote it to the beginning of the flash, as the golden image; power-cycle the board if it does not run"
	return nil
}

// ErrTool: openFPGALoader has failed.
var ErrTool = errors.New("openFPGALoader failed")
