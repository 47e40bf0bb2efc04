package run_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/golden/group"
)

func TestBarriers(t *testing.T) {
	for name, change := range map[string]func(*group.Options){
		"single":    func(o *group.Options) {},
		"lossy":     func(o *group.Options) { o.Loss = 0.02 },
		"two level": func(o *group.Options) { o.Ranks, o.Tree = 9, group.TreeTwoLevel },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, 512, func(g *group.Options) { g.Collective = "barrier"; g.PSN0 = 0xfffff8; change(g) })
			o.Barriers = 20
			rep, err := run.Run(t.Context(), o)
			require.NoError(t, err)
			assert.True(t, rep.SumEqual)
			assert.EqualValues(t, 20, rep.Slots)
			assert.Equal(t, 20, rep.Barriers)
			assert.Zero(t, rep.Bytes)
		})
	}
}
