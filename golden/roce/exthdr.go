package roce

import (
	"encoding/binary"
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// RETH is the RDMA extended transport header (IBTA 9.3.3) of WRITE First and WRITE Only.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                    Virtual address [63:32]                    |
//	+---------------------------------------------------------------+
//	|                    Virtual address [31:0]                     |
//	+---------------------------------------------------------------+
//	|                             R_Key                             |
//	+---------------------------------------------------------------+
//	|                           DMA length                          |
//	+---------------------------------------------------------------+
type RETH struct {
	layers.BaseLayer
	VA        uint64
	RKey      uint32
	DMALength uint32 // bytes of the whole message
}

// LayerType is LayerTypeRETH.
func (r *RETH) LayerType() gopacket.LayerType { return LayerTypeRETH }

// CanDecode is LayerTypeRETH.
func (r *RETH) CanDecode() gopacket.LayerClass { return LayerTypeRETH }

// NextLayerType is the payload. That of WRITE Only with Immediate has ImmDt in between; only BTH knows,
// and Parser and the decoder of LayerTypeBTH ask it.
func (r *RETH) NextLayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

func (r *RETH) read(d []byte) {
	r.VA = binary.BigEndian.Uint64(d)
	r.RKey = binary.BigEndian.Uint32(d[8:])
	r.DMALength = binary.BigEndian.Uint32(d[12:])
}

func (r *RETH) write(d []byte) {
	binary.BigEndian.PutUint64(d, r.VA)
	binary.BigEndian.PutUint32(d[8:], r.RKey)
	binary.BigEndian.PutUint32(d[12:], r.DMALength)
}

// DecodeFromBytes reads the 16 bytes at the front of data.
func (r *RETH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := enough("RETH", data, RETHSize, df); err != nil {
		return err
	}
	r.read(data)
	r.BaseLayer = layers.BaseLayer{Contents: data[:RETHSize], Payload: data[RETHSize:]}
	return nil
}

// SerializeTo puts the header before what the buffer holds.
func (r *RETH) SerializeTo(buf gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	d, err := buf.PrependBytes(RETHSize)
	if err != nil {
		return fmt.Errorf("RETH: prepend: %w", err)
	}
	r.write(d)
	return nil
}

// AETH is the ACK extended transport header (IBTA 9.3.5) of ACKNOWLEDGE.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+-----------------------------------------------+
//	|   Syndrome    |                      MSN                      |
//	+---------------+-----------------------------------------------+
type AETH struct {
	layers.BaseLayer
	Syndrome uint8
	MSN      uint32 // 24 bits: messages completed
}

// LayerType is LayerTypeAETH.
func (a *AETH) LayerType() gopacket.LayerType { return LayerTypeAETH }

// CanDecode is LayerTypeAETH.
func (a *AETH) CanDecode() gopacket.LayerClass { return LayerTypeAETH }

// NextLayerType is the payload, which a good ACKNOWLEDGE has none of.
func (a *AETH) NextLayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

func (a *AETH) read(d []byte) { a.Syndrome, a.MSN = d[0], uint24(d[1:]) }

func (a *AETH) write(d []byte) {
	d[0] = a.Syndrome
	putUint24(d[1:], a.MSN)
}

// DecodeFromBytes reads the 4 bytes at the front of data.
func (a *AETH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := enough("AETH", data, AETHSize, df); err != nil {
		return err
	}
	a.read(data)
	a.BaseLayer = layers.BaseLayer{Contents: data[:AETHSize], Payload: data[AETHSize:]}
	return nil
}

// SerializeTo puts the header before what the buffer holds.
func (a *AETH) SerializeTo(buf gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	d, err := buf.PrependBytes(AETHSize)
	if err != nil {
		return fmt.Errorf("AETH: prepend: %w", err)
	}
	a.write(d)
	return nil
}

// ImmDt is the immediate data header (IBTA 9.3.6), after RETH if there is one.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                        Immediate data                         |
//	+---------------------------------------------------------------+
type ImmDt struct {
	layers.BaseLayer
	Value uint32 // first byte on the wire most significant
}

// LayerType is LayerTypeImmDt.
func (i *ImmDt) LayerType() gopacket.LayerType { return LayerTypeImmDt }

// CanDecode is LayerTypeImmDt.
func (i *ImmDt) CanDecode() gopacket.LayerClass { return LayerTypeImmDt }

// NextLayerType is the payload.
func (i *ImmDt) NextLayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

// DecodeFromBytes reads the 4 bytes at the front of data.
func (i *ImmDt) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := enough("ImmDt", data, ImmDtSize, df); err != nil {
		return err
	}
	i.Value = binary.BigEndian.Uint32(data)
	i.BaseLayer = layers.BaseLayer{Contents: data[:ImmDtSize], Payload: data[ImmDtSize:]}
	return nil
}

// SerializeTo puts the header before what the buffer holds.
func (i *ImmDt) SerializeTo(buf gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	d, err := buf.PrependBytes(ImmDtSize)
	if err != nil {
		return fmt.Errorf("ImmDt: prepend: %w", err)
	}
	binary.BigEndian.PutUint32(d, i.Value)
	return nil
}

func enough(layer string, data []byte, want int, df gopacket.DecodeFeedback) error {
	if len(data) < want {
		df.SetTruncated()
		return fmt.Errorf("%s: got %d bytes, want %d", layer, len(data), want)
	}
	return nil
}

func decodeRETH(data []byte, p gopacket.PacketBuilder) error {
	r := &RETH{}
	if err := r.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(r)
	return p.NextDecoder(r.NextLayerType())
}

func decodeAETH(data []byte, p gopacket.PacketBuilder) error {
	a := &AETH{}
	if err := a.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(a)
	return p.NextDecoder(a.NextLayerType())
}

func decodeImmDt(data []byte, p gopacket.PacketBuilder) error {
	i := &ImmDt{}
	if err := i.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(i)
	return p.NextDecoder(i.NextLayerType())
}
