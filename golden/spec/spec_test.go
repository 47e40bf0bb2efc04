package spec

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Values of IBTA table 38; the kinds and headers are protocol.md section 3's.
func TestOpcodes(t *testing.T) {
	for _, tt := range []struct {
		op   Opcode
		wire uint8
		want OpcodeInfo
		head int
	}{
		{OpcodeSendFirst, 0x00, OpcodeInfo{Name: "send_first", First: true}, 0},
		{OpcodeSendMiddle, 0x01, OpcodeInfo{Name: "send_middle"}, 0},
		{OpcodeSendLast, 0x02, OpcodeInfo{Name: "send_last", Last: true}, 0},
		{OpcodeSendLastImm, 0x03, OpcodeInfo{Name: "send_last_imm", Last: true, ImmDt: true}, 4},
		{OpcodeSendOnly, 0x04, OpcodeInfo{Name: "send_only", First: true, Last: true}, 0},
		{OpcodeSendOnlyImm, 0x05, OpcodeInfo{Name: "send_only_imm", First: true, Last: true, ImmDt: true}, 4},
		{OpcodeWriteFirst, 0x06, OpcodeInfo{Name: "write_first", First: true, RETH: true}, 16},
		{OpcodeWriteMiddle, 0x07, OpcodeInfo{Name: "write_middle"}, 0},
		{OpcodeWriteLast, 0x08, OpcodeInfo{Name: "write_last", Last: true}, 0},
		{OpcodeWriteLastImm, 0x09, OpcodeInfo{Name: "write_last_imm", Last: true, ImmDt: true}, 4},
		{OpcodeWriteOnly, 0x0a, OpcodeInfo{Name: "write_only", First: true, Last: true, RETH: true}, 16},
		{OpcodeWriteOnlyImm, 0x0b, OpcodeInfo{Name: "write_only_imm", First: true, Last: true, RETH: true, ImmDt: true}, 20},
		{OpcodeAcknowledge, 0x11, OpcodeInfo{Name: "acknowledge", Kind: KindAck, First: true, Last: true, AETH: true}, 4},
		{OpcodeCNP, 0x81, OpcodeInfo{Name: "cnp", Kind: KindCNP, First: true, Last: true}, 0},
	} {
		t.Run(tt.want.Name, func(t *testing.T) {
			assert.Equal(t, tt.wire, uint8(tt.op))
			info, ok := tt.op.Info()
			require.True(t, ok)
			assert.Equal(t, tt.want, info)
			assert.Equal(t, tt.head, info.HeaderBytes())
			parsed, err := ParseOpcode(tt.want.Name)
			require.NoError(t, err)
			assert.Equal(t, tt.op, parsed)
		})
	}
	assert.Len(t, Opcodes, 14)
	assert.False(t, Opcode(0x0c).Known(), "RDMA READ is not carried")
	assert.Equal(t, "opcode(0x0c)", Opcode(0x0c).String())
	_, err := ParseOpcode("read_request")
	assert.ErrorContains(t, err, `got "read_request", want one of send_first, `)
}

// The order of the checks is what protocol.md and architecture.md say: the wire first, in the order of the headers,
// then the tables, then the state.
func TestVerdictOrder(t *testing.T) {
	order := []Verdict{VerdictOk, VerdictMACError, VerdictNotRoCE, VerdictIPVersion, VerdictIPHeaderLength,
		VerdictIPFragment, VerdictIPLength, VerdictIPChecksum, VerdictUDPLength, VerdictUDPChecksum,
		VerdictBTHLength, VerdictBTHTver, VerdictOpcode, VerdictHeaderLength, VerdictPad, VerdictAETHSyndrome,
		VerdictICRC, VerdictNoEndpoint, VerdictDstIP, VerdictIngressPort, VerdictSrcMAC, VerdictSrcIP, VerdictPKey,
		VerdictCNP, VerdictNoPipe, VerdictWriteNoRewrite, VerdictPayloadLength, VerdictPipeError, VerdictNoSlots,
		VerdictBehind, VerdictBeyond, VerdictDuplicate, VerdictStale, VerdictNoWindow, VerdictMismatch, VerdictAckStale,
		VerdictEpError, VerdictBypassFull, VerdictTxFull, VerdictPoisoned}
	require.Len(t, order, VerdictCount)
	stage := StageWire
	for i, v := range order {
		require.Equal(t, Verdict(i), v)
		info, ok := v.Info()
		require.True(t, ok)
		assert.GreaterOrEqual(t, info.Stage, stage, "%s is found before an earlier stage's verdict", v)
		stage = info.Stage
		assert.NotEmpty(t, v.Doc())
		assert.Equal(t, Counter(i), v.Counter())
		assert.Equal(t, "verdict_"+v.String(), v.Counter().String())
	}
	for v, class := range map[Verdict]Class{VerdictOk: ClassOk, VerdictNotRoCE: ClassBypass,
		VerdictNoEndpoint: ClassBypass, VerdictDstIP: ClassBypass, VerdictICRC: ClassDrop, VerdictBypassFull: ClassDrop,
		Verdict(VerdictCount): ClassDrop} {
		assert.Equal(t, class, v.Class(), v.String())
	}
}

