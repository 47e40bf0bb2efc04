package group

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

func TestGenerateShapes(t *testing.T) {
	for _, shape := range TreeShapes() {
		for _, collective := range []string{"allreduce", "reduce", "broadcast", "barrier"} {
			for _, ranks := range []int{2, 3, 4, 5, 9, 31, 32} {
				o := DefaultOptions()
				o.Tree, o.Collective, o.Ranks, o.PSN0, o.Loss = shape, collective, ranks, 0xfffff0, 0.01
				if shape == TreeThreeLevel && ranks < 3 {
					continue
				}
				kind, err := tree.ParseCollective(collective)
				require.NoError(t, err)
				if kind.HasRoot() {
					o.RootRank = ranks - 1
				}
				g, err := Generate(o)
				if shape == TreeTwoLevel && ranks == 2 && kind.HasRoot() {
					assert.ErrorContains(t, err, "ranks: switch root takes no part in "+collective)
					continue
				}
				require.NoError(t, err, "%s %s %d", shape, collective, ranks)
				tr, err := g.Tree()
				require.NoError(t, err)
				assert.Equal(t, ranks, tr.Ranks())
				wantSwitches := 1
				if shape == TreeTwoLevel {
					w := int(math.Ceil(math.Sqrt(float64(ranks))))
					wantSwitches = 1 + (ranks+w-1)/w
				} else if shape == TreeThreeLevel {
					wantSwitches = 3
				}
				assert.Equal(t, wantSwitches, tr.Switches())
				for _, sw := range g.Switches {
					cfg, err := g.EngineConfig(sw.Name)
					require.NoError(t, err)
					require.NoError(t, cfg.Validate())
					rows := map[int]bool{}
					for e := range cfg.Endpoints {
						rows[cfg.EntryIndex(e, sw.EndpointEntries)] = true
						assert.EqualValues(t, 0xfffff0, cfg.Endpoints[e].PSN0)
					}
					assert.Len(t, rows, len(cfg.Endpoints), "every endpoint has its own row")
				}
				assert.Equal(t, 0.01, g.LinkBetween(RankName(0), g.Switches[len(g.Switches)-1].Name).Loss)
			}
		}
	}
}

// A group survives being written and read.
func TestMarshalRoundTrip(t *testing.T) {
	o := DefaultOptions()
	o.Ranks, o.Tree, o.Loss, o.Dup, o.DelayNs, o.ClockMHz = 7, TreeTwoLevel, 0.015625, 1e-7, 333.5, 156.25
	g, err := Generate(o)
	require.NoError(t, err)
	vlan, half := uint16(0x2005), 0.5
	g.Switches[1].Name = "null"
	g.RootSwitch = "true"
	g.Switches[0].Name = "true"
	g.Switches[0].Endpoints[0].VLAN = &vlan
	g.Switches[0].Endpoints[0].MigReq = true
	g.Ranks[2].Preset = "strict-nic"
	g.Links = []LinkEnds{{Ends: [2]string{"rank/0", "null"}, Loss: &half, DelayNs: &half, Gbps: &half, Dup: &half, Reorder: &half}}
	text, err := g.Marshal()
	require.NoError(t, err)
	back, err := Parse("back", text)
	require.NoError(t, err, "%s", text)
	assert.Equal(t, g, back)
	again, err := back.Marshal()
	require.NoError(t, err)
	assert.Equal(t, string(text), string(again))
	for _, f := range []string{captures} {
		g, err := Load(f)
		require.NoError(t, err)
		text, err := g.Marshal()
		require.NoError(t, err)
		back, err := Parse("back", text)
		require.NoError(t, err)
		assert.Equal(t, g, back)
	}
}

