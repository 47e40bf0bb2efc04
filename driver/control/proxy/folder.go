// Package proxy joins a job for a rank that is a program of its own and speaks no gRPC, as one in C that has nothing
// but libibverbs. The two meet in a folder; interop/client/epic_rank.c is such a program, and says which file is what.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/epic-inc/epic/golden/psn"
)

// Folder is where a rank's program meets whoever sets its group up. A file appears in it whole, by rename.
type Folder string

// The files. The program writes the first three.
const (
	QPNs   = "qpns"   // its queue pairs
	Ready  = "ready"  // they are in RTS
	Done   = "done"   // it has all its results
	group  = "group"  // what it needs to connect its queue pairs
	Go     = "go"     // all ranks are ready
	Leave  = "leave"  // all ranks have their results
	Failed = "failed" // why the job is over
)

// poll is how often a file is looked for that is not there yet.
const poll = 5 * time.Millisecond

// Has says whether a file is there.
func (f Folder) Has(name string) bool {
	_, err := os.Stat(filepath.Join(string(f), name))
	return err == nil
}

// Await waits for a file of the program until ctx ends, whose cause is then in the error.
func (f Folder) Await(ctx context.Context, name string) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !f.Has(name) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s of the rank's program: %w", filepath.Join(string(f), name), context.Cause(ctx))
		}
	}
	return nil
}

// Tell writes a file for the program.
func (f Folder) Tell(name, text string) error {
	to := filepath.Join(string(f), name)
	if err := os.WriteFile(to+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// numbers reads a file of lines with so many numbers of 24 bits each.
func (f Folder) numbers(name string, lines, each int) ([][]uint32, error) {
	file := filepath.Join(string(f), name)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(text) == 0 {
		got = nil
	}
	if len(got) != lines {
		return nil, fmt.Errorf("%s: got %d lines, want %d: one for each subgroup", file, len(got), lines)
	}
	var all [][]uint32
	for i, line := range got {
		words := strings.Fields(line)
		if len(words) != each {
			return nil, fmt.Errorf("%s: line %d: got %q, want %d numbers", file, i+1, line, each)
		}
		var row []uint32
		for _, w := range words {
			v, err := strconv.ParseUint(w, 10, 24)
			if err != nil {
				return nil, fmt.Errorf("%s: line %d: %w, want a number of 24 bits", file, i+1, err)
			}
			row = append(row, uint32(v))
		}
		all = append(all, row)
	}
	return all, nil
}

// QPNs reads the numbers of the program's queue pairs, one for each of its subgroups.
func (f Folder) QPNs(subgroups int) ([]uint32, error) {
	rows, err := f.numbers(QPNs, subgroups, 1)
	var list []uint32
	for i, r := range rows {
		if r[0] == 0 {
			return nil, fmt.Errorf("%s: line %d: got QPN 0, want 1..%d", filepath.Join(string(f), QPNs), i+1, psn.Mask)
		}
		list = append(list, r[0])
	}
	return list, err
}

// LastPSNs reads what the program says when it has done: the last PSN that it has used to send, of each subgroup.
func (f Folder) LastPSNs(qpns []uint32) ([]psn.PSN, error) {
	rows, err := f.numbers(Done, len(qpns), 2)
	var list []psn.PSN
	for i, r := range rows {
		if r[0] != qpns[i] {
			return nil, fmt.Errorf("%s: line %d: got queue pair %d, want %d", filepath.Join(string(f), Done), i+1, r[0], qpns[i])
		}
		list = append(list, psn.PSN(r[1]))
	}
	return list, err
}

// Group is what the program needs to connect its queue pairs.
type Group struct {
	MTU                           int // path MTU, payload bytes
	MessagePackets, WindowPackets int // M and MW
	Timeout, MinRNRTimer          int // codes of its queue pairs
	Unpinned                      bool
	Flags                         uint8 // of control signals
	QPs                           []QP  // of its subgroups
}

// QP is the other end of a queue pair, and the first PSN in both directions.
type QP struct {
	PeerIP  netip.Addr
	PeerQPN uint32
	PSN     psn.PSN
}

// TellGroup writes the file of the group.
func (f Folder) TellGroup(g Group) error {
	var b strings.Builder
	unpinned := 0
	if g.Unpinned {
		unpinned = 1
	}
	fmt.Fprintf(&b, "mtu %d\nmessage_packets %d\nwindow_packets %d\ntimeout %d\nmin_rnr_timer %d\nunpinned %d\nflags %d\n", g.MTU, g.MessagePackets,
		g.WindowPackets, g.Timeout, g.MinRNRTimer, unpinned, g.Flags)
	for _, q := range g.QPs {
		fmt.Fprintf(&b, "qp %v %d %d\n", q.PeerIP, q.PeerQPN, q.PSN)
	}
	return f.Tell(group, b.String())
}

// check says that the folder is there, and has no files of a program before.
func (f Folder) check() error {
	st, err := os.Stat(string(f))
	if err != nil {
		return fmt.Errorf("folder of the rank's program: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("folder of the rank's program: %s is a file, want a folder", f)
	}
	for _, name := range []string{group, Go, Leave, Failed} {
		if _, err := os.Stat(filepath.Join(string(f), name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("folder of the rank's program: %s has a file %s already, want a folder of its own for each run", f, name)
		}
	}
	return nil
}
