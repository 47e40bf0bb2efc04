package inspect_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/inspect"
	"github.com/epic-inc/epic/golden/oracle"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

const captures = "../../testdata/captures/"

// collect is an emit function that keeps the records.
func collect(to *[]inspect.Record) func(inspect.Record) error {
	return func(r inspect.Record) error {
		*to = append(*to, r)
		return nil
	}
}

func pcap(t *testing.T, all ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	require.NoError(t, w.WriteFileHeader(65535, layers.LinkTypeEthernet))
	for _, f := range all {
		require.NoError(t, w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(f), Length: len(f)}, f))
	}
	return b.Bytes()
}

// first is a frame of the kernel's: its fields are in the expected line below, read from tshark.
func first(t *testing.T) []byte {
	t.Helper()
	f, err := capture.Open(captures + "rxe_behaviour/req_all_sendonly.pcap")
	require.NoError(t, err)
	defer f.Close()
	var frame capture.Frame
	for range 5 { // the fifth has 5 bytes of payload, 3 of pad
		frame, err = f.Next()
		require.NoError(t, err)
	}
	return frame.Data
}

func lines(t *testing.T, opt inspect.Options, all ...[]byte) []string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, inspect.Stream(t.Context(), "x.pcap", bytes.NewReader(pcap(t, all...)), opt, inspect.JSON(&out)))
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// The line of a frame, to the byte: names, order and nulls are what others read.
func TestJSONLines(t *testing.T) {
	good := first(t)
	spoiled := func(at int, v ...byte) []byte {
		f := bytes.Clone(good)
		copy(f[at:], v)
		return f
	}
	tagged := append(append(bytes.Clone(good[:12]), 0x88, 0xa8, 0xe0, 0x07, 0x81, 0x00, 0x20, 0x64), good[12:]...)
	arp := append(bytes.Repeat([]byte{0xff}, 12), append([]byte{0x08, 0x06}, make([]byte, 46)...)...)
	psn := fmt.Sprint(int(good[51])<<16 | int(good[52])<<8 | int(good[53]))
	qpn := fmt.Sprint(int(good[47])<<16 | int(good[48])<<8 | int(good[49]))
	head := `"opcode":4,"opcode_name":"send_only","psn":` + psn + `,"qpn":` + qpn + `,"ack_req":true,"pad":3,`
	ends := `"src":"10.9.0.1","dst":"10.9.0.99",`
	assert.Equal(t, []string{
		`{"n":1,"roce":true,` + head + `"vlan":[],` + ends + `"payload_len":5,"icrc_ok":true,"verdict":"ok","reason":"ok"}`,
		`{"n":2,"roce":true,` + head + `"vlan":[7,100],` + ends + `"payload_len":5,"icrc_ok":true,"verdict":"ok","reason":"ok"}`,
		`{"n":3,"roce":true,` + head + `"vlan":[],` + ends + `"payload_len":5,"icrc_ok":false,"verdict":"drop","reason":"icrc"}`,
		`{"n":4,"roce":true,` + head + `"vlan":[],` + ends + `"payload_len":5,"icrc_ok":true,"verdict":"drop","reason":"ip_checksum"}`,
		`{"n":5,"roce":true,` + strings.Replace(head, `4,"opcode_name":"send_only"`, `16,"opcode_name":null`, 1) +
			`"vlan":[],` + ends + `"payload_len":null,"icrc_ok":false,"verdict":"drop","reason":"opcode"}`,
		`{"n":6,"roce":true,` + head + `"vlan":[],` + ends + `"payload_len":null,"icrc_ok":null,"verdict":"drop","reason":"ip_length"}`,
		`{"n":7,"roce":true,"opcode":null,"opcode_name":null,"psn":null,"qpn":null,"ack_req":null,"pad":null,` +
			`"vlan":[],` + ends + `"payload_len":null,"icrc_ok":null,"verdict":"drop","reason":"ip_length"}`,
		`{"n":8,"roce":false,"opcode":null,"opcode_name":null,"psn":null,"qpn":null,"ack_req":null,"pad":null,` +
			`"vlan":[],"src":null,"dst":null,"payload_len":null,"icrc_ok":null,"verdict":"ok","reason":"not_roce"}`,
	}, lines(t, inspect.Options{}, good, tagged, spoiled(len(good)-1, good[len(good)-1]^1), spoiled(24, good[24]^1),
		spoiled(42, 0x10), good[:60], good[:50], arp))
}

