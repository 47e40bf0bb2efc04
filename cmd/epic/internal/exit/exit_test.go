package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"

	rtlbench "github.com/epic-inc/epic/cosim/bench"
	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/driver/control/proxy"
	"github.com/epic-inc/epic/driver/lab"
	labbench "github.com/epic-inc/epic/driver/lab/bench"
	labmatrix "github.com/epic-inc/epic/driver/lab/matrix"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/interop/guest"
)

func TestOf(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("run: %w", err) }
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{wrap(run.ErrDifference), 1},
		{wrap(server.ErrFault), 1},
		{wrap(labmatrix.ErrFailed), 1},
		{wrap(labbench.ErrLimit), 1},
		{wrap(rtlbench.ErrLimit), 1},
		{group.Problems{{File: "f", Message: "m"}}, 2},
		{&group.OptionError{Option: "mtu", Reason: "r"}, 2},
		{wrap(fs.ErrNotExist), 2},
		{errors.New("anything"), 2},
		{wrap(server.ErrLost), 3},
		{wrap(failure.ErrLost), 3},
		{wrap(proxy.ErrOver), 3},
		{wrap(guest.ErrLost), 3},
		{wrap(&coll.Failure{}), 3},
		{wrap(failure.New(controlpb.Kind_KIND_DUPLICATE_RANK, nil, "m")), 3},
		{wrap(failure.New(controlpb.Kind_KIND_MISSING_RANK, nil, "m")), 3},
		{wrap(failure.New(controlpb.Kind_KIND_BAD_REQUEST, nil, "m")), 2},
		{wrap(failure.New(controlpb.Kind_KIND_NO_RESOURCE, nil, "m")), 2},
		{wrap(lab.ErrLost), 3},
		{wrap(context.Canceled), 130},
		{errors.Join(server.ErrLost, context.Canceled), 130}, // the simulator went because it was told to
	} {
		assert.Equal(t, Status(tc.want), Of(tc.err), "%v", tc.err)
	}
}

func TestHelpNamesEveryStatus(t *testing.T) {
	for _, s := range []string{"    0  right", "    1  difference", "    2  bad input", "    3  peer or tool lost", "  130  interrupted"} {
		assert.Contains(t, Help(), s)
	}
}
