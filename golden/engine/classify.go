package engine

import (
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Classify is the verdict of the table stage on a decoded frame, and changes nothing. A negative port
// is one that is not known: the rule about ports is then not applied.
func (e *Engine) Classify(port int, pkt *roce.Packet) spec.Verdict {
	if i, ok := e.byQPN[pkt.DestQP]; ok && port < 0 {
		port = e.cfg.Endpoints[i].Port
	}
	_, v := e.lookup(port, pkt)
	return v
}
