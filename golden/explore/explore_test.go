package explore

import (
	"testing"
	"os"
	"encoding/json"
	"github.com/stretchr/testify/require"
)

func TestFirst(t *testing.T) {
	c := Default()
	require.NoError(t, json.Unmarshal([]byte(os.Getenv("CFG")), &c))
	r, err := Check(t.Context(), c, Options{MemoryMB: 9000, Tick: 5e9, Progress: func(p Progress) { t.Logf("%+v", p) }})
	require.NoError(t, err)
	t.Logf("%+v: %+v", c, r)
	if r.Trace != nil { t.Log("\n"+r.Trace.String()) }
}
