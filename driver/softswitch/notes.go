package softswitch

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Note is a kind of frame that was sent to the switch and that no endpoint takes.
type Note struct {
	Port    int          `json:"port"`
	Verdict spec.Verdict `json:"verdict"`
	SrcMAC  string       `json:"src_mac"`
	Src     string       `json:"src"`
	QPN     uint32       `json:"qpn"` // destination
	PSN     psn.PSN      `json:"psn"` // of the last one
	Count   uint64       `json:"count"`
	First   time.Time    `json:"first"`
	Last    time.Time    `json:"last"`
	Text    string       `json:"text"` // what was got and wanted, of the first one
}

type noteKey struct {
	port    int
	verdict spec.Verdict
	src     roce.MAC
	qpn     uint32
}

// maxNotes bounds the kinds that are told apart.
const maxNotes = 256

// notes are the kinds of frames seen so far.
type notes struct {
	mu    sync.Mutex
	byKey map[noteKey]*Note
}

func (n *notes) add(port int, v spec.Verdict, pkt *roce.Packet, text string) {
	key := noteKey{port, v, pkt.SrcMAC, pkt.DestQP}
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	one := n.byKey[key]
	if one == nil {
		if len(n.byKey) >= maxNotes {
			return
		}
		one = &Note{Port: port, Verdict: v, SrcMAC: pkt.SrcMAC.String(), QPN: pkt.DestQP, First: now, Text: text}
		if pkt.Src.IsValid() {
			one.Src = pkt.Src.String()
		}
		n.byKey[key] = one
	}
	one.Count++
	one.Last, one.PSN = now, pkt.PSN
}

func (n *notes) list() []Note {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []Note
	for _, one := range n.byKey {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b Note) int {
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Port, b.Port), cmp.Compare(a.QPN, b.QPN))
	})
	return all
}
