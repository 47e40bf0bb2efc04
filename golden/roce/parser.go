package roce

import (
	"errors"
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/epic-inc/epic/golden/spec"
)

// Parser decodes frames into gopacket layers, without allocating once it is warm. It dispatches to BTH
// on the UDP destination port alone: registering the port with gopacket would make it follow the source
// port too. It reads; it does not judge as Decode does (no checksum, no ICRC, no rule of length beyond
// what it needs). Not safe for concurrent use; the layers hold the last frame and alias it.
type Parser struct {
	Ethernet layers.Ethernet
	VLAN     []layers.Dot1Q // outermost first
	IPv4     layers.IPv4
	IPv6     layers.IPv6
	UDP      layers.UDP
	BTH      BTH
	RETH     RETH
	ImmDt    ImmDt
	AETH     AETH
	Payload  gopacket.Payload

	parser *gopacket.DecodingLayerParser
	found  []gopacket.LayerType
}

// NewParser makes a Parser.
func NewParser() *Parser {
	p := &Parser{}
	p.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &p.Ethernet, &tagStack{to: p},
		&p.IPv4, &p.IPv6, &udpByDestination{UDP: &p.UDP}, &p.BTH, &rethOf{RETH: &p.RETH, bth: &p.BTH},
		&p.ImmDt, &p.AETH, &p.Payload)
	return p
}

// Decode reads a frame and returns the types of the layers found, in order. Layers that were not found
// hold what an earlier frame left. The error says what is missing or of which type the next layer is.
func (p *Parser) Decode(frame []byte) ([]gopacket.LayerType, error) {
	p.VLAN = p.VLAN[:0]
	err := p.parser.DecodeLayers(frame, &p.found)
	if err == nil && p.parser.Truncated {
		err = errors.New("a length exceeds the frame")
	}
	if n := len(p.found); err == nil && (p.found[n-1] == layers.LayerTypeEthernet || p.found[n-1] == layers.LayerTypeDot1Q) {
		err = fmt.Errorf("nothing after %v", p.found[n-1])
	}
	if err != nil {
		return p.found, fmt.Errorf("parse frame of %d bytes: %w", len(frame), err)
	}
	return p.found, nil
}

// tagStack keeps every tag, where one layers.Dot1Q would keep the innermost.
type tagStack struct {
	layers.Dot1Q
	to *Parser
}

func (t *tagStack) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := t.Dot1Q.DecodeFromBytes(data, df); err != nil {
		return err
	}
	t.to.VLAN = append(t.to.VLAN, t.Dot1Q)
	return nil
}

// udpByDestination follows the destination port, and that to BTH only.
type udpByDestination struct{ *layers.UDP }

func (u *udpByDestination) NextLayerType() gopacket.LayerType {
	if u.DstPort == spec.RoCEUDPPort {
		return LayerTypeBTH
	}
	return gopacket.LayerTypePayload
}

// rethOf knows from BTH what comes after RETH.
type rethOf struct {
	*RETH
	bth *BTH
}

func (r *rethOf) NextLayerType() gopacket.LayerType {
	if hasImm(r.bth.Opcode) {
		return LayerTypeImmDt
	}
	return gopacket.LayerTypePayload
}
