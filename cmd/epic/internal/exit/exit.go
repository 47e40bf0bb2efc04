// Package exit says, in one place, what the exit status of epic means and which error leads to it.
package exit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	rtlbench "github.com/epic-inc/epic/cosim/bench"
	"github.com/epic-inc/epic/cosim/bench/loss"
	"github.com/epic-inc/epic/cosim/faults"
	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/driver/bitstream"
	"github.com/epic-inc/epic/driver/board"
	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/driver/control/proxy"
	"github.com/epic-inc/epic/driver/device/uart"
	"github.com/epic-inc/epic/driver/lab"
	labbench "github.com/epic-inc/epic/driver/lab/bench"
	labmatrix "github.com/epic-inc/epic/driver/lab/matrix"
	"github.com/epic-inc/epic/driver/stream"
	streambench "github.com/epic-inc/epic/driver/stream/bench"
	"github.com/epic-inc/epic/golden/explore"
	"github.com/epic-inc/epic/interop/guest"
)

// Status is an exit status.
type Status int

// The exit statuses of every subcommand.
const (
	Right       Status = 0
	Difference  Status = 1
	BadInput    Status = 2
	Lost        Status = 3
	Interrupted Status = 130
)

var table = []struct {
	status  Status
	meaning string
}{
	{Right, "right: all was done, and all that was compared is equal"},
	{Difference, "difference found: what was compared differs, an assertion of the simulation failed, or a figure is beyond its limit"},
	{BadInput, "bad input: arguments, configuration or files that cannot be used; one line each says what, where, and what is allowed"},
	{Lost, "peer or tool lost: the simulator, another rank, a board or another program ended, fell silent or disagreed"},
	{Interrupted, "interrupted: by Ctrl-C or SIGTERM"},
}

// Help is the text of `epic help exit-status`.
func Help() string {
	var b strings.Builder
	b.WriteString("Every command of epic ends with one of these exit statuses:\n\n")
	for _, row := range table {
		fmt.Fprintf(&b, "  %3d  %s\n", row.status, row.meaning)
	}
	return b.String()
}

// Of is the exit status that an error leads to. What is not known to be anything else is bad input.
func Of(err error) Status {
	var group *coll.Failure
	var refused *failure.Error
	switch {
	case err == nil:
		return Right
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, run.ErrDifference), errors.Is(err, server.ErrFault), errors.Is(err, labmatrix.ErrFailed),
		errors.Is(err, labbench.ErrLimit), errors.Is(err, rtlbench.ErrLimit), errors.Is(err, loss.ErrLimit), errors.Is(err, explore.ErrFound),
		errors.Is(err, bitstream.ErrFlash), errors.Is(err, faults.ErrWrong),
		errors.Is(err, stream.ErrLoss), errors.Is(err, streambench.ErrLimit):
		return Difference
	case errors.Is(err, server.ErrLost), errors.Is(err, failure.ErrLost), errors.Is(err, proxy.ErrOver),
		errors.Is(err, guest.ErrLost), errors.Is(err, lab.ErrLost), errors.Is(err, uart.ErrLost),
		errors.Is(err, board.ErrTool), errors.Is(err, streambench.ErrTool), errors.As(err, &group):
		return Lost
	case errors.As(err, &refused) && refused.OfOthers():
		return Lost
	default:
		return BadInput
	}
}
