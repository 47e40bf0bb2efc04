// Package roce holds RoCEv2 frames of the reliable connection service as the engine and the hosts see
// them (IBTA A17 for the encapsulation, IBTA 9 for BTH and its extended headers, protocol.md 3).
//
// Packet is the value the golden model works on: Decode makes it of a whole Ethernet frame (without
// FCS) and names the first rule a bad frame breaks; Encode writes a whole frame. Dissect reads what it
// can of a bad frame too. BTH, RETH, AETH and ImmDt are gopacket layers; Parser strings them together
// behind gopacket's own. The UDP destination port 4791 alone makes a frame RoCEv2.
//
//	Ethernet | 802.1Q x 0..2 | IPv4 or IPv6 | UDP | BTH | RETH? | ImmDt? | AETH? | payload | pad | ICRC
package roce