// All frames of the captures: the fields of the records against tshark's, which reads all files in one
// run because it starts slowly.
func TestCapturesAgreeWithTshark(t *testing.T) {
	files, err := filepath.Glob(captures + "*/*.pcap")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var joined []byte
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		if joined != nil {
			require.Equal(t, joined[:24], content[:24], "the files have one header")
			content = content[24:]
		}
		joined = append(joined, content...)
	}
	all := filepath.Join(t.TempDir(), "all.pcap")
	require.NoError(t, os.WriteFile(all, joined, 0o600))
	rows := oracle.Tshark(t, all, "infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.bth.destqp",
		"infiniband.bth.a", "infiniband.bth.padcnt", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "data.len")
	total := 0
	for _, file := range files {
		var got []inspect.Record
		require.NoError(t, inspect.File(t.Context(), file, inspect.Options{}, collect(&got)))
		for i, r := range got {
			num := func(s string) int {
				v, err := strconv.ParseInt(s, 0, 64)
				require.NoError(t, err)
				return int(v)
			}
			row := rows[total]
			where := fmt.Sprintf("%s frame %d", file, r.N)
			require.True(t, r.RoCE, where)
			require.Equal(t, i+1, r.N, where)
			require.EqualValues(t, num(row[0]), *r.Opcode, where)
			require.EqualValues(t, num(row[1]), *r.PSN, where)
			require.EqualValues(t, num(row[2]), *r.QPN, where)
			require.Equal(t, row[3] == "1" || row[3] == "True", *r.AckReq, where)
			require.Equal(t, num(row[4]), *r.Pad, where)
			require.Equal(t, row[5]+row[7], *r.Src, where) // the fields of the other version of IP are empty
			require.Equal(t, row[6]+row[8], *r.Dst, where)
			data := 0
			if row[9] != "" {
				data = num(row[9])
			}
			require.Equal(t, data, *r.PayloadLen+*r.Pad, where)
			require.Empty(t, r.VLAN)
			require.NotNil(t, r.ICRCOK)
			total++
		}
	}
	require.Equal(t, 2937, total)
	require.Len(t, rows, total)
}

// The frames that were spoiled on purpose, and only those, are dropped, each with its reason.
func TestCapturesVerdicts(t *testing.T) {
	files, err := filepath.Glob(captures + "*/*.pcap")
	require.NoError(t, err)
	var dropped []string
	for _, file := range files {
		require.NoError(t, inspect.File(t.Context(), file, inspect.Options{}, func(r inspect.Record) error {
			if r.Verdict != inspect.OK {
				dropped = append(dropped, fmt.Sprintf("%s %d %s", filepath.Base(file), r.N, r.Reason))
			} else {
				require.Equal(t, "ok", r.Reason)
				require.True(t, *r.ICRCOK)
			}
			return nil
		}))
	}
	assert.Equal(t, []string{
		"req_headers.pcap 4 icrc", "req_headers.pcap 21 udp_checksum", "req_headers.pcap 35 bth_tver",
		"resp_headers.pcap 3 icrc", "resp_headers.pcap 20 udp_checksum", "resp_headers.pcap 33 bth_tver",
	}, dropped)
}

