package coll

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/epic-inc/epic/golden/roce"
)

// StatusPort is the UDP port at which ranks ask each other how far they are, when a collective does not get on. It is
// no part of the protocol: a rank that does not answer is only not named as precisely.
const StatusPort = 47914

// status is what a rank says of itself; JSON in a datagram.
type status struct {
	Job  string `json:"job"`
	Of   uint64 `json:"of"` // Comm.of
	Rank int    `json:"rank"`
	Life uint64 `json:"life"` // another one each time the rank starts
	To   uint64 `json:"to"`   // life of the rank that it is for; 0: not known yet
	Ask  bool   `json:"ask,omitempty"`
	// About is the number of a collective, from 0. A question is about it; both question and answer say what it is at the
	// rank, unless it has not come to it.
	About uint64 `json:"about"`
	What  string `json:"what,omitempty"`
	Done  bool   `json:"done,omitempty"`
	At    uint64 `json:"at"` // how many collectives it has begun
	// Failed is why the communicator of rank Origin has failed, and with it this rank's.
	Failed string `json:"failed,omitempty"`
	Origin int    `json:"origin"`
	Fault  []int  `json:"fault,omitempty"` // the ranks at fault
}

// mostText is how much of a reason fits a status.
const mostText = 600

func (c *Comm) encode(to Member, s status) ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	mac, ip := c.endpoint.MAC(), c.endpoint.IP()
	eth := &layers.Ethernet{SrcMAC: mac[:], DstMAC: to.MAC[:], EthernetType: layers.EthernetTypeIPv4}
	udp := &layers.UDP{SrcPort: StatusPort, DstPort: StatusPort}
	var network interface {
		gopacket.NetworkLayer
		gopacket.SerializableLayer
	} = &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: ip.AsSlice(), DstIP: to.IP.AsSlice()}
	if ip.Is6() {
		eth.EthernetType = layers.EthernetTypeIPv6
		network = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: ip.AsSlice(), DstIP: to.IP.AsSlice()}
	}
	if err := udp.SetNetworkLayerForChecksum(network); err != nil {
		return nil, err
	}
	b := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	err = gopacket.SerializeLayers(b, options, eth, network, udp, gopacket.Payload(body))
	return b.Bytes(), err
}

// decode reads a status; false: the frame is something else.
func decode(frame []byte) (s status, from roce.MAC, ok bool) {
	pkt := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	udp, ok := pkt.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok || udp.DstPort != StatusPort || json.Unmarshal(udp.Payload, &s) != nil {
		return s, from, false
	}
	return s, roce.MAC(frame[6:12]), true
}

// peer is what is known of another rank.
type peer struct {
	life   uint64 // 0: nothing was heard of it
	heard  time.Time
	at     uint64
	about  uint64 // what and done are of this collective
	what   string
	done   bool
	answer bool // about, what and done are set
	failed bool // its communicator has
}

// tell sends a status to a rank. It is called with mu held.
func (c *Comm) tell(r int, s status) {
	s.Job, s.Of, s.Rank, s.Life, s.To, s.At = c.job, c.of, c.rank, c.life, c.peers[r].life, c.begun
	if c.err != nil {
		s.Failed, s.Origin, s.Fault = c.err.Reason, c.err.Origin, c.err.Ranks
		if len(s.Failed) > mostText {
			s.Failed = strings.ToValidUTF8(s.Failed[:mostText], "") + "..."
		}
	}
	if frame, err := c.encode(c.members[r], s); err == nil {
		c.endpoint.Transmit(frame)
	}
}

// ask asks every other rank about a collective. It is called with mu held.
func (c *Comm) ask(about uint64) {
	for r := range c.members {
		if r != c.rank {
			c.tell(r, status{Ask: true, About: about, What: c.history[about], Done: about < c.doneAt})
		}
	}
}

// hear takes a frame that is not RoCE.
func (c *Comm) hear(frame []byte) {
	s, from, ok := decode(frame)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Job != c.job || s.Of != c.of || s.Rank < 0 || s.Rank >= len(c.members) || s.Life == 0 {
		return
	}
	if s.To != 0 && s.To != c.life {
		return // for this rank before it was started again
	}
	if known := c.peers[s.Rank].life; c.closing && known != 0 && s.Life != known {
		return // of the next job of that name
	}
	if s.Rank == c.rank {
		if s.Life != c.life {
			c.fail([]int{c.rank}, "rank %d is there twice: another of that number answers from %v", c.rank, from)
		}
		return
	}
	p := &c.peers[s.Rank]
	if p.life != 0 && p.life != s.Life {
		c.fail([]int{s.Rank}, "rank %d has been started again, and knows nothing of this job's connections", s.Rank)
	}
	p.life, p.heard, p.at = s.Life, time.Now(), s.At
	if s.Failed != "" && s.To == c.life {
		p.failed = true
		c.failAs(s.Origin, s.Fault, s.Failed)
	}
	if !s.Ask || s.What != "" {
		p.about, p.what, p.done, p.answer = s.About, s.What, s.Done, true
	}
	if !s.Ask {
		return
	}
	answer := status{About: s.About, What: c.history[s.About], Done: s.About < c.ended()}
	c.tell(s.Rank, answer)
}

