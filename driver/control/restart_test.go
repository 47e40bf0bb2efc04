package control_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/control"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/tree"
)

// crash ends a process at its n-th step: from then on nothing has an effect.
type crash struct {
	mu   sync.Mutex
	left int
	at   chan struct{} // closed when it has happened
	over bool
}

var errCrash = errors.New("the control plane has crashed")

func (c *crash) step() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errCrash
	}
	if c.left--; c.left == 0 {
		c.over = true
		close(c.at)
		return errCrash
	}
	return nil
}

// again lets the next process live.
func (c *crash) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.over = math.MaxInt, false
}

// A control plane that is killed before or after any write of its state, and before or after anything it asks a switch
// for, goes on where it was: its ranks notice nothing but time, and nothing is left in the switches.
func TestKilledAtEveryStep(t *testing.T) {
	first, stride := 1, 1
	if testing.Short() {
		stride = 7
	}
	steps := 0
	for n := first; ; n += stride {
		c := &crash{left: n, at: make(chan struct{})}
		if !killedAt(t, c) {
			steps = n - 1
			break
		}
		if t.Failed() {
			t.Fatalf("killed at step %d", n)
		}
	}
	assert.Greater(t, steps, 40, "the steps of this life")
	t.Logf("%d steps", steps)
}

// killedAt runs two lives of a job and a crash in between; false if the crash never came.
func killedAt(t *testing.T, c *crash) bool {
	t.Helper()
	p := newPlane(t, func(o *control.Options) { o.Lease, o.Wait = 20*time.Second, 20*time.Second })
	p.kill()
	p.step = c.step
	for _, f := range p.switches {
		f.Before = func(_ context.Context, call string) error { return crashes(c, call) }
		f.After = func(call string) error { return crashes(c, call) }
	}
	p.start()
	done := make(chan struct{})
	go func() {
		defer close(done)
		life(t, p, 0xfffff0)
		p.empty()
		life(t, p, 0x4000ff) // what was used plus 2^22
		p.empty()
	}()
	crashed := false
	select {
	case <-c.at:
		crashed = true
		p.kill()
		c.again()
		for p.tryStart() != nil { // the port is not free at once
			time.Sleep(10 * time.Millisecond)
		}
	case <-done:
	}
	<-done
	p.kill()
	return crashed
}

// crashes says what a switch's call comes to. What a switch is asked while the control plane starts is the same at
// every start.
func crashes(c *crash, call string) error {
	if call == "info" || call == "state" {
		return nil
	}
	return c.step()
}

func life(t *testing.T, p *plane, psn0 psn.PSN) {
	ranks := p.ranks("train", 2)
	ctx := soon(t)
	for r, err := range each(ranks, func(r int, k *client) error {
		if _, err := k.Join(ctx, k.member); err != nil {
			return err
		}
		s, err := k.Subgroup(ctx, tree.Step{Collective: tree.AllReduce}, uint32(17+r))
		if err != nil {
			return err
		}
		if s.QP.SendPSN != psn0 {
			return errors.New("first psn " + s.QP.SendPSN.String() + ", want " + psn0.String())
		}
		if err := k.Quiesced(ctx, s, 0x0000ff-psn.PSN(r)); err != nil {
			return err
		}
		return k.Leave(ctx)
	}) {
		assert.NoError(t, err, r)
	}
}

// A state file is one process's.
func TestOneProcess(t *testing.T) {
	p := newPlane(t, nil)
	_, err := control.OpenStore(p.state)
	require.EqualError(t, err, "state "+p.state+": another process has it open, want one control plane at a time")
}

// A job runs on while the control plane is away, and can go on with it afterwards.
func TestAway(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("train", 2)
	join(t, ranks)
	subs := create(t, ranks, allReduce, 17)
	p.kill()
	time.Sleep(3 * time.Second) // longer than the lease
	held := p.holds()
	p.start()
	time.Sleep(time.Second)
	assert.Equal(t, held, p.holds())
	create(t, ranks, reduceTo(1), 33)
	ctx := soon(t)
	every(t, ranks, func(r int, k *client) error { return k.Quiesced(ctx, subs[r], 0xfffff4) })
	every(t, ranks, func(_ int, k *client) error { return k.Leave(ctx) })
	p.empty()
}