func TestGenerateRefuses(t *testing.T) {
	for _, tc := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Ranks = 1 }, "ranks: got 1, want 2..4096"},
		{func(o *Options) { o.Ranks = 65 }, "ranks: got 65, so switch root has 65 neighbours, want at most 64"},
		{func(o *Options) { o.Tree = "star" }, `tree: got "star", want one of single, two-level, three-level`},
		{func(o *Options) { o.Tree, o.Ranks = TreeThreeLevel, 2 }, "ranks: got 2, want at least 3"},
		{func(o *Options) { o.Collective = "alltoall" }, `collective: collective "alltoall" is unknown, want one of [allreduce`},
		{func(o *Options) { o.Collective = "allreduce,reduce:4" }, "collective: got root rank 4 in reduce:4, want 0..3"},
		{func(o *Options) { o.Collective = "barrier:1" }, `collective "barrier:1" has a root, want none`},
		{func(o *Options) { o.Collective = "reduce:x,barrier" }, `got root "x", want a rank`},
		{func(o *Options) { o.Collective, o.RootRank = "reduce,barrier", 1 }, "root-rank: got 1 with reduce,barrier, want none"},
		{func(o *Options) { o.Collective, o.Ranks = "allgather,reducescatter", 64 }, "endpoints at switch root, want at most 4096"},
		{func(o *Options) { o.RootRank = 1 }, "root-rank: got 1 with allreduce, want none"},
		{func(o *Options) { o.RootRank, o.Collective = 4, "reduce" }, "root-rank: got 4, want 0..3"},
		{func(o *Options) { o.Mode = 0 }, "mode: got 0, want 1..3"},
		{func(o *Options) { o.MTU = 1500 }, "mtu: got 1500, want one of 256, 512, 1024, 2048, 4096"},
		{func(o *Options) { o.MTU = 128 }, "mtu: got 128"},
		{func(o *Options) { o.MTU = 8192 }, "mtu: got 8192"},
		{func(o *Options) { o.PSN0 = 1 << 24 }, "psn0: got 0x1000000, want at most 24 bits, 0..0xffffff"},
		{func(o *Options) { o.Slots = 0 }, "slots: got 0, want a power of two, 2..4194304"},
		{func(o *Options) { o.Slots = 96 }, "slots: got 96, want a power of two"},
		{func(o *Options) { o.Slots = 1 << 22 }, "slots: got 4194304 of 1024 bytes in 1 pipes of switch root, want at most 16 MiB"},
		{func(o *Options) { o.AckEvery = 33 }, "ack-every: got 33, want 1..32"},
		{func(o *Options) { o.Loss = 1.01 }, "loss: got 1.01, want 0..1"},
		{func(o *Options) { o.Dup = -0.5 }, "dup: got -0.5, want 0..1"},
		{func(o *Options) { o.Reorder = math.NaN() }, "reorder: got NaN, want 0..1"},
		{func(o *Options) { o.Preset = "bsd" }, `preset: got "bsd", want one of`},
		{func(o *Options) { o.HostTimeout = 32 }, "host-timeout: got 32, want 0..31"},
		{func(o *Options) { o.WindowPackets = 15 }, "window: got 15, want at least message-packets, 16"},
		{func(o *Options) { o.Mode, o.MessagePackets, o.WindowPackets = 1, 129, 129 }, "message-packets: got 129, want at most the 128 slots in mode 1"},
		{func(o *Options) { o.Mode, o.AckEvery = 1, 5 }, "ack-every: got 5, want 1..4"},
		{func(o *Options) {
			o.Mode, o.Ranks, o.Collective = 1, 32, "reducescatter,barrier"
		}, "slots: got 16 of 1024 bytes in 33 pipes of switch root, want at most 16 MiB"},
		{func(o *Options) { o.DType, o.Op = spec.DTypeFloat32, spec.OpXor }, "xor of float32 is not defined"},
	} {
		o := DefaultOptions()
		tc.change(&o)
		_, err := Generate(o)
		assert.ErrorContains(t, err, tc.want)
	}
	var oe *OptionError
	o := DefaultOptions()
	o.Slots = 3
	require.ErrorAs(t, o.Check(), &oe)
	assert.Equal(t, "slots", oe.Option)
}

