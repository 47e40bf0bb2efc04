package roce

import (
	"encoding/binary"
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// Sizes of the headers, in bytes (IBTA 9.2, 9.3).
const (
	BTHSize   = 12
	RETHSize  = 16
	AETHSize  = 4
	ImmDtSize = 4
	ICRCSize  = 4
	// CNPBodySize is the reserved body that a congestion notification carries after BTH (IBTA A17.9.3).
	CNPBodySize = 16
)

// Layer types of the transport headers.
var (
	LayerTypeBTH = gopacket.RegisterLayerType(4791, gopacket.LayerTypeMetadata{
		Name: "BTH", Decoder: gopacket.DecodeFunc(decodeBTH)})
	LayerTypeRETH = gopacket.RegisterLayerType(4792, gopacket.LayerTypeMetadata{
		Name: "RETH", Decoder: gopacket.DecodeFunc(decodeRETH)})
	LayerTypeAETH = gopacket.RegisterLayerType(4793, gopacket.LayerTypeMetadata{
		Name: "AETH", Decoder: gopacket.DecodeFunc(decodeAETH)})
	LayerTypeImmDt = gopacket.RegisterLayerType(4794, gopacket.LayerTypeMetadata{
		Name: "ImmDt", Decoder: gopacket.DecodeFunc(decodeImmDt)})
)

// BTH is the base transport header (IBTA 9.2), together with the ICRC that ends the packet.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+-+-+---+-------+-------------------------------+
//	|    OpCode     |S|M|Pad| TVer  |             P_Key             |
//	+-+-+-----------+-+-+---+-------+-------------------------------+
//	|F|B|   Resv6   |                   DestQP                      |
//	+-+-+-----------+-----------------------------------------------+
//	|A|    Resv7    |                     PSN                       |
//	+-+-------------+-----------------------------------------------+
//	|                 extended headers, payload, pad                |
//	+---------------------------------------------------------------+
//	|                     ICRC (least significant byte first)       |
//	+---------------------------------------------------------------+
//
// As a layer its payload is what lies between the 12 bytes and the pad. The data it decodes must be
// exactly the UDP payload: the ICRC is found at its end.
type BTH struct {
	layers.BaseLayer
	Opcode spec.Opcode
	SE     bool    // solicited event
	MigReq bool    // migration state
	Pad    uint8   // pad bytes after the payload, 0..3
	TVer   uint8   // transport header version, 4 bits, 0
	PKey   uint16  // partition key, bit 15: full member
	FECN   bool    // forward congestion notification
	BECN   bool    // backward congestion notification
	Resv6  uint8   // 6 bits; not covered by the ICRC, nor are FECN and BECN
	DestQP uint32  // 24 bits
	AckReq bool    // acknowledge request
	Resv7  uint8   // 7 bits
	PSN    psn.PSN // 24 bits
	ICRC   uint32  // as sent; not checked here, for it covers the headers below
}

// LayerType is LayerTypeBTH.
func (b *BTH) LayerType() gopacket.LayerType { return LayerTypeBTH }

// CanDecode is LayerTypeBTH.
func (b *BTH) CanDecode() gopacket.LayerClass { return LayerTypeBTH }

// NextLayerType is the first extended header of the opcode, or the payload.
func (b *BTH) NextLayerType() gopacket.LayerType {
	switch {
	case hasRETH(b.Opcode):
		return LayerTypeRETH
	case hasAETH(b.Opcode):
		return LayerTypeAETH
	case hasImm(b.Opcode):
		return LayerTypeImmDt
	}
	return gopacket.LayerTypePayload
}

// read takes the fields from the first 12 bytes of d.
func (b *BTH) read(d []byte) {
	_ = d[BTHSize-1]
	b.Opcode = spec.Opcode(d[0])
	b.SE = d[1]&0x80 != 0
	b.MigReq = d[1]&0x40 != 0
	b.Pad = d[1] >> 4 & 3
	b.TVer = d[1] & 0xf
	b.PKey = binary.BigEndian.Uint16(d[2:])
	b.FECN = d[4]&0x80 != 0
	b.BECN = d[4]&0x40 != 0
	b.Resv6 = d[4] & 0x3f
	b.DestQP = uint24(d[5:])
	b.AckReq = d[8]&0x80 != 0
	b.Resv7 = d[8] & 0x7f
	b.PSN = psn.PSN(uint24(d[9:]))
}

// write puts the fields into the first 12 bytes of d; bits beyond a field's width are cut off.
func (b *BTH) write(d []byte) {
	_ = d[BTHSize-1]
	d[0] = byte(b.Opcode)
	d[1] = bit(b.SE, 7) | bit(b.MigReq, 6) | b.Pad&3<<4 | b.TVer&0xf
	binary.BigEndian.PutUint16(d[2:], b.PKey)
	d[4] = bit(b.FECN, 7) | bit(b.BECN, 6) | b.Resv6&0x3f
	putUint24(d[5:], b.DestQP)
	d[8] = bit(b.AckReq, 7) | b.Resv7&0x7f
	putUint24(d[9:], uint32(b.PSN))
}

// DecodeFromBytes reads a whole UDP payload: BTH .. ICRC.
func (b *BTH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < BTHSize+ICRCSize {
		df.SetTruncated()
		return fmt.Errorf("BTH: got %d bytes, want at least %d (BTH %d and ICRC %d)",
			len(data), BTHSize+ICRCSize, BTHSize, ICRCSize)
	}
	b.read(data)
	end := len(data) - ICRCSize
	b.ICRC = binary.LittleEndian.Uint32(data[end:])
	if body := end - BTHSize; int(b.Pad) > body {
		return fmt.Errorf("BTH: pad is %d bytes, want at most the %d between BTH and ICRC", b.Pad, body)
	}
	b.BaseLayer = layers.BaseLayer{Contents: data[:BTHSize], Payload: data[BTHSize : end-int(b.Pad)]}
	return nil
}

// SerializeTo puts BTH before what the buffer holds, and Pad zero bytes and the ICRC field after it.
// With FixLengths, Pad is set to what makes the contents a multiple of 4. The ICRC covers the headers
// below, so it is written as it is: call SetICRC on the finished frame.
func (b *BTH) SerializeTo(buf gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if opts.FixLengths {
		b.Pad = uint8(-len(buf.Bytes()) & 3)
	}
	tail, err := buf.AppendBytes(int(b.Pad&3) + ICRCSize)
	if err != nil {
		return fmt.Errorf("BTH: append pad and ICRC: %w", err)
	}
	clear(tail)
	binary.LittleEndian.PutUint32(tail[len(tail)-ICRCSize:], b.ICRC)
	head, err := buf.PrependBytes(BTHSize)
	if err != nil {
		return fmt.Errorf("BTH: prepend: %w", err)
	}
	b.write(head)
	return nil
}

func decodeBTH(data []byte, p gopacket.PacketBuilder) error {
	b := &BTH{}
	if err := b.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(b)
	if b.NextLayerType() == LayerTypeRETH && hasImm(b.Opcode) {
		return p.NextDecoder(gopacket.DecodeFunc(decodeRETHBeforeImmDt))
	}
	return p.NextDecoder(b.NextLayerType())
}

func decodeRETHBeforeImmDt(data []byte, p gopacket.PacketBuilder) error {
	r := &RETH{}
	if err := r.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(r)
	return p.NextDecoder(LayerTypeImmDt)
}

func uint24(d []byte) uint32 { return uint32(d[0])<<16 | uint32(d[1])<<8 | uint32(d[2]) }

func putUint24(d []byte, v uint32) { d[0], d[1], d[2] = byte(v>>16), byte(v>>8), byte(v) }

func bit(set bool, n uint) byte {
	if set {
		return 1 << n
	}
	return 0
}
