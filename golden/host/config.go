package host

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
)

// MaxMessagePackets is the most packets of one message.
const MaxMessagePackets = 1 << 20

// Config is one queue pair after it has been connected.
type Config struct {
	Name    string // for messages
	MAC     roce.MAC
	PeerMAC roce.MAC
	IP      netip.Addr
	PeerIP  netip.Addr
	QPN     uint32 // 24 bits
	PeerQPN uint32
	PKey    uint16
	// UDPSport, TTL, TOS, MigReq and VLAN are written into what is sent.
	UDPSport uint16
	TTL      uint8
	TOS      uint8
	MigReq   bool
	VLAN     *uint16 // TCI of the one 802.1Q tag to send with; nil: none

	SendPSN psn.PSN // first psn of what it sends (sq_psn)
	RecvPSN psn.PSN // first psn it expects (rq_psn)
	PSNBits int     // width of a PSN, 3..24; 0 means 24. Less than 24 is for model checking only
	MTU     int     // path MTU: 256, 512, 1024, 2048 or 4096

	Timeout     int // local ACK timeout: 4.096 us * 2^Timeout, 1..31; 0: none
	RetryCnt    int // timeouts and NAKs without progress it survives, 0..6; 7: any number
	RNRRetry    int // RNR NAKs without progress it survives, 0..6; 7: any number
	MinRNRTimer int // timer code of the RNR NAKs it sends, 0..31

	Settings Settings
}

// Settings are the behaviours in which NICs differ.
type Settings struct {
	// Window is the most packets sent and not acknowledged; at least 1.
	Window int
	// AckReqEvery sets AckReq on every n-th packet since the last one that had it, beside message
	// ends; 0: on message ends alone.
	AckReqEvery int
	// NAKOncePerACK obeys a sequence NAK only once until an ACK is accepted: another one counts as the
	// ACK of what is before it, but nothing is sent again until the timeout. Nor does anything but an
	// ACK renew retry_cnt and rnr_retry; if not set, whatever acknowledges something does.
	NAKOncePerACK bool
	// AckBeyondCompletes takes an ACK of a psn that was never sent for one of all that was. If not
	// set, such an ACK is ignored.
	AckBeyondCompletes bool
	// LazyTimer lets the timer run on when everything is acknowledged, so that the packet sent next
	// inherits what is left of it. If not set, the timer stops then.
	LazyTimer bool
	// RNRSilences answers nothing after an RNR NAK until its psn comes again, as after a sequence NAK.
	RNRSilences bool
	// CheckLength refuses a First or Middle that does not carry a full MTU (NAK 0x61).
	CheckLength bool
	// LongStatus is the status of a receive that was too short for its message.
	LongStatus Status
}

// LinuxRXE is Linux 6.1's rdma_rxe.
func LinuxRXE() Settings {
	return Settings{
		Window:             129, // RXE_MAX_UNACKED_PSNS + 1
		AckReqEvery:        66,
		NAKOncePerACK:      true,
		AckBeyondCompletes: true,
		LazyTimer:          true,
		LongStatus:         StatusLocalQPError,
	}
}

// StrictNIC keeps to IBTA volume 1, 9.7: every NAK is obeyed, an ACK beyond what was sent is ignored,
// the timer stops when nothing is outstanding, nothing is said after an RNR NAK, lengths are checked.
// Window and AckReqEvery, which IBTA leaves open, are those of a small NIC.
func StrictNIC() Settings {
	return Settings{
		Window:      256,
		AckReqEvery: 32,
		RNRSilences: true,
		CheckLength: true,
		LongStatus:  StatusLocalLength,
	}
}

// Presets lists the names that Preset takes.
func Presets() []string { return []string{"linux-rxe", "strict-nic"} }

// Preset returns the settings of a name.
func Preset(name string) (Settings, error) {
	switch name {
	case "linux-rxe":
		return LinuxRXE(), nil
	case "strict-nic":
		return StrictNIC(), nil
	}
	return Settings{}, fmt.Errorf("host preset: got %q, want one of %v", name, Presets())
}

// space is the circle of its PSNs.
func (c Config) space() (psn.Space, error) {
	if c.PSNBits == 0 {
		return psn.Wire, nil
	}
	return psn.NewSpace(c.PSNBits)
}

// Validate returns nil if New takes the configuration, or every reason why not.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	inRange := func(what string, got, lo, hi int) {
		if got < lo || got > hi {
			bad("%s: got %d, want %d..%d", what, got, lo, hi)
		}
	}
	if !c.IP.IsValid() || c.IP.Is4In6() || !c.PeerIP.IsValid() || c.PeerIP.Is4In6() || c.IP.Is4() != c.PeerIP.Is4() {
		bad("IP and peer IP: got %v and %v, want two IPv4 or two IPv6 addresses", c.IP, c.PeerIP)
	}
	for _, q := range []struct {
		what string
		qpn  uint32
	}{{"QPN", c.QPN}, {"peer QPN", c.PeerQPN}} {
		if q.qpn == 0 || q.qpn > psn.Mask {
			bad("%s: got %#x, want 0x000001..0xffffff", q.what, q.qpn)
		}
	}
	inRange("PSN bits", c.PSNBits, 0, psn.Bits)
	if space, err := c.space(); err == nil && (!space.Valid(c.SendPSN) || !space.Valid(c.RecvPSN)) {
		bad("first PSNs: got %#x and %#x, want at most %#x", uint32(c.SendPSN), uint32(c.RecvPSN), uint32(space.Last()))
	}
	if !roce.ValidMTU(c.MTU) {
		bad("MTU: got %d, want %s", c.MTU, roce.WantMTU())
	}
	inRange("timeout", c.Timeout, 0, 31)
	inRange("retry_cnt", c.RetryCnt, 0, 7)
	inRange("rnr_retry", c.RNRRetry, 0, 7)
	inRange("min_rnr_timer", c.MinRNRTimer, 0, 31)
	inRange("window", c.Settings.Window, 1, psn.MaxWindow)
	inRange("AckReq every", c.Settings.AckReqEvery, 0, psn.MaxWindow)
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("host %q: %w", c.Name, errors.Join(errs...))
}
