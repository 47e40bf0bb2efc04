package engine

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// None marks an endpoint that has no pipe in one direction.
const None = -1

// Limits of a configuration. They are the widths of the hardware tables in rtl/spec/inc.yaml.
const (
	MaxEndpoints = 1 << 12       // out_list.endpoint
	MaxPipes     = 1 << 8        // ep_cfg.in_pipe
	MaxPorts     = 1 << 6        // ep_cfg.port
	MaxFan       = spec.FaninMax // ins, and outs, of one pipe
	MinPSNBits   = 3             // smallest space a model checker may ask for
	MaxPSNBits   = psn.Bits
	MinSlots     = 2
	MaxSlots     = 1 << 22 // protocol.md 1

	MaxTimeoutTicks  = 1<<20 - 1 // pipe_cfg.timeout
	MaxClocksPerTick = 1<<24 - 1 // register of the clocks of a tick
)

// Config describes one engine: its endpoints, its pipes and which variant of the protocol it follows.
// It is a value: an Engine keeps its own copy. Endpoints and pipes are named by their index here.
type Config struct {
	Name      string // of the switch, for messages
	Endpoints []Endpoint
	Pipes     []Pipe
	PSNBits   int  // width of a PSN, 3..24; 0 means 24. Less than 24 is for model checking only
	Ports     int  // number of ports, 1..64; 0 means 64
	Blocks    int  // payload pool in blocks of spec.BlockBytes; 0 means pipes' Base is not checked
	NoFloat   bool // the build reduces integers only: hardware's parameter FLOAT is 0
	Variant   Variant
}

// Variant selects between the protocol's default and the alternatives that protocol.md names.
// The zero value is the default.
type Variant struct {
	// Strict drops data beyond a gap instead of keeping it (protocol.md 6, option `strict`).
	Strict bool
	// PlainNAK answers in-order data beyond the window with a sequence NAK instead of an RNR NAK
	// (the paper's rule, protocol.md 6). It eats the sender's retry count while a peer is late.
	PlainNAK bool
	// SparseAckReq sets AckReq only at least every N/4 packets, on every Last/Only and on every
	// resend, instead of on every packet (protocol.md 3).
	SparseAckReq bool
	// Untiring counts no retries: a timeout never puts an out in error, as a host's retry_cnt of 7 never does. For model
	// checking: it allows all that any R allows, with fewer states.
	Untiring bool
	// Mistake breaks the engine in one way.
	Mistake Mistake
}

// Endpoint is one end of an edge: the local and the peer's addresses, and the pipes behind it.
type Endpoint struct {
	Name    string
	Port    int      // switch port, 0..63
	MAC     roce.MAC // own
	PeerMAC roce.MAC
	IP      netip.Addr // own; IPv4 or IPv6, the same as the peer's
	PeerIP  netip.Addr
	QPN     uint32 // own, 24 bits; its low bits are the hardware's table index
	PeerQPN uint32 // 24 bits
	PKey    uint16 // bit 15: full member
	// UDPSport, TTL, TOS, MigReq and VLAN are written into what the engine sends.
	UDPSport uint16
	TTL      uint8
	TOS      uint8 // bits 1:0 are ECN; a result of which a contribution carried CE goes out with 3
	MigReq   bool
	VLAN     *uint16 // TCI of the one 802.1Q tag to send with; nil: none. A received tag decides nothing
	PSN0     psn.PSN // first psn in both directions
	InPipe   int     // data arriving here belongs to this pipe; None: no data is taken
	OutPipe  int     // results of this pipe leave here, and ACKs arrive here; None: neither
	InIndex  int     // bit of this endpoint in the slots' bitmaps: its position in InPipe's Ins
	Leaf     bool    // the peer is a rank: Mode-II reflects ACKs, and replays to the asker, at leaves only
	Rewrite  *Rewrite
}

// Rewrite lets an endpoint take RDMA WRITEs, and send them: a contribution to InVA + x becomes a result
// to OutVA + x (protocol.md 3).
type Rewrite struct {
	InVA  uint64 // virtual address that the peer's WRITEs name for offset 0
	OutVA uint64 // virtual address at the peer for offset 0
	RKey  uint32 // of the peer's memory
}