// The times of looking for who is to blame.
const (
	askAfter  = time.Second            // without progress, before others are asked
	askEvery  = 250 * time.Millisecond // then
	deadAfter = 8 * time.Second        // a rank that answered once and has not since is gone
	muteAfter = 3 * time.Second        // so is, when patience has ended, one that has not answered for so long
)

// look asks and judges, when the oldest collective has not got on for a while.
func (c *Comm) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.ended()
	if c.err != nil || n == c.begun {
		return
	}
	since := c.started[n]
	if at := c.endpoint.Progress().At; at.After(since) {
		since = at
	}
	idle := time.Since(since)
	if idle < askAfter {
		return
	}
	c.judge(n, idle)
	if c.err == nil {
		c.ask(n)
	}
}

// judge fails the communicator if it is clear why collective n has not got on for so long. It is called with mu held.
func (c *Comm) judge(n uint64, idle time.Duration) {
	if c.disagree(n) {
		return
	}
	var gone, late, never []int
	for r, p := range c.peers {
		switch {
		case r == c.rank:
		case p.life == 0:
			never = append(never, r)
		case p.answer && p.about == n && p.done:
		case idle > askAfter+deadAfter && time.Since(p.heard) > deadAfter,
			idle >= max(c.patience, askAfter+muteAfter) && time.Since(p.heard) > muteAfter:
			gone = append(gone, r)
		case p.at <= n:
			late = append(late, r)
		}
	}
	what := c.history[n]
	switch {
	case len(gone) > 0 && c.ranks > 2 && len(gone)+len(never) == c.ranks-1:
		c.fail(nil, "%s: no other rank answers any more in the middle of it: the switch is down, or this rank's link; heard of last %v ago",
			what, time.Since(c.peers[gone[0]].heard).Round(100*time.Millisecond))
	case len(gone) > 0:
		c.fail(gone, "%s: %s in the middle of it: ended, killed, or not to be reached; heard of last %v ago",
			what, say(gone, "does not answer any more", "do not answer any more"), time.Since(c.peers[gone[0]].heard).Round(100*time.Millisecond))
	case idle < c.patience:
	case len(late) > 0:
		c.fail(late, "%s: nothing has moved for %v: %s (this is collective %d)", what, idle.Round(time.Second), say(late, "has not come to it", "have not come to it"), n)
	case len(never) == c.ranks-1:
		c.fail(never, "%s: nothing has moved for %v, and no other rank was ever heard of: not started, or this link leads to none of them", what, idle.Round(time.Second))
	case len(never) > 0:
		c.fail(never, "%s: nothing has moved for %v: %s: not started?", what, idle.Round(time.Second), say(never, "was never heard of", "were never heard of"))
	default:
		c.fail(nil, "%s: nothing has moved for %v, though every rank is in it: the switch is down, was not programmed for this job, or still holds an earlier one", what, idle.Round(time.Second))
	}
}

// unsaid lists the ranks that have not said what collective n is to them: those that do not answer, since a time, and those
// that have not come to it. It is called with mu held.
func (c *Comm) unsaid(n uint64, since time.Time) (silent, late []int) {
	for r, p := range c.peers {
		switch {
		case r == c.rank || p.answer && p.about == n && p.what != "":
		case p.at > n || p.heard.Before(since):
			silent = append(silent, r)
		default:
			late = append(late, r)
		}
	}
	return silent, late
}

// doubtMost is how long a disagreement may wait for ranks that have not said what they do.
const doubtMost = 2 * time.Second

// disagree fails the communicator if ranks mean different things by collective n. Who is wrong is decided when all have said
// what they do, or some have not for doubtMost. It is called with mu held.
func (c *Comm) disagree(n uint64) bool {
	if c.history[n] == "" {
		return false // this rank has not come to it
	}
	by := map[string][]int{c.history[n]: {c.rank}}
	for r, p := range c.peers {
		if r != c.rank && p.answer && p.about == n && p.what != "" {
			by[p.what] = append(by[p.what], r)
		}
	}
	if len(by) == 1 {
		return false
	}
	if c.doubt.IsZero() {
		c.doubt = time.Now()
	}
	if silent, late := c.unsaid(n, c.doubt); len(silent)+len(late) > 0 && time.Since(c.doubt) < doubtMost {
		return false
	}
	// The most are right; of as many, those with the lowest rank.
	var texts []string
	for text, ranks := range by {
		slices.Sort(ranks)
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		if d := len(by[b]) - len(by[a]); d != 0 {
			return d
		}
		return by[a][0] - by[b][0]
	})
	var wrong []int
	said := fmt.Sprintf("%s %s", say(by[texts[0]], "does", "do"), texts[0])
	for _, text := range texts[1:] {
		wrong = append(wrong, by[text]...)
		said += fmt.Sprintf(", but %s %s", say(by[text], "does", "do"), text)
	}
	slices.Sort(wrong)
	c.fail(wrong, "the ranks disagree about collective %d: %s", n, said)
	return true
}

// say is "rank 3 has" or "ranks 1 and 3 have".
func say(ranks []int, one, more string) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d %s", ranks[0], one)
	}
	var words []string
	for _, r := range ranks {
		words = append(words, fmt.Sprint(r))
	}
	last := len(words) - 1
	return fmt.Sprintf("ranks %s and %s %s", strings.Join(words[:last], ", "), words[last], more)
}
