package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/golden/spec"
)

// cocotbClocks of traffic are enough for a figure: cocotb does hundreds of clocks a second.
const cocotbClocks = 5_000

// benchCocotb plays the beginning of a record in a cocotb bench (scripts/cocotb-bench) and returns how many
// clocks it did, and in what time.
func benchCocotb(ctx context.Context, program string, dataW int, record, dir string) (clocks uint64, wall float64, err error) {
	script := filepath.Join(dir, "cocotb.jsonl")
	frames, err := writeScript(record, script)
	if err != nil {
		return 0, 0, fmt.Errorf("bench: script for cocotb: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "--data-w", fmt.Sprint(dataW), "--script", script)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("bench: cocotb: %s: %w", program, err)
	}
	var r struct {
		Clocks    uint64  `json:"clocks"`
		WallS     float64 `json:"wall_s"`
		FramesIn  int     `json:"frames_in"`
		FramesOut int     `json:"frames_out"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, 0, fmt.Errorf("bench: cocotb: %s printed %q: %w", program, out, err)
	}
	// An engine that is not programmed, or gets no frame, would be fast.
	if r.WallS <= 0 || r.FramesIn != frames || r.FramesOut < frames/2 {
		return 0, 0, fmt.Errorf("bench: cocotb: got %d frames in, %d out in %.2f s, want %d in and at least half as many out",
			r.FramesIn, r.FramesOut, r.WallS, frames)
	}
	return r.Clocks, r.WallS, nil
}

// writeScript makes of a record what cosim/cocotb/play.py reads.
func writeScript(record, script string) (frames int, err error) {
	in, err := os.Open(record)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.Create(script)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriter(out)
	defer func() { err = errors.Join(err, w.Flush(), out.Close()) }()
	lines := json.NewEncoder(w)
	conn := link.NewConn(struct {
		io.Reader
		io.Writer
	}{in, nil})
	from := uint64(0)
	for {
		m, err := conn.Read()
		if errors.Is(err, io.EOF) {
			return frames, fmt.Errorf("the record ends before %d clocks of traffic", cocotbClocks)
		}
		if err != nil {
			return frames, err
		}
		var line map[string]any
		switch m := m.(type) {
		case *spec.RegReq:
			if line = map[string]any{"read": m.Addr}; m.Write != 0 {
				line = map[string]any{"write": [2]uint32{m.Addr, m.Data}}
			}
		case *spec.FrameIn:
			if frames == 0 {
				from = m.Time
			}
			if m.Time > from+cocotbClocks {
				return frames, lines.Encode(map[string]uint64{"until": m.Time})
			}
			frames++
			line = map[string]any{"frame": []any{m.Time, m.Port, fmt.Sprintf("%x", m.Bytes)}}
		default:
			continue
		}
		if err := lines.Encode(line); err != nil {
			return frames, err
		}
	}
}