func TestEnumText(t *testing.T) {
	b, err := json.Marshal(map[Cause]Verdict{CauseAckOut: VerdictIPHeaderLength})
	require.NoError(t, err)
	assert.Equal(t, `{"ack_out":"ip_header_length"}`, string(b))
	var back map[Cause]Verdict
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, map[Cause]Verdict{CauseAckOut: VerdictIPHeaderLength}, back)

	_, err = Verdict(VerdictCount).MarshalText()
	assert.EqualError(t, err, "verdict: got 40, want 0..39")
	assert.Equal(t, "verdict(4096)", Verdict(4096).String())
	var d DType
	assert.EqualError(t, d.UnmarshalText([]byte("double")),
		`dtype: got "double", want one of int32, uint32, int64, float32, float16, bfloat16, int8`)
	op, err := ParseOp("xor")
	require.NoError(t, err)
	assert.Equal(t, Op(5), op, "protocol.md 10")
	assert.Equal(t, "int8", DType(6).String(), "protocol.md 10")
	assert.Equal(t, "barrier", CollType(3).String(), "protocol.md 10")
	assert.Equal(t, Counter(CounterCount-1), CounterTableRefused)
	assert.Equal(t, CounterCount, VerdictCount+EventCount)
}

// IBTA table 45 in microseconds; a tick is 10.
func TestRNRTicks(t *testing.T) {
	for code, us := range map[uint8]int{0: 655360, 1: 10, 2: 20, 5: 60, 8: 160, 12: 640, 16: 2560, 20: 10240, 26: 81920, 31: 491520} {
		assert.Equal(t, uint32(us*1000/TickNs), RNRTicks(code), "code %d", code)
		assert.Equal(t, RNRTicks(code), RNRTicks(code|0x20), "the RNR bits of the syndrome do not count")
	}
}

func TestRecordLayout(t *testing.T) {
	r := Record{Clock: 0x1122334455667788, Cause: CauseNak, Verdict: VerdictEpError, PSN: 0xfffff0,
		Groups: GroupTx | GroupSlot, Bitmap: 0xfedcba9876543210, Degree: 3}
	b := r.Append([]byte{0xaa})[1:]
	require.Len(t, b, RecordBytes)
	assert.Equal(t, []byte{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 3, 0, 0, 0, 36, 0, 0, 0}, b[:16])
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	assert.Equal(t, uint32(0xfffff0), word(7))
	assert.Equal(t, uint32(0b1010), word(9))
	assert.Equal(t, uint32(0x76543210), word(27))
	assert.Equal(t, uint32(0xfedcba98), word(28))
	assert.Equal(t, uint32(3), word(29))

	assert.True(t, r.Has(RecordFieldPSN))
	assert.True(t, r.Has(RecordFieldCursor))
	assert.False(t, r.Has(RecordFieldEPSN))
	assert.Equal(t, "tx|slot", r.Groups.String())
	assert.Contains(t, r.String(), "cause=nak verdict=ep_error")
	assert.NotContains(t, r.String(), "epsn=")
}