// Pipe is the unit of aggregation and replication.
type Pipe struct {
	Name       string
	Mode       int // protocol mode, 1..3
	Op         spec.Op
	DType      spec.DType
	Ins        []int // endpoint indices, 1..64, in the order of their bits
	Outs       []int // endpoint indices, 1..64, in the order of service
	N          int   // slots, in Mode-I packets of a buffer: a power of two, 2..2^22, at most a quarter of the PSN space
	MTU        int   // U, payload bytes of a full packet: 256, 512, 1024, 2048 or 4096
	PSN0       psn.PSN
	AckEvery   int // A: an in is acknowledged at least every A packets; 1..max(1, N/4)
	RNRCode    int // timer code of the RNR NAKs sent, 0..31 (IBTA table 45; 0 is 655 ms, 1 is 10 us)
	Retries    int // R: timeouts without progress that an out survives, 0..15
	BackoffMax int // the timeout doubles at most this often, 0..7
	Timeout    int // retransmission timeout in ticks of 10 us, 1..2^20-1
	Base       int // first block in the payload pool, 0..65535; golden itself has no use for it

	Reproducible bool          // F payload copies a slot, summed in the order of Ins when the last is in; Mode-I always does
	Unpinned     bool          // a control signal opens each window and sets Op and DType (protocol.md 10)
	Coll         spec.CollType // what an unpinned pipe is for; AllReduce takes Barrier too
	Root         int           // root rank of an unpinned Reduce or Broadcast pipe, 0..65535
	AckRule      spec.AckRule  // Mode-II: what becomes of ACKs that arrive at an out
	ReplayAll    bool          // Mode-II: a replay goes to every out, not only to the leaf that asked
}

// Blocks returns how many blocks of the payload pool the pipe occupies.
func (p Pipe) Blocks() int {
	blocks := p.N * (p.MTU / spec.BlockBytes)
	switch {
	case p.Mode == 1:
		blocks *= p.Buffers()
	case p.Reproducible:
		blocks *= len(p.Ins) // copy c of slot s lies N slots behind copy c-1
	}
	return blocks
}

// Buffers returns how many messages a Mode-I pipe has room for: one of each in and their sum; with one in, that
// of the in, which is the result.
func (p Pipe) Buffers() int {
	if len(p.Ins) == 1 {
		return 1
	}
	return len(p.Ins) + 1
}

// MessageBytes returns the size of the largest message that a Mode-I pipe takes, MSG_KB in bytes.
func (p Pipe) MessageBytes() int { return p.N * p.MTU }

// EntryIndex returns the hardware's number of an endpoint, the low bits of its QPN, in a table of
// `entries` (a power of two) entries.
func (c Config) EntryIndex(endpoint, entries int) int {
	return int(c.Endpoints[endpoint].QPN) & (entries - 1)
}

// Validate returns nil if an engine can run the configuration, or every reason why not, each with
// the name of what is wrong, what was got and what is allowed.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	psnBits := c.psnBits()
	if psnBits < MinPSNBits || psnBits > MaxPSNBits {
		bad("PSN bits: got %d, want %d..%d", psnBits, MinPSNBits, MaxPSNBits)
		return c.wrap(errs)
	}
	ports := c.Ports
	if ports == 0 {
		ports = MaxPorts
	}
	if ports < 1 || ports > MaxPorts {
		bad("ports: got %d, want 1..%d", c.Ports, MaxPorts)
	}
	if len(c.Endpoints) > MaxEndpoints {
		bad("endpoints: got %d, want at most %d", len(c.Endpoints), MaxEndpoints)
	}
	if len(c.Pipes) > MaxPipes {
		bad("pipes: got %d, want at most %d", len(c.Pipes), MaxPipes)
	}

	byQPN := make(map[uint32]int, len(c.Endpoints))
	for i, ep := range c.Endpoints {
		name := c.endpointName(i)
		if first, dup := byQPN[ep.QPN]; dup {
			bad("%s: QPN %#06x is already %s's", name, ep.QPN, c.endpointName(first))
		} else {
			byQPN[ep.QPN] = i
		}
		for _, err := range c.checkEndpoint(i, ports, psnBits) {
			bad("%s: %w", name, err)
		}
	}
	for i := range c.Pipes {
		for _, err := range c.checkPipe(i, psnBits) {
			bad("%s: %w", c.pipeName(i), err)
		}
	}
	for i := range c.Pipes {
		for j := range i {
			if c.Blocks > 0 && overlap(c.Pipes[i], c.Pipes[j]) {
				bad("%s: blocks %d..%d overlap those of %s", c.pipeName(i), c.Pipes[i].Base,
					c.Pipes[i].Base+c.Pipes[i].Blocks()-1, c.pipeName(j))
			}
		}
	}
	return c.wrap(errs)
}