// The table check is asked about frames that the wire stage takes, and no others; its class decides.
func TestCheck(t *testing.T) {
	good := first(t)
	bad := bytes.Clone(good)
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		verdict spec.Verdict
		want    string
	}{
		{spec.VerdictOk, `"verdict":"ok","reason":"ok"`},
		{spec.VerdictNoEndpoint, `"verdict":"ok","reason":"no_endpoint"`},
		{spec.VerdictDstIP, `"verdict":"ok","reason":"dst_ip"`},
		{spec.VerdictPKey, `"verdict":"drop","reason":"pkey"`},
		{spec.VerdictCNP, `"verdict":"drop","reason":"cnp"`},
	} {
		asked := 0
		got := lines(t, inspect.Options{Ports: true, Check: func(port int, p *roce.Packet) spec.Verdict {
			asked++
			assert.Equal(t, -1, port, "a pcap file knows no ports")
			assert.Equal(t, "10.9.0.99", p.Dst.String())
			assert.Len(t, p.Payload, 5)
			return c.verdict
		}}, good, bad)
		assert.Equal(t, 1, asked)
		assert.Contains(t, got[0], c.want)
		assert.Contains(t, got[1], `"reason":"icrc"`)
	}
}

// The interface of a pcapng file is the port, if the caller says that this file is of that kind.
func TestPorts(t *testing.T) {
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriter(&b, layers.LinkTypeEthernet)
	require.NoError(t, err)
	for range 2 {
		_, err := w.AddInterface(pcapgo.NgInterface{LinkType: layers.LinkTypeEthernet})
		require.NoError(t, err)
	}
	good := first(t)
	for _, i := range []int{2, 0, 1} {
		require.NoError(t, w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(good), Length: len(good), InterfaceIndex: i}, good))
	}
	require.NoError(t, w.Flush())
	for _, c := range []struct {
		ports bool
		want  []int
	}{{true, []int{2, 0, 1}}, {false, []int{-1, -1, -1}}} {
		var got []int
		require.NoError(t, inspect.Stream(t.Context(), "x", bytes.NewReader(b.Bytes()), inspect.Options{Ports: c.ports,
			Check: func(port int, _ *roce.Packet) spec.Verdict { got = append(got, port); return spec.VerdictOk }},
			func(inspect.Record) error { return nil }))
		assert.Equal(t, c.want, got)
	}
}

// A frame that the capture cut has a record and is named in the error, and the rest is read.
func TestCutFrames(t *testing.T) {
	good := first(t)
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	require.NoError(t, w.WriteFileHeader(64, layers.LinkTypeEthernet))
	for range 12 {
		require.NoError(t, w.WritePacket(gopacket.CaptureInfo{CaptureLength: 64, Length: len(good)}, good[:64]))
	}
	require.NoError(t, w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(good), Length: len(good)}, good))
	var got []inspect.Record
	err := inspect.Stream(t.Context(), "x.pcap", &b, inspect.Options{}, collect(&got))
	var cut *inspect.CutFrames
	require.ErrorAs(t, err, &cut)
	assert.Equal(t, 12, cut.Count)
	require.Len(t, got, 13)
	assert.Equal(t, "frame 2 at byte 104: captured 64 bytes, want all 66", got[1].Error)
	assert.Empty(t, got[12].Error)
	assert.Equal(t, inspect.OK, got[12].Verdict)
	text := strings.Split(err.Error(), "\n")
	require.Len(t, text, 12)
	assert.Equal(t, "x.pcap: 12 frames are cut, want whole frames (capture with snap length 0):", text[0])
	assert.Equal(t, "and 2 more", text[11])
	line, err := json.Marshal(got[1])
	require.NoError(t, err)
	assert.Contains(t, string(line), `"reason":"ip_length","error":"frame 2 at byte 104: captured 64 bytes, want all 66"}`)
}