// Every field has its own words, named, set and read by index as in the struct.
func TestRecordFields(t *testing.T) {
	word := 0
	typ := reflect.TypeFor[Record]()
	require.Equal(t, typ.NumField(), len(RecordFields))
	for i, f := range RecordFields {
		assert.Equal(t, word, f.Word, f.Name)
		word += f.Words
		var r Record
		want := uint64(0xa1b2c3d4)
		if f.Words == 2 {
			want |= 0x5e6f7081 << 32
		}
		r.SetField(i, want)
		assert.Equal(t, want, r.Field(i), f.Name)
		assert.Equal(t, want, reflect.ValueOf(r).Field(i).Uint(), f.Name)
		b := r.Append(nil)
		for w := range RecordWords {
			var expect uint32
			if w >= f.Word && w < f.Word+f.Words {
				expect = uint32(want >> (32 * (w - f.Word)))
			}
			assert.Equal(t, expect, binary.LittleEndian.Uint32(b[4*w:]), "%s, word %d", f.Name, w)
		}
		var back Record
		require.NoError(t, back.Decode(b))
		assert.Equal(t, r, back)
	}
	assert.Equal(t, RecordWords, word)
	assert.Panics(t, func() { (&Record{}).Field(len(RecordFields)) })
	assert.EqualError(t, new(Record).Decode(make([]byte, 7)), "record: got 7 bytes, want 120")
}

func TestEntryLayout(t *testing.T) {
	// port is bits 11:6, in_index 17:12, qpn 57:34 and mac 217:170 of ep_cfg.
	w := (&EpCfg{Valid: true, OutValid: true, Port: 0x2a, InIndex: 0x15, QPN: 0x800001, MAC: 0x525400000063}).Words()
	require.Len(t, w, 22)
	assert.Equal(t, []uint32{1 | 1<<5 | 0x2a<<6 | 0x15<<12, 1<<2 | 1<<25, 0, 0, 0, 0x63 << 10, 0x525400 << 2, 0}, w[:8])

	// base_block is bits 61:46 of pipe_cfg.
	w = (&PipeCfg{Valid: true, Mode: 3, Op: OpXor, DType: DTypeInt8, FanIn: 64, BaseBlock: 0x8001}).Words()
	assert.Equal(t, []uint32{1 | 3<<1 | 5<<3 | 6<<7 | 64<<11, 0x8001 << 14, 0, 0, 0, 0}, w)
}

// Each bit of an entry belongs to exactly one field, and packing is the inverse of unpacking.
func TestEntries(t *testing.T) {
	assert.Nil(t, NewEntry(TableID(len(Tables))))
	rng := rand.New(rand.NewPCG(1, 2))
	for i, info := range Tables {
		t.Run(info.Name, func(t *testing.T) {
			id := TableID(i)
			assert.Equal(t, id, NewEntry(id).Table())
			lsb := 0
			for _, f := range info.Fields {
				assert.Equal(t, lsb, f.LSB, f.Name)
				lsb += f.Width
			}
			assert.Equal(t, info.Bits, lsb)
			for range 100 {
				words := make([]uint32, info.Words)
				for j := range words {
					words[j] = rng.Uint32()
				}
				if r := info.Bits % 32; r != 0 {
					words[len(words)-1] &= 1<<r - 1
				}
				e := NewEntry(id)
				require.NoError(t, e.SetWords(words))
				assert.Equal(t, words, e.Words())
				assert.NoError(t, e.Validate())
			}
			assert.ErrorContains(t, NewEntry(id).SetWords(make([]uint32, info.Words+1)), "words, want")
		})
	}
}

// A value too wide for its field is named; it never reaches a neighbour.
func TestEntryTooWide(t *testing.T) {
	e := EpCfg{QPN: 1 << 24}
	assert.EqualError(t, e.Validate(), "ep_cfg.qpn: got 16777216, want 0..16777215 (24 bits)")
	assert.Equal(t, make([]uint32, 22), e.Words())
	p := PipeCfg{Mode: 4}
	assert.EqualError(t, p.Validate(), "pipe_cfg.mode: got 4, want 0..3 (2 bits)")
	assert.NoError(t, (&EpCfg{QPN: 1<<24 - 1, MAC: 1<<48 - 1, IP: Uint128{math.MaxUint64, math.MaxUint64}}).Validate())
}

func TestEntryDifference(t *testing.T) {
	a, b := &EpCfg{QPN: 0x101, PeerIP: Uint128{Hi: 1}}, &EpCfg{QPN: 0x101}
	field, inA, inB, ok := EntryDifference(a, b)
	assert.True(t, ok)
	assert.Equal(t, []string{"peer_ip", "0x10000000000000000", "0x0"}, []string{field, inA, inB})
	b.QPN = 0x102
	field, inA, inB, _ = EntryDifference(a, b)
	assert.Equal(t, []string{"qpn", "0x101", "0x102"}, []string{field, inA, inB}, "the first")
	_, _, _, ok = EntryDifference(b, b)
	assert.False(t, ok)
}

