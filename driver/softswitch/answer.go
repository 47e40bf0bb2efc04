package softswitch

import (
	"net/netip"

	"github.com/epic-inc/epic/driver/neighbour"
	"github.com/epic-inc/epic/golden/roce"
)

// answer answers what a host asks one of the switch's addresses before it sends to it.
func (s *Switch) answer(t *table, p *port, frame []byte) {
	reply := neighbour.Reply(frame, func(ip netip.Addr) (roce.MAC, bool) {
		mac, mine := t.ips[ip]
		return mac, mine
	})
	if reply == nil {
		return
	}
	p.counters.answered.Add(1)
	p.enqueue(item{frame: reply})
}
