package engine

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/spec"
)

func TestValidate(t *testing.T) {
	require.NoError(t, flat(2, 4, 0).Validate())
	require.NoError(t, flat(64, 1<<22, 0xffffff).Validate())
	cases := []struct {
		name  string
		spoil func(c *Config)
		want  string
	}{
		{"psn bits", func(c *Config) { c.PSNBits = 25 }, "PSN bits: got 25, want 3..24"},
		{"ports", func(c *Config) { c.Ports = 65 }, "ports: got 65, want 1..64"},
		{"port", func(c *Config) { c.Ports = 1 }, "endpoint 1: port: got 1, want 0..0"},
		{"one QPN twice", func(c *Config) { c.Endpoints[1].QPN = 0x101 }, "endpoint 1: QPN 0x000101 is already endpoint 0's"},
		{"QPN 0", func(c *Config) { c.Endpoints[1].QPN = 0 }, "endpoint 1: QPN: got 0x0, want 0x000001..0xffffff"},
		{"QPN too wide", func(c *Config) { c.Endpoints[1].QPN = 1 << 24 }, "endpoint 1: QPN: got 0x1000000"},
		{"peer QPN", func(c *Config) { c.Endpoints[0].PeerQPN = 1 << 24 }, "endpoint 0: peer QPN: got 0x1000000"},
		{"no IP", func(c *Config) { c.Endpoints[0].IP = netip.Addr{} }, "endpoint 0: IP: got invalid IP, want an IPv4 or IPv6 address"},
		{"mapped IP", func(c *Config) {
			c.Endpoints[0].PeerIP = netip.MustParseAddr("::ffff:10.0.0.1")
		}, "peer IP: got ::ffff:10.0.0.1"},
		{"two versions", func(c *Config) { c.Endpoints[0].PeerIP = netip.MustParseAddr("fd00::1") }, "want two of one version"},
		{"psn0 too wide", func(c *Config) { c.Endpoints[0].PSN0 = 1 << 24 }, "endpoint 0: PSN0: got 0x1000000, want a PSN of 24 bits"},
		{"psn0 differs", func(c *Config) { c.Pipes[0].PSN0 = 1 }, "pipe 0 (root): starts at psn 0x1, but its in endpoint 0 at 0x0"},
		{"no pipe", func(c *Config) { c.Endpoints[0].InPipe, c.Endpoints[0].OutPipe = None, None }, "endpoint 0: neither an in nor an out of a pipe"},
		{"in-pipe", func(c *Config) { c.Endpoints[0].InPipe = 1 }, "endpoint 0: in-pipe: got 1, want 0..0 or none"},
		{"out-pipe", func(c *Config) { c.Endpoints[0].OutPipe = -2 }, "endpoint 0: out-pipe: got -2, want 0..0 or none"},
		{"in-index", func(c *Config) { c.Endpoints[1].InIndex = 0 }, "endpoint 1: in-index: got 0, but that is not where pipe 0 (root) lists it"},
		{"not listed as out", func(c *Config) { c.Pipes[0].Outs = []int{0} }, "endpoint 1: out-pipe: pipe 0 (root) lists it 0 times"},
		{"listed twice", func(c *Config) { c.Pipes[0].Ins = []int{0, 1, 0} }, "pipe 0 (root): lists endpoint 0 twice as an in"},
		{"listed but elsewhere", func(c *Config) { c.Endpoints[1].InPipe = None }, "pipe 0 (root): lists endpoint 1 as an in, whose in-pipe is -1"},
		{"no such endpoint", func(c *Config) { c.Pipes[0].Outs = []int{0, 1, 2} }, "pipe 0 (root): out endpoint: got 2, want 0..1"},
		{"fan-in 0", func(c *Config) { c.Pipes[0].Ins = nil }, "pipe 0 (root): fan-in: got 0, want 1..64"},
		{"fan-out 0", func(c *Config) { c.Pipes[0].Outs = nil }, "pipe 0 (root): fan-out: got 0, want 1..64"},
		{"mode", func(c *Config) { c.Pipes[0].Mode = 4 }, "pipe 0 (root): mode: got 4, want 1..3"},
		{"ack every of Mode-I", func(c *Config) { c.Pipes[0].Mode, c.Pipes[0].AckEvery = 1, 2 }, "ack every: got 2, want 1..1"},
		{"retries of Mode-I", func(c *Config) { c.Pipes[0].Mode, c.Pipes[0].Retries = 1, 16 }, "retries: got 16, want 0..15"},
		{"pool of a Mode-I pipe", func(c *Config) {
			c.Blocks, c.Pipes[0].Mode = 11, 1 // a buffer for each of 2 ins and one for the sum, of 4 packets of a block
		}, "pipe 0 (root): blocks 0..11 exceed the pool of 11"},
		{"ACK rule", func(c *Config) { c.Pipes[0].AckRule = 3 }, "pipe 0 (root): ACK rule: got ack rule(3), want reflect, replicate or minimum"},
		{"minimum of a sum", func(c *Config) {
			c.Pipes[0].Mode, c.Pipes[0].AckRule = 2, spec.AckRuleMinimum
		}, "pipe 0 (root): ACK rule minimum: got 2 ins, want 1"},
		{"collective", func(c *Config) { c.Pipes[0].Unpinned, c.Pipes[0].Coll = true, 4 }, "collective: got collective(4), want allreduce..barrier"},
		{"root of none", func(c *Config) { c.Pipes[0].Unpinned, c.Pipes[0].Root = true, 1 }, "root of allreduce: got 1, want 0..0"},
		{"root", func(c *Config) {
			c.Pipes[0].Unpinned, c.Pipes[0].Coll, c.Pipes[0].Root = true, spec.CollTypeReduce, 1<<16
		}, "root of reduce: got 65536, want 0..65535"},
		{"rewrite", func(c *Config) {
			c.Endpoints[0].Rewrite = &Rewrite{}
		}, "pipe 0 (root): endpoint 0 takes RDMA WRITEs, but endpoint 1 has no rewrite to send them with"},
		{"slots", func(c *Config) { c.Pipes[0].N = 6 }, "pipe 0 (root): slots: got 6, want a power of two in 2..4194304"},
		{"slots 1", func(c *Config) { c.Pipes[0].N = 1 }, "slots: got 1"},
		{"slots too many", func(c *Config) { c.Pipes[0].N = 1 << 23 }, "slots: got 8388608"},
		{"slots in a small space", func(c *Config) { c.PSNBits = 3 }, "slots: got 4, want a power of two in 2..2"},
		{"mtu", func(c *Config) { c.Pipes[0].MTU = 1500 }, "MTU: got 1500, want one of 256, 512, 1024, 2048, 4096"},
		{"ack every", func(c *Config) { c.Pipes[0].AckEvery = 2 }, "ack every: got 2, want 1..1"},
		{"rnr code", func(c *Config) { c.Pipes[0].RNRCode = 32 }, "RNR timer code: got 32, want 0..31"},
		{"retries", func(c *Config) { c.Pipes[0].Retries = 16 }, "retries: got 16, want 0..15"},
		{"back-off", func(c *Config) { c.Pipes[0].BackoffMax = 8 }, "back-off limit: got 8, want 0..7"},
		{"timeout", func(c *Config) { c.Pipes[0].Timeout = 0 }, "timeout in ticks: got 0, want 1..1048575"},
		{"base", func(c *Config) { c.Pipes[0].Base = 1 << 16 }, "base block: got 65536, want 0..65535"},
		{"pool", func(c *Config) { c.Blocks, c.Pipes[0].Base = 8, 5 }, "pipe 0 (root): blocks 5..8 exceed the pool of 8"},
		{"pool of a reproducible pipe", func(c *Config) {
			c.Blocks, c.Pipes[0].Reproducible = 7, true // 2 ins, 4 slots of a block
		}, "pipe 0 (root): blocks 0..7 exceed the pool of 7"},
		{"overlap", func(c *Config) {
			c.Blocks = 8
			c.Pipes = append(c.Pipes, c.Pipes[0])
			c.Pipes[1].Base = 3
		}, "pipe 1 (root): blocks 3..6 overlap those of pipe 0 (root)"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := flat(2, 4, 0).clone()
			tc.spoil(&c)
			err := c.Validate()
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, `engine "root"`)
			_, err = New(c)
			require.Error(t, err)
		})
	}
}

