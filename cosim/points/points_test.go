package points

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// reached is every point that can happen, each once.
func reached(t *testing.T) Counts {
	never, err := Never()
	require.NoError(t, err)
	c := Counts{}
	for _, name := range All() {
		if never[name] == "" {
			c[name] = 1
		}
	}
	return c
}

func TestEveryPointOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range All() {
		assert.False(t, seen[name], name)
		seen[name] = true
	}
	assert.Len(t, seen, len(All()))
}

// What a table must notice: each point that was not reached, and each that cannot happen and did.
func TestTabulate(t *testing.T) {
	all := reached(t)
	table, err := Tabulate(all)
	require.NoError(t, err)
	assert.Empty(t, table.Missed)
	assert.Empty(t, table.Against)
	for name := range all {
		less := maps.Clone(all)
		delete(less, name)
		table, err := Tabulate(less)
		require.NoError(t, err)
		assert.Equal(t, []string{name}, table.Missed)
	}
	never, err := Never()
	require.NoError(t, err)
	for name := range never {
		more := maps.Clone(all)
		more[name] = 1
		table, err := Tabulate(more)
		require.NoError(t, err)
		assert.Equal(t, []string{name}, table.Against)
	}
	_, err = Tabulate(Counts{"verdict/fine": 1})
	assert.ErrorContains(t, err, `"verdict/fine"`)
}

func TestNeverRefuses(t *testing.T) {
	for want, file := range map[string]string{
		"no such point":  "- {points: [verdict/fine], reason: why}",
		"got no reason":  "- {points: [verdict/ok]}",
		"got two reason": "- {points: [verdict/ok], reason: a}\n- {points: [verdict/*], reason: b}",
		"never.yaml":     "- {points: [verdict/ok], cause: why}",
	} {
		_, err := never([]byte(file))
		assert.ErrorContains(t, err, want)
	}
}

// The points of records made by hand.
func TestRecord(t *testing.T) {
	cfg := &engine.Config{Endpoints: []engine.Endpoint{{QPN: 7, InPipe: 0, OutPipe: 0}, {QPN: 8, InPipe: 0, OutPipe: 0}},
		Pipes: []engine.Pipe{{Mode: 3, N: 8, MTU: 256, Ins: []int{0, 1}, Outs: []int{0, 1}, PSN0: 0xfffffe}}}
	data := func(r spec.Record) *spec.Record {
		r.Cause, r.Groups = spec.CauseData, spec.GroupRx|spec.GroupPipe
		if r.Degree > 0 {
			r.Groups |= spec.GroupSlot
		}
		r.PSNStart = 0xfffffe
		return &r
	}
	only := &roce.Packet{Opcode: spec.OpcodeSendOnly, DestQP: 7, Payload: make([]byte, 256)}
	tests := []struct {
		name    string
		records []*spec.Record
		want    []string
		not     []string
	}{
		{"first of a slot", []*spec.Record{data(spec.Record{PSN: 0xfffffe, EPSN: 0xfffffe, Degree: 1})},
			[]string{"slot/mode3/started", "frame/mode3/contribution/ok", "window/mode3/first taken", "taken/full payload"},
			[]string{"slot/mode3/completed", "slot/mode3/beyond a gap", "window/mode3/last taken"}},
		{"last of a slot", []*spec.Record{data(spec.Record{PSN: 0xffffff, EPSN: 0xffffff, Degree: 2})}, []string{"slot/mode3/completed"},
			[]string{"slot/mode3/started", "window/mode3/first taken"}},
		{"beyond a gap", []*spec.Record{data(spec.Record{PSN: 5, EPSN: 0xfffffe, Degree: 1})},
			[]string{"slot/mode3/beyond a gap", "window/mode3/last taken"}, nil},
		{"just beyond", []*spec.Record{data(spec.Record{PSN: 6, Verdict: spec.VerdictBeyond})}, []string{"window/mode3/first refused above"}, nil},
		{"one further", []*spec.Record{data(spec.Record{PSN: 7, Verdict: spec.VerdictBeyond})}, nil, []string{"window/mode3/first refused above"}},
		{"wrap", []*spec.Record{data(spec.Record{PSN: 0xffffff, EPSN: 0xffffff, Degree: 1}), data(spec.Record{PSN: 0, EPSN: 0, Degree: 1})},
			[]string{"wrap/mode3/data"}, []string{"wrap/mode3/ack"}},
		{"same slot soon", []*spec.Record{data(spec.Record{Clock: 10, Slot: 1, Degree: 1}), data(spec.Record{Clock: 26, Slot: 1, Degree: 2})},
			[]string{"hazard/mode3/same slot within 16 clocks"}, nil},
		{"same slot later", []*spec.Record{data(spec.Record{Clock: 10, Slot: 1, Degree: 1}), data(spec.Record{Clock: 27, Slot: 1, Degree: 2})},
			nil, []string{"hazard/mode3/same slot within 16 clocks"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewCollector(cfg)
			for _, r := range tt.records {
				c.Record(r, only, nil, spec.ErrorKindNone)
			}
			for _, name := range tt.want {
				assert.NotZero(t, c.Counts()[name], name)
			}
			for _, name := range tt.not {
				assert.Zero(t, c.Counts()[name], name)
			}
		})
	}
	assert.Panics(t, func() { NewCollector(cfg).hit("verdict", "fine") })
}