func (c Config) checkEndpoint(i, ports, psnBits int) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	ep := c.Endpoints[i]

	if ep.Port < 0 || ep.Port >= ports {
		bad("port: got %d, want 0..%d", ep.Port, ports-1)
	}
	if ep.QPN == 0 || ep.QPN > psn.Mask {
		bad("QPN: got %#x, want 0x000001..0xffffff", ep.QPN)
	}
	if ep.PeerQPN == 0 || ep.PeerQPN > psn.Mask {
		bad("peer QPN: got %#x, want 0x000001..0xffffff", ep.PeerQPN)
	}
	if !ep.IP.IsValid() || ep.IP.Is4In6() {
		bad("IP: got %v, want an IPv4 or IPv6 address", ep.IP)
	}
	if !ep.PeerIP.IsValid() || ep.PeerIP.Is4In6() {
		bad("peer IP: got %v, want an IPv4 or IPv6 address", ep.PeerIP)
	}
	if ep.IP.Is4() != ep.PeerIP.Is4() {
		bad("IP and peer IP: got %v and %v, want two of one version", ep.IP, ep.PeerIP)
	}
	if int64(ep.PSN0) >= 1<<psnBits {
		bad("PSN0: got %#x, want a PSN of %d bits", uint32(ep.PSN0), psnBits)
	}
	if ep.InPipe == None && ep.OutPipe == None {
		bad("neither an in nor an out of a pipe")
	}
	switch {
	case ep.InPipe == None:
	case ep.InPipe < 0 || ep.InPipe >= len(c.Pipes):
		bad("in-pipe: got %d, want 0..%d or none", ep.InPipe, len(c.Pipes)-1)
	default:
		ins := c.Pipes[ep.InPipe].Ins
		if ep.InIndex < 0 || ep.InIndex >= len(ins) || ins[ep.InIndex] != i {
			bad("in-index: got %d, but that is not where %s lists it among its ins %v",
				ep.InIndex, c.pipeName(ep.InPipe), ins)
		}
	}
	switch {
	case ep.OutPipe == None:
	case ep.OutPipe < 0 || ep.OutPipe >= len(c.Pipes):
		bad("out-pipe: got %d, want 0..%d or none", ep.OutPipe, len(c.Pipes)-1)
	default:
		found := 0
		for _, o := range c.Pipes[ep.OutPipe].Outs {
			if o == i {
				found++
			}
		}
		if found != 1 {
			bad("out-pipe: %s lists it %d times among its outs %v, want once",
				c.pipeName(ep.OutPipe), found, c.Pipes[ep.OutPipe].Outs)
		}
	}
	return errs
}

func (c Config) checkPipe(i, psnBits int) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	p := c.Pipes[i]
	inRange := func(what string, got, lo, hi int) {
		if got < lo || got > hi {
			bad("%s: got %d, want %d..%d", what, got, lo, hi)
		}
	}

	inRange("mode", p.Mode, 1, 3)
	largest := min(MaxSlots, 1<<(psnBits-2))
	if p.N < MinSlots || p.N > largest || bits.OnesCount(uint(max(p.N, 0))) != 1 {
		bad("slots: got %d, want a power of two in %d..%d (psn mod N must be continuous where the PSN wraps)",
			p.N, MinSlots, largest)
	} else if p.Mode != 2 {
		inRange("ack every", p.AckEvery, 1, max(1, p.N/4))
	}
	if !roce.ValidMTU(p.MTU) {
		bad("MTU: got %d, want %s", p.MTU, roce.WantMTU())
	}
	if int64(p.PSN0) >= 1<<psnBits {
		bad("PSN0: got %#x, want a PSN of %d bits", uint32(p.PSN0), psnBits)
	}
	inRange("fan-in", len(p.Ins), 1, MaxFan)
	inRange("fan-out", len(p.Outs), 1, MaxFan)
	if p.Mode != 2 { // Mode-II answers nothing and keeps no time
		inRange("RNR timer code", p.RNRCode, 0, 31)
		inRange("retries", p.Retries, 0, 15)
		inRange("back-off limit", p.BackoffMax, 0, 7)
		inRange("timeout in ticks", p.Timeout, 1, MaxTimeoutTicks)
	}
	inRange("base block", p.Base, 0, 1<<16-1)
	if c.Blocks > 0 && p.Base+p.Blocks() > c.Blocks {
		bad("blocks %d..%d exceed the pool of %d", p.Base, p.Base+p.Blocks()-1, c.Blocks)
	}
	if p.AckRule > spec.AckRuleMinimum {
		bad("ACK rule: got %v, want %v, %v or %v", p.AckRule, spec.AckRuleReflect, spec.AckRuleReplicate, spec.AckRuleMinimum)
	}
	if p.Mode == 2 && p.AckRule == spec.AckRuleMinimum && len(p.Ins) != 1 {
		bad("ACK rule %v: got %d ins, want 1: a minimum has one to go to", p.AckRule, len(p.Ins))
	}
	if p.Unpinned {
		if p.Coll > spec.CollTypeBarrier {
			bad("collective: got %v, want %v..%v", p.Coll, spec.CollTypeAllreduce, spec.CollTypeBarrier)
		}
		most := 0
		if p.Coll == spec.CollTypeReduce || p.Coll == spec.CollTypeBroadcast {
			most = 1<<16 - 1
		}
		inRange("root of "+p.Coll.String(), p.Root, 0, most)
	}
	errs = append(errs, c.checkRewrites(i)...)
	errs = append(errs, c.checkMembers(i, "in", p.Ins, func(ep Endpoint) int { return ep.InPipe })...)
	errs = append(errs, c.checkMembers(i, "out", p.Outs, func(ep Endpoint) int { return ep.OutPipe })...)
	return errs
}