func TestNewRefusesWhatItCannotAdd(t *testing.T) {
	c := flat(2, 4, 0)
	c.Pipes[0].DType, c.Pipes[0].Op = spec.DTypeFloat32, spec.OpXor
	_, err := New(c)
	require.ErrorContains(t, err, `engine "root": pipe 0 (root)`)

	c = flat(1, 4, 0)
	c.Pipes[0].DType, c.Pipes[0].Op = spec.DTypeFloat32, spec.OpXor
	_, err = New(c)
	require.NoError(t, err, "a pipe with one in never adds")
}

func TestEntryIndex(t *testing.T) {
	c := flat(2, 4, 0)
	require.Equal(t, 2, c.EntryIndex(1, 64))
	require.Equal(t, 0, c.EntryIndex(1, 2))
}

func TestLegalNamesEngineAndEvent(t *testing.T) {
	e := programmed(t, flat(2, 4, 0))
	for _, tc := range []struct {
		ev   Event
		want string
	}{
		{Event{Cause: spec.CauseDrop, Port: 64}, "frame(port 64, ok): got port 64, want 0..63"},
		{Event{Cause: spec.CauseDrop}, "got verdict ok without a packet"},
		{Event{Cause: spec.CauseData}, "an engine has no such event"},
		{Event{Cause: spec.CauseAdvance, Endpoint: 2}, "advance(endpoint 2): got endpoint 2, want 0..1"},
		{Event{Cause: spec.CauseRelease, Pipe: -1}, "got pipe -1, want 0..0"},
		{Event{Cause: spec.CauseRecycle, PSN: 5}, "recycle(pipe 0, psn 000005): psnStart is 000000"},
		{Event{Cause: spec.CauseTableWrite, Endpoint: None, Pipe: None}, "want one endpoint or one pipe"},
		{Event{Cause: spec.CauseTableWrite, Endpoint: 5, Pipe: None}, "got endpoint 5"},
		{Event{Cause: spec.CauseTableWrite, Endpoint: None, Pipe: 5}, "got pipe 5"},
		{Event{Cause: spec.CauseTableWrite, Endpoint: None, NewPipe: &Pipe{}}, "fan-in: got 0"},
	} {
		require.ErrorContains(t, e.Legal(tc.ev), `engine "root": `)
		require.ErrorContains(t, e.Legal(tc.ev), tc.want)
	}
}
