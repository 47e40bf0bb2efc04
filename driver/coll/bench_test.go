package coll_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/golden/spec"
)

// How fast four ranks and a switch in one process are: the cost of a byte, not of a network.
func BenchmarkAllReduce(b *testing.B) {
	for _, a := range []coll.Algorithm{coll.Network, coll.Ring} {
		b.Run(coll.Algorithms()[a], func(b *testing.B) {
			const bytes = 16 << 20
			o := options(4, 3, "allreduce")
			o.MTU, o.TimeoutTicks, o.HostTimeout, o.Slots = 4096, 100000, 18, 256
			w := build(b, o, 1, 0, true)
			b.SetBytes(bytes)
			errs := w.all(func(o *coll.Options) { o.Algorithm = a }, func(ctx context.Context, c *coll.Comm) error {
				buf := make([]byte, bytes)
				if err := c.Barrier(ctx); err != nil {
					return err
				}
				if c.Rank() == 0 {
					b.ResetTimer()
				}
				for range b.N {
					if err := c.AllReduce(ctx, buf, buf, spec.DTypeFloat32, spec.OpSum); err != nil {
						return err
					}
				}
				return nil
			})
			for _, err := range errs {
				require.NoError(b, err)
			}
		})
	}
}