func TestErrors(t *testing.T) {
	ctx := t.Context()
	nothing := func(inspect.Record) error { return nil }
	var format *capture.FormatError

	notCapture := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(notCapture, []byte("no capture at all"), 0o600))
	err := inspect.File(ctx, notCapture, inspect.Options{}, nothing)
	require.ErrorAs(t, err, &format)
	assert.Equal(t, notCapture, format.File)

	assert.ErrorIs(t, inspect.File(ctx, notCapture+".pcap", inspect.Options{}, nothing), os.ErrNotExist)

	good := first(t)
	file := pcap(t, good, good)
	var got []inspect.Record
	err = inspect.Stream(ctx, "x.pcap", bytes.NewReader(file[:len(file)-1]), inspect.Options{}, collect(&got))
	require.ErrorAs(t, err, &format)
	assert.EqualValues(t, 24+16+66+16, format.Offset)
	assert.Len(t, got, 1, "what came before is told")

	raw := bytes.Clone(file)
	binary.LittleEndian.PutUint32(raw[20:], 101)
	require.ErrorAs(t, inspect.Stream(ctx, "x.pcap", bytes.NewReader(raw), inspect.Options{}, nothing), &format)
	assert.Equal(t, "link type 101", format.Got)

	full := errors.New("disk full")
	err = inspect.Stream(ctx, "x.pcap", bytes.NewReader(file), inspect.Options{}, func(inspect.Record) error { return full })
	assert.ErrorIs(t, err, full)
	assert.ErrorContains(t, err, "frame 1")

	stopped, cancel := context.WithCancel(ctx)
	got = nil
	err = inspect.Stream(stopped, "x.pcap", bytes.NewReader(file), inspect.Options{}, func(r inspect.Record) error {
		cancel()
		return collect(&got)(r)
	})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Len(t, got, 1)
}

func TestTable(t *testing.T) {
	good := first(t)
	bad := bytes.Clone(good)
	bad[42] = 0x10
	tagged := append(append(bytes.Clone(good[:12]), 0x81, 0x00, 0x20, 0x64), good[12:]...)
	var out bytes.Buffer
	table := inspect.NewTable(&out)
	require.NoError(t, inspect.Stream(t.Context(), "x", bytes.NewReader(pcap(t, good, bad, tagged, good[:30])), inspect.Options{}, table.Add))
	require.NoError(t, table.Close())
	psn := fmt.Sprintf("%x", good[51:54])
	qpn := fmt.Sprintf("%x", good[47:50])
	assert.Equal(t, strings.Join([]string{
		"     n  src              dst              opcode             psn     qpn  ack  bytes  icrc  verdict",
		"     1  10.9.0.1         10.9.0.99        send_only       " + psn + "  " + qpn + "  yes      5  ok    ok",
		"     2  10.9.0.1         10.9.0.99        0x10            " + psn + "  " + qpn +
			"  yes      -  bad   drop opcode  (bth.opcode at byte 42 is 0x10, want an RC opcode of rtl/spec/inc.yaml)",
		"     3  10.9.0.1         10.9.0.99        send_only       " + psn + "  " + qpn + "  yes      5  ok    ok  vlan 100",
		"     4  -                -                -                    -       -  -        -  -     ok not_roce" +
			"  (ip at byte 14 is cut off: the frame has 30 bytes, want at least 42)",
		"4 frames",
		"     2  ok                taken",
		"     1  not_roce          not IPv4/IPv6 UDP to port 4791 (or a later fragment, or too short to tell)",
		"     1  opcode            opcode is not one of the table above",
		"",
	}, "\n"), out.String())
}

