package roce

import "github.com/epic-inc/epic/golden/spec"

func hasRETH(o spec.Opcode) bool { info, _ := o.Info(); return info.RETH }
func hasImm(o spec.Opcode) bool  { info, _ := o.Info(); return info.ImmDt }
func hasAETH(o spec.Opcode) bool { info, _ := o.Info(); return info.AETH }

// extSize is the number of bytes between BTH and the payload; 0 for an opcode that is not RC's.
func extSize(o spec.Opcode) int { info, _ := o.Info(); return info.HeaderBytes() }

// AETH syndromes (IBTA 9.7.5.1, tables 43 and 44).
const (
	SyndromeACK          = 0x1f // ACK with unlimited credits
	SyndromeRNR          = 0x20 // RNR NAK, the timer code in bits 4:0
	SyndromeNAKSequence  = 0x60
	SyndromeNAKInvalid   = 0x61 // invalid request
	SyndromeNAKAccess    = 0x62 // remote access error
	SyndromeNAKOperation = 0x63 // remote operational error
	SyndromeNAKRD        = 0x64 // invalid RD request
)

// goodSyndrome says that a syndrome is an ACK, an RNR NAK or a NAK of a defined code.
func goodSyndrome(s uint8) bool {
	return s < 0x40 || s >= SyndromeNAKSequence && s <= SyndromeNAKRD
}