// A pipe of mode 1 has a buffer of a message for each in and one for the sum, a pipe of one in that of the in; and it
// asks for no window.
func TestGenerateMode1(t *testing.T) {
	o := DefaultOptions()
	o.Mode, o.Tree, o.Ranks, o.MessagePackets, o.MTU = 1, TreeTwoLevel, 9, 5, 256
	g, err := Generate(o)
	require.NoError(t, err)
	assert.Equal(t, []int{5, 10}, []int{g.Host.MessagePackets, g.Host.WindowPackets})
	for s, want := range [][]int{{0}, {0, 4 * 8}} { // of the root: 3 ins; of a leaf: 3 ins up, 1 down
		for p, base := range want {
			pipe := g.Switches[s].Pipes[p]
			assert.Equal(t, 8, pipe.Slots, "as many as 5 packets need")
			assert.Equal(t, base, *pipe.BaseBlock)
		}
	}
	cfg, err := g.EngineConfig("leaf0")
	require.NoError(t, err)
	assert.Equal(t, []int{4, 1}, []int{cfg.Pipes[0].Buffers(), cfg.Pipes[1].Buffers()})
	assert.Equal(t, []int{4 * 8, 8}, []int{cfg.Pipes[0].Blocks(), cfg.Pipes[1].Blocks()})
	assert.Equal(t, 2048, cfg.Pipes[0].MessageBytes())

	o.MessagePackets, o.Slots = 16, 8
	g, err = Generate(o)
	require.NoError(t, err)
	assert.Equal(t, []int{8, 16, 8}, []int{g.Host.MessagePackets, g.Host.WindowPackets, g.Switches[0].Pipes[0].Slots})

	text, err := g.Marshal()
	require.NoError(t, err)
	g, err = Parse("x", []byte(strings.Replace(string(text), ", window_packets: 16", "", 1)))
	require.NoError(t, err)
	assert.Equal(t, 16, g.Host.WindowPackets, "two messages if absent")
}

// DefaultOptions must not drift from the defaults of the schema.
func TestDefaultOptionsAreTheSchemas(t *testing.T) {
	g, err := Generate(DefaultOptions())
	require.NoError(t, err)
	small, err := Parse("two", []byte(two))
	require.NoError(t, err)
	assert.Equal(t, small.Mode, g.Mode)
	assert.Equal(t, small.MTU, g.MTU)
	assert.Equal(t, small.Clock, g.Clock)
	assert.Equal(t, small.Timers, g.Timers)
	assert.Equal(t, small.Link, g.Link)
	small.Host.WindowPackets = g.Host.WindowPackets // follows the slots
	assert.Equal(t, small.Host, g.Host)
}

// The schema is a valid draft 2020-12 schema, and names exactly the fields of the types.
func TestSchemaIsValidAndNamesTheFields(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	require.NoError(t, err)
	meta := jsonschema.NewCompiler().MustCompile("https://json-schema.org/draft/2020-12/schema")
	require.NoError(t, meta.Validate(doc))

	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Defs       map[string]struct {
			Additional *bool                      `json:"additionalProperties"`
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(Schema(), &schema))
	fields := func(v any) (names []string) {
		for i := range reflect.TypeOf(v).NumField() {
			if tag := reflect.TypeOf(v).Field(i).Tag.Get("json"); tag != "" {
				names = append(names, strings.Split(tag, ",")[0])
			}
		}
		return names
	}
	keys := func(m map[string]json.RawMessage) (names []string) {
		for k := range m {
			names = append(names, k)
		}
		return names
	}
	assert.ElementsMatch(t, fields(Group{}), keys(schema.Properties))
	for name, v := range map[string]any{
		"clock": Clock{}, "timers": Timers{}, "host": Host{}, "link": Link{}, "link_between": LinkEnds{},
		"switch": Switch{}, "endpoint": Endpoint{}, "pipe": Pipe{}, "rank": Rank{},
	} {
		assert.ElementsMatch(t, fields(v), keys(schema.Defs[name].Properties), name)
		if assert.NotNil(t, schema.Defs[name].Additional, name) {
			assert.False(t, *schema.Defs[name].Additional, name)
		}
	}
}

// The names in the schema are those of the packages that give them a meaning.
func TestSchemaEnumerations(t *testing.T) {
	enum := func(def, field string) (names []string) {
		schema := property(lookup("#/$defs/"+def), field)
		for _, v := range schema["enum"].([]any) {
			names = append(names, v.(string))
		}
		return names
	}
	assert.Equal(t, host.Presets(), enum("host", "preset"))
	assert.Equal(t, host.Presets(), enum("rank", "preset"))
	for i, name := range enum("pipe", "op") {
		op, err := spec.ParseOp(name)
		require.NoError(t, err)
		assert.EqualValues(t, i, op)
	}
	assert.False(t, spec.Op(len(enum("pipe", "op"))).Valid(), "all operators are named")
	for i, name := range enum("pipe", "dtype") {
		dtype, err := spec.ParseDType(name)
		require.NoError(t, err)
		assert.EqualValues(t, i, dtype)
	}
	assert.False(t, spec.DType(len(enum("pipe", "dtype"))).Valid(), "all types are named")
}
