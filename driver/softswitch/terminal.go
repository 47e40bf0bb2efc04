package softswitch

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/term"
)

// The times between two looks at the counters, on a terminal and elsewhere.
const (
	terminalEvery = time.Second
	linesEvery    = 10 * time.Second
)

// Show keeps the counters of switches on a terminal until ctx ends. Where out is none it writes a line for each switch
// and 10 seconds in which something moved.
func Show(ctx context.Context, out io.Writer, switches ...*Switch) error {
	if f, ok := out.(*os.File); ok && term.IsTerminal(f.Fd()) {
		// Without input: Ctrl-C stays a signal of whoever runs the switch.
		_, err := tea.NewProgram(newScreen(switches), tea.WithContext(ctx), tea.WithOutput(out), tea.WithInput(nil), tea.WithoutSignalHandler()).Run()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("terminal: %w", err)
		}
		return nil
	}
	v := newView(switches)
	ticker := time.NewTicker(linesEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		v.look()
		if _, err := io.WriteString(out, v.lines()); err != nil {
			return fmt.Errorf("counters: %w", err)
		}
	}
}

// screen is the view as bubbletea has it.
type screen struct{ *view }

type tick struct{}

func newScreen(switches []*Switch) screen { return screen{newView(switches)} }

func (s screen) Init() tea.Cmd { return s.next() }

func (s screen) next() tea.Cmd {
	return tea.Tick(terminalEvery, func(time.Time) tea.Msg { return tick{} })
}

func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if _, ok := msg.(tick); ok {
		s.look()
		return s, s.next()
	}
	return s, nil
}

func (s screen) View() string { return s.table() }

// view is two looks at the counters, for rates.
type view struct {
	switches    []*Switch
	before, now []State
}

func newView(switches []*Switch) *view {
	v := &view{switches: switches}
	v.look()
	v.before = v.now
	return v
}

func (v *view) look() {
	v.before, v.now = v.now, nil
	for _, s := range v.switches {
		v.now = append(v.now, s.State())
	}
}

// gbps is what a counter of bytes grew by, in Gb/s.
func (v *view) gbps(sw int, now, before uint64) float64 {
	d := v.now[sw].Time.Sub(v.before[sw].Time).Seconds()
	if d <= 0 {
		return 0
	}
	return float64(now-before) * 8 / d / 1e9
}

// refused is how many frames to the switch were dropped because something is wrong with them, and the most frequent
// reason.
func refused(verdicts map[string]uint64) (n uint64, why string) {
	most := uint64(0)
	for v, count := range verdicts {
		switch v {
		case "ok", "not_roce", "duplicate", "behind", "ack_stale":
			continue
		}
		if n += count; count > most || count == most && v < why {
			most, why = count, v
		}
	}
	return n, why
}

func (v *view) table() string {
	var b strings.Builder
	for i, st := range v.now {
		fmt.Fprintf(&b, "switch %s, up %v\n\n", st.Switch, st.Up.Round(time.Second))
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "port\trx Gb/s\ttx Gb/s\trx frames\ttx frames\tbridged\tdropped\trefused\t")
		for k, p := range st.Ports {
			old := v.before[i].Ports[k]
			n, why := refused(p.Verdicts)
			fmt.Fprintf(w, "%d\t%.3f\t%.3f\t%d\t%d\t%d\t%d\t%d\t %s %s\n", p.Port, v.gbps(i, p.RxBytes, old.RxBytes), v.gbps(i, p.TxBytes, old.TxBytes),
				p.RxFrames, p.TxFrames, p.Bridged, p.Dropped, n, why, p.Error)
		}
		_ = w.Flush() // to memory
		b.WriteByte('\n')
		for _, p := range st.Pipes {
			fmt.Fprintf(&b, "%s %s, mode %d: psn %v%s\n", p.ID, p.Pipe, p.Mode, p.NextSend, p.trouble())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// trouble is what a pipe waits for or its error, as the end of a line.
func (p *PipeState) trouble() string {
	switch {
	case p.Fault != "":
		return ", in error: " + p.Fault
	case p.Waits != nil && len(p.Waits.Missing) > 0:
		return fmt.Sprintf(", waits for psn %v of %s", p.Waits.PSN, strings.Join(p.Waits.Missing, ", "))
	case p.Waits != nil:
		return fmt.Sprintf(", psn %v not acknowledged by %s", p.Waits.Oldest, strings.Join(p.Waits.Unacked, ", "))
	}
	return ""
}

// lines has one for each switch in which something moved.
func (v *view) lines() string {
	var b strings.Builder
	for i, st := range v.now {
		var rx, tx, oldRx, oldTx, frames, oldFrames, dropped, bad uint64
		for k, p := range st.Ports {
			old := v.before[i].Ports[k]
			n, _ := refused(p.Verdicts)
			rx, tx, oldRx, oldTx = rx+p.RxBytes, tx+p.TxBytes, oldRx+old.RxBytes, oldTx+old.TxBytes
			frames, oldFrames, dropped, bad = frames+p.RxFrames, oldFrames+old.RxFrames, dropped+p.Dropped, bad+n
		}
		if frames == oldFrames {
			continue
		}
		fmt.Fprintf(&b, "switch %s: rx %.3f Gb/s, tx %.3f Gb/s, %d frames, %d dropped, %d refused", st.Switch, v.gbps(i, rx, oldRx), v.gbps(i, tx, oldTx), frames, dropped, bad)
		for _, p := range st.Pipes {
			if p.Fault != "" {
				fmt.Fprintf(&b, "; %s %s%s", p.ID, p.Pipe, p.trouble())
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