func TestAddresses(t *testing.T) {
	v4 := netip.MustParseAddr("10.9.0.99")
	assert.Equal(t, Uint128{Lo: 0x0a090063}, Uint128FromAddr(v4))
	assert.Equal(t, v4, Uint128FromAddr(v4).Addr(false))
	v6 := netip.MustParseAddr("fe80:1:2:3:4:5:6:7")
	assert.Equal(t, Uint128{Hi: 0xfe80000100020003, Lo: 0x0004000500060007}, Uint128FromAddr(v6))
	assert.Equal(t, v6, Uint128FromAddr(v6).Addr(true))
	assert.Equal(t, Uint128{}, Uint128FromAddr(netip.Addr{}))

	mac := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 0x63}
	v, err := MACToUint64(mac)
	require.NoError(t, err)
	assert.Equal(t, uint64(0x525400000063), v)
	_, err = MACToUint64(mac[:5])
	assert.ErrorContains(t, err, "got 5 bytes, want 6")
}

func TestMessageLayout(t *testing.T) {
	assert.Equal(t, []byte{26, 0, 0, 0, 3, 0, 0, 0, // length, type frame_in
		8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 1, 0, 0, 0, 0xde, 0xad},
		AppendMessage(nil, &FrameIn{Time: 0x0102030405060708, Port: 9, Error: 1, Bytes: []byte{0xde, 0xad}}))
	assert.Equal(t, []byte{0x43, 0x49, 0x50, 0x45}, AppendMessage(nil, &Hello{Magic: LinkMagic})[8:12], "EPIC")
}

// Every message keeps every field; a cut or a longer one is refused with both lengths.
func TestMessages(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	n := 0
	for id := MessageID(1); NewMessage(id) != nil; id++ {
		n++
		m := NewMessage(id)
		require.Equal(t, id, m.MessageID())
		t.Run(id.String(), func(t *testing.T) {
			v := reflect.ValueOf(m).Elem()
			raw := false
			for i := range v.NumField() {
				switch f := v.Field(i); f.Kind() {
				case reflect.Uint32:
					f.SetUint(uint64(rng.Uint32()))
				case reflect.Uint64:
					f.SetUint(rng.Uint64())
				default:
					raw = true
					f.SetBytes([]byte{1, 2, 3})
				}
			}
			b := AppendMessage(nil, m)
			got, err := DecodeMessage(b)
			require.NoError(t, err)
			assert.Equal(t, m, got)

			fixed := len(b) - MessageHeaderBytes
			if raw {
				fixed -= 3
			} else {
				assert.Error(t, m.DecodeBody(append(b[MessageHeaderBytes:], 0)))
			}
			if fixed > 0 {
				assert.ErrorContains(t, m.DecodeBody(make([]byte, fixed-1)), id.String())
			}
		})
	}
	assert.Equal(t, 13, n)
	for _, tt := range []struct {
		b    []byte
		want string
	}{
		{[]byte{8, 0, 0}, "message: got 3 bytes, want a header of 8"},
		{[]byte{9, 0, 0, 0, 1, 0, 0, 0}, "message: header says 9 bytes, got 8"},
		{[]byte{8, 0, 0, 0, 99, 0, 0, 0}, "message: got type 99, want one of the spec's"},
		{[]byte{8, 0, 0, 0, 4, 0, 0, 0}, "message grant: got 0 bytes of fields, want 8"},
		{[]byte{8, 0, 0, 0, 9, 0, 0, 0}, "message retire: got 0 bytes of fields, want at least 4"},
	} {
		_, err := DecodeMessage(tt.b)
		assert.EqualError(t, err, tt.want)
	}
}

func FuzzDecodeMessage(f *testing.F) {
	for id := MessageID(1); NewMessage(id) != nil; id++ {
		f.Add(AppendMessage(nil, NewMessage(id)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMessage(b)
		if err != nil {
			return
		}
		assert.Equal(t, b, AppendMessage(nil, m))
	})
}
