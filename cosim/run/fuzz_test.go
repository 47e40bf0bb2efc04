package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/golden/group"
)

// What an adversary must have reached for its silence to mean something: every verdict of a running engine,
// each way into error, and each kind of frame out.
func TestFuzzReachesEverything(t *testing.T) {
	seen := map[string]uint64{}
	for seed, change := range []func(*group.Options){
		func(o *group.Options) { o.Collective, o.Ranks = "reduce", 3 }, // endpoints with one direction
		func(*group.Options) {},
		func(o *group.Options) { o.Slots = 1024 }, // a pipe that binds so long that frames meet it binding
	} {
		o := options(t, 64, func(o *group.Options) {
			o.ClocksPerTick, o.TimeoutTicks, o.Slots, o.MTU, o.PSN0 = 8, 60, 8, 256, 0xfffffa
			change(o)
		})
		o.Seed, o.BypassBackpressurePPM, o.BackpressurePPM, o.IdlePPM = uint64(seed), 900_000, 200_000, 200_000
		rep, err := run.Fuzz(t.Context(), run.FuzzOptions{Options: o, Frames: 1500, Lives: 8})
		require.NoError(t, err)
		for name, n := range rep.Counters {
			seen[name] += n
		}
	}
	for _, name := range []string{"mac_error", "not_roce", "ip_version", "ip_header_length", "ip_fragment", "ip_length", "ip_checksum",
		"udp_length", "udp_checksum", "bth_length", "bth_tver", "opcode", "header_length", "pad", "aeth_syndrome", "icrc", "no_endpoint",
		"dst_ip", "ingress_port", "src_mac", "src_ip", "pkey", "cnp", "no_pipe", "write_no_rewrite", "payload_length", "pipe_error",
		"no_slots", "behind", "beyond", "duplicate", "mismatch", "ack_stale", "ep_error", "bypass_full"} {
		require.NotZero(t, seen["verdict_"+name], "verdict %s", name)
	}
	for _, name := range []string{"rx_data", "rx_ack", "rx_nak", "rx_rnr", "tx_data", "tx_resend", "tx_ack", "tx_nak", "tx_rnr", "tx_fatal",
		"timer", "rnr_expiry", "recycle", "ep_error", "pipe_error"} {
		require.NotZero(t, seen[name], "counter %s", name)
	}
}

func TestFuzzRefuses(t *testing.T) {
	for _, o := range []run.FuzzOptions{{Frames: 0, Lives: 1}, {Frames: 1, Lives: 0}} {
		_, err := run.Fuzz(t.Context(), o)
		require.ErrorContains(t, err, "want at least 1 of each")
	}
	_, err := run.Fuzz(t.Context(), run.FuzzOptions{Frames: 1, Lives: 1})
	require.ErrorContains(t, err, "no group")
}
