package roce

import "github.com/epic-inc/epic/golden/spec"

func hasRETH(o spec.Opcode) bool { info, _ := o.Info(); return info.RETH }
func hasImm(o spec.Opcode) bool  { info, _ := o.Info(); return info.ImmDt }
func hasAETH(o spec.Opcode) bool { info, _ := o.Info(); return info.AETH }

// extSize is the number of bytes between BTH and the payload; 0 for an opcode that is not RC's.
func extSize(o spec.Opcode) int { info, _ := o.Info(); return info.HeaderBytes() }

// goodSyndrome says that a syndrome is an ACK, an RNR NAK or a NAK of a defined code.
func goodSyndrome(s uint8) bool {
	return s < 0x40 || s >= spec.SyndromeNakSequence && s <= spec.SyndromeNakRd
}
