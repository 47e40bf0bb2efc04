package fabric

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// rogue is a host whose rank of one group does not keep to any rule: with every frame that reaches the host it
// sends more of its own, of any PSN, length and opcode, to its endpoint of that group, and answers what it likes.
type rogue struct {
	*Host
	emit Emit
	qp   host.Config
	rng  *rand.Rand
	sent int
}

func (r *rogue) Bind(emit Emit) { r.emit = emit; r.Host.Bind(emit) }

func (r *rogue) Receive(now uint64, port int, frame []byte) {
	r.Host.Receive(now, port, frame)
	for range 1 + r.rng.IntN(3) {
		pkt := &roce.Packet{DstMAC: r.qp.PeerMAC, SrcMAC: r.qp.MAC, Src: r.qp.IP, Dst: r.qp.PeerIP, TTL: 64, DF: true, SrcPort: r.qp.UDPSport,
			PKey: r.qp.PKey, DestQP: r.qp.PeerQPN, PSN: psn.Add(r.qp.SendPSN, r.rng.IntN(40)-20), AckReq: true,
			Opcode:  []spec.Opcode{spec.OpcodeSendOnly, spec.OpcodeSendFirst, spec.OpcodeSendLast, spec.OpcodeAcknowledge}[r.rng.IntN(4)],
			Payload: make([]byte, 4*r.rng.IntN(65))}
		if pkt.Opcode == spec.OpcodeAcknowledge {
			pkt.Payload, pkt.Syndrome = nil, uint8(r.rng.Uint32())
		}
		r.sent++
		r.emit(0, pkt.Encode())
	}
}

// A group in which a rank floods, lies and breaks its pipes changes no result of the groups beside it, on the
// same switches, links and hosts.
func TestIsolation(t *testing.T) {
	for _, mode := range []int{1, 2, 3} {
		o := group.DefaultOptions()
		shape(&o)
		o.Mode, o.Tree, o.Collective = mode, group.TreeTwoLevel, "allreduce,reduce:2,broadcast:1"
		set, err := group.GenerateSet(o, o, o)
		require.NoError(t, err)
		steps, err := o.Steps()
		require.NoError(t, err)
		var work []*Work
		for g := range set.Groups {
			w, err := RandomWork(set.Groups[g], uint64(g), steps, 6000)
			require.NoError(t, err)
			work = append(work, w)
		}
		job, err := NewJob(set, work...)
		require.NoError(t, err)
		bad := &rogue{rng: rand.New(rand.NewPCG(1, 2))}
		bad.qp, err = set.Groups[1].HostConfig(1, 0)
		require.NoError(t, err)
		faults := 0
		n, err := Build(set, 7, func(i int) (Node, error) {
			s, err := GoldenSwitch(set, i)
			if err == nil {
				s.Retired = func(_ uint64, r *spec.Record) {
					if r.Cause == spec.CauseError || r.Verdict == spec.VerdictMismatch {
						faults++
					}
				}
			}
			return s, err
		}, func(i int) (Node, error) {
			h, err := job.Host(i, 0)
			if i != 1 {
				return h, err
			}
			bad.Host = h
			return bad, err
		})
		require.NoError(t, err)
		n.RunWhile(func() bool { return !job.GroupDone(0) || !job.GroupDone(2) }, 1<<24)
		for _, g := range []int{0, 2} {
			require.True(t, job.GroupDone(g), "mode %d: group %d does not end", mode, g)
			for i := range steps {
				require.NoError(t, job.check(g, i))
			}
			for r := range 4 {
				require.NoError(t, job.Rank(g, r).Err())
			}
		}
		require.Greater(t, bad.sent, 100)
		require.Positive(t, faults, "mode %d: the rogue has broken nothing", mode)
	}
}