// checkMembers checks that each endpoint a pipe lists names that pipe, and starts at its PSN.
func (c Config) checkMembers(pipe int, role string, members []int, of func(Endpoint) int) []error {
	var errs []error
	for n, m := range members {
		if slices.Contains(members[:n], m) {
			errs = append(errs, fmt.Errorf("lists endpoint %d twice as an %s", m, role))
			continue
		}
		if m < 0 || m >= len(c.Endpoints) {
			errs = append(errs, fmt.Errorf("%s endpoint: got %d, want 0..%d", role, m, len(c.Endpoints)-1))
			continue
		}
		ep := c.Endpoints[m]
		if got := of(ep); got != pipe {
			errs = append(errs, fmt.Errorf("lists %s as an %s, whose %s-pipe is %d", c.endpointName(m), role, role, got))
		}
		if ep.PSN0 != c.Pipes[pipe].PSN0 {
			errs = append(errs, fmt.Errorf("starts at psn %#x, but its %s %s at %#x",
				uint32(c.Pipes[pipe].PSN0), role, c.endpointName(m), uint32(ep.PSN0)))
		}
	}
	return errs
}

// checkRewrites: what an in takes, every out can send.
func (c Config) checkRewrites(pipe int) []error {
	var errs []error
	has := func(i int) bool { return i >= 0 && i < len(c.Endpoints) && c.Endpoints[i].Rewrite != nil }
	p := c.Pipes[pipe]
	in := slices.IndexFunc(p.Ins, has)
	if in < 0 {
		return nil
	}
	for _, o := range p.Outs {
		if o >= 0 && o < len(c.Endpoints) && !has(o) {
			errs = append(errs, fmt.Errorf("%s takes RDMA WRITEs, but %s has no rewrite to send them with",
				c.endpointName(p.Ins[in]), c.endpointName(o)))
		}
	}
	return errs
}

// reducible returns nil if the engine can reduce dtype by op.
func (c *Config) reducible(dtype spec.DType, op spec.Op) error {
	if c.NoFloat && reduce.IsFloat(dtype) {
		return fmt.Errorf("%v is not in this build", dtype)
	}
	return reduce.Supported(dtype, op)
}

func overlap(a, b Pipe) bool {
	return a.Base < b.Base+b.Blocks() && b.Base < a.Base+a.Blocks()
}

func (c Config) psnBits() int {
	if c.PSNBits == 0 {
		return MaxPSNBits
	}
	return c.PSNBits
}

func (c Config) wrap(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("engine %q: %w", c.Name, errors.Join(errs...))
}

func (c Config) endpointName(i int) string {
	if n := c.Endpoints[i].Name; n != "" {
		return fmt.Sprintf("endpoint %d (%s)", i, n)
	}
	return fmt.Sprintf("endpoint %d", i)
}

func (c Config) pipeName(i int) string {
	if n := c.Pipes[i].Name; n != "" {
		return fmt.Sprintf("pipe %d (%s)", i, n)
	}
	return fmt.Sprintf("pipe %d", i)
}

// clone returns a copy that shares nothing with c.
func (c Config) clone() Config {
	c.Endpoints = append([]Endpoint(nil), c.Endpoints...)
	for i, ep := range c.Endpoints {
		if ep.VLAN != nil {
			tci := *ep.VLAN
			c.Endpoints[i].VLAN = &tci
		}
		if ep.Rewrite != nil {
			w := *ep.Rewrite
			c.Endpoints[i].Rewrite = &w
		}
	}
	c.Pipes = append([]Pipe(nil), c.Pipes...)
	for i, p := range c.Pipes {
		c.Pipes[i].Ins = append([]int(nil), p.Ins...)
		c.Pipes[i].Outs = append([]int(nil), p.Outs...)
	}
	return c
}