// What follows BTH, by hand, and in the table's words.
func TestHeaders(t *testing.T) {
	base := roce.Packet{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), PKey: 0xffff, DestQP: 17, PSN: 5}
	control := roce.Control{Type: spec.CollTypeBroadcast, Op: spec.OpMax, DType: spec.DTypeBfloat16, Flags: 1, Root: 3, Bytes: 1 << 33, Sequence: 7}
	for name, tc := range map[string]struct {
		change func(p *roce.Packet)
		json   string // of the headers
		table  string
	}{
		"send": {func(p *roce.Packet) { p.Opcode = spec.OpcodeSendOnly }, ``, "ok    ok"},
		"write": {func(p *roce.Packet) {
			p.Opcode, p.VA, p.RKey, p.DMALength = spec.OpcodeWriteOnly, 1<<63|0xabc, 0x77, 4096
		},
			`"reth":{"va":9223372036854778556,"rkey":119,"dma_length":4096}`, "va 0x8000000000000abc rkey 0x77 dma 4096"},
		"write with immediate": {func(p *roce.Packet) { p.Opcode, p.Imm = spec.OpcodeWriteOnlyImm, 0x1234 },
			`"reth":{"va":0,"rkey":0,"dma_length":0},"imm":4660`, "va 0x0 rkey 0x0 dma 0, imm 0x00001234"},
		"ack": {func(p *roce.Packet) { p.Opcode, p.Syndrome, p.MSN = spec.OpcodeAcknowledge, 0x1f, 9 },
			`"aeth":{"syndrome":31,"name":"ack","msn":9}`, "ack msn 9"},
		"rnr": {func(p *roce.Packet) { p.Opcode, p.Syndrome = spec.OpcodeAcknowledge, 0x2c },
			`"aeth":{"syndrome":44,"name":"rnr nak 12","msn":0}`, "rnr nak 12 msn 0"},
		"nak": {func(p *roce.Packet) { p.Opcode, p.Syndrome, p.MSN = spec.OpcodeAcknowledge, 0x60, 3 },
			`"aeth":{"syndrome":96,"name":"nak sequence error","msn":3}`, "nak sequence error msn 3"},
		"fatal": {func(p *roce.Packet) { p.Opcode, p.Syndrome = spec.OpcodeAcknowledge, 0x63 },
			`"aeth":{"syndrome":99,"name":"nak remote operational error","msn":0}`, "nak remote operational error msn 0"},
		"cnp": {func(p *roce.Packet) { p.Opcode, p.Payload = spec.OpcodeCNP, make([]byte, 16) }, ``, "cnp"},
		"control": {func(p *roce.Packet) {
			p.Opcode, p.Imm, p.Payload = spec.OpcodeSendOnlyImm, control.Imm(), control.Payload()
		}, `"imm":575733763,"control":{"type":"broadcast","op":"max","dtype":"bfloat16","flags":1,"root":3,"bytes":8589934592,"sequence":7}`,
			"control? broadcast max bfloat16 flags 1 root 3 bytes 8589934592 sequence 7"},
		"no control: a type that is none": {func(p *roce.Packet) {
			p.Opcode, p.Imm, p.Payload = spec.OpcodeSendOnlyImm, 0xf0000000, control.Payload()
		}, `"imm":4026531840`, "imm 0xf0000000"},
		"no control: a byte too many": {func(p *roce.Packet) {
			p.Opcode, p.Imm, p.Payload = spec.OpcodeSendOnlyImm, 1, append(control.Payload(), 0)
		}, `"imm":1`, "imm 0x00000001"},
	} {
		t.Run(name, func(t *testing.T) {
			p := base
			tc.change(&p)
			line := lines(t, inspect.Options{}, p.Encode())[0]
			_, rest, ok := strings.Cut(line, `"reason":"ok"`)
			require.True(t, ok, line)
			assert.Equal(t, tc.json, strings.TrimPrefix(strings.TrimSuffix(rest, "}"), ","))

			var out bytes.Buffer
			table := inspect.NewTable(&out)
			require.NoError(t, table.Add(inspect.Frame(1, p.Encode(), -1, nil)))
			require.NoError(t, table.Close())
			row := strings.Split(out.String(), "\n")[1]
			assert.Contains(t, row, tc.table)
			assert.Equal(t, strings.Contains(tc.table, "control?"), strings.Contains(row, "control?"))
		})
	}
	// Nothing is said of what cannot be trusted.
	p := base
	p.Opcode, p.VA = spec.OpcodeWriteOnly, 5
	f := p.Encode()
	assert.NotContains(t, lines(t, inspect.Options{}, f[:len(f)-2])[0], "reth")
}
