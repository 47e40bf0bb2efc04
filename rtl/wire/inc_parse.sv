// Reads received frames: header fields, payload from lane 0, and the verdict of stage wire.
//
// Streams:       s_axis_rx_* in (tkeep contiguous, full but on the last beat; tuser on the last
//                beat: MAC error). Out, for each frame and in order: one hdr_t (m_hdr_*),
//                hdr.pay_beats beats of payload (m_pay_*), one final verdict (m_eof_*).
// Verdict:       m_hdr.verdict is ok if the headers show no cause, else a cause that they show
//                (a frame that ends within its headers: not_roce). m_eof_verdict alone is final:
//                the first in the order of inc.yaml of all that apply. It is never ok if
//                m_hdr.verdict is not, and may be any other than that.
// Payload:       pay_beats = ceil(plen*8/DATA_W) for a data frame whose header verdict is ok and
//                whose payload is at most PAY_MAX bytes (no RoCE MTU is larger), else 0. Bytes
//                after plen are 0. If the frame ends too soon the rest of the beats is 0: they
//                always all come.
// Latency:       from the beat that ends the headers (or the frame) to m_hdr_valid 3 clocks; from
//                the second beat that a payload beat is made of (or the last) to m_pay_valid 3 or
//                4 clocks; from the last beat to m_eof_valid 6 clocks.
// Throughput:    1 beat per clock, frames back to back. Nothing inside waits: beats are taken
//                only while every output FIFO has room for all that is on its way.
// Back-pressure: each output has a FIFO of its own; none waits for another to be taken.
//                s_axis_rx_tready is a register and does not depend on tvalid.
// Reset:         synchronous; the next beat is the first of a frame.
// Parameters:    DATA_W 64..4096, a power of two. PAY_DEPTH 16.. payload beats, HDR_DEPTH and
//                EOF_DEPTH 16.. frames, powers of two. PAY_MAX bytes, a multiple of DATA_W/8.
// Source:        docs/protocol.md 3; rtl/spec/inc.yaml verdicts; IBTA 9.2, A17.
//
// Byte of the frame at which each part starts, for t VLAN tags: 0 dmac  6 smac  12 type or tag
// 14+4t IP  34+4t UDP (IPv6: 54+4t)  +8 BTH  +20 RETH, ImmDt, AETH
`default_nettype none

module inc_parse #(
  parameter int DATA_W    = 512,
  parameter int PAY_DEPTH = 16,
  parameter int HDR_DEPTH = 16,
  parameter int EOF_DEPTH = 16,
  parameter int PAY_MAX   = 4096
) (
  input  wire                clk,
  input  wire                rst,

  input  wire [DATA_W-1:0]   s_axis_rx_tdata,
  input  wire [DATA_W/8-1:0] s_axis_rx_tkeep,
  input  wire                s_axis_rx_tvalid,
  output wire                s_axis_rx_tready,
  input  wire                s_axis_rx_tlast,
  input  wire                s_axis_rx_tuser,
  input  wire [7:0]          s_axis_rx_tid,

  output wire                m_hdr_valid,
  input  wire                m_hdr_ready,
  output wire inc_pkg::hdr_t m_hdr,

  output wire                m_pay_valid,
  input  wire                m_pay_ready,
  output wire [DATA_W-1:0]   m_pay_data,
  output wire                m_pay_last,

  output wire                m_eof_valid,
  input  wire                m_eof_ready,
  output wire [7:0]          m_eof_verdict
);

  localparam int BYTES   = DATA_W / 8;
  localparam int LANE_W  = $clog2(BYTES);
  localparam int SHIFT_W = $clog2(BYTES / 4);
  // Beats of a frame are counted to LEN_W bits of bytes: more than any IP length can name.
  localparam int LEN_W   = 18;
  localparam int BEAT_W  = LEN_W - LANE_W;
  localparam int POS_W   = LEN_W + 1;
  localparam int FILL_W  = 16 - LANE_W;
  localparam int HDR_W   = $bits(m_hdr);
  localparam int IP_BYTES = 40;
  localparam int L4_BYTES = 44; // IHL 15: UDP destination port is at IP+62

  // Bit of each verdict in a set of causes.
  localparam int MAC_ERROR        = 32'(inc_spec_pkg::VERDICT_MAC_ERROR);
  localparam int NOT_ROCE         = 32'(inc_spec_pkg::VERDICT_NOT_ROCE);
  localparam int IP_VERSION       = 32'(inc_spec_pkg::VERDICT_IP_VERSION);
  localparam int IP_HEADER_LENGTH = 32'(inc_spec_pkg::VERDICT_IP_HEADER_LENGTH);
  localparam int IP_FRAGMENT      = 32'(inc_spec_pkg::VERDICT_IP_FRAGMENT);
  localparam int IP_LENGTH        = 32'(inc_spec_pkg::VERDICT_IP_LENGTH);
  localparam int IP_CHECKSUM      = 32'(inc_spec_pkg::VERDICT_IP_CHECKSUM);
  localparam int UDP_LENGTH       = 32'(inc_spec_pkg::VERDICT_UDP_LENGTH);
  localparam int UDP_CHECKSUM     = 32'(inc_spec_pkg::VERDICT_UDP_CHECKSUM);
  localparam int BTH_LENGTH       = 32'(inc_spec_pkg::VERDICT_BTH_LENGTH);
  localparam int BTH_TVER         = 32'(inc_spec_pkg::VERDICT_BTH_TVER);
  localparam int OPCODE           = 32'(inc_spec_pkg::VERDICT_OPCODE);
  localparam int HEADER_LENGTH    = 32'(inc_spec_pkg::VERDICT_HEADER_LENGTH);
  localparam int PAD              = 32'(inc_spec_pkg::VERDICT_PAD);
  localparam int AETH_SYNDROME    = 32'(inc_spec_pkg::VERDICT_AETH_SYNDROME);
  localparam int ICRC             = 32'(inc_spec_pkg::VERDICT_ICRC);

  // ---------------------------------------------------------------------------------------------
  // Clock 0 to 1: take the beat; compare EtherTypes where they can be.

  logic ready_q, ready_d;
  wire  take0 = s_axis_rx_tvalid && ready_q;
  assign s_axis_rx_tready = ready_q;

  logic [BEAT_W-1:0] beat0_q, beat0_d; // number of the next beat, stops at its largest value
  logic [3:0]        small0_q;         // the same, stops at 15

  always_comb begin
    beat0_d = beat0_q;
    if (take0) begin
      if (s_axis_rx_tlast) beat0_d = '0;
      else if (beat0_q != '1) beat0_d = beat0_q + BEAT_W'(1);
    end
  end

  always_ff @(posedge clk) begin
    beat0_q <= beat0_d;
    if (take0) begin
      if (s_axis_rx_tlast) small0_q <= '0;
      else if (small0_q != 4'd15) small0_q <= small0_q + 4'd1;
    end
    if (rst) begin
      beat0_q  <= '0;
      small0_q <= '0;
    end
  end

  logic              v1_q;
  logic [DATA_W-1:0] data1_q, data1_d;
  logic              last1_q;
  logic              user1_q;
  logic [7:0]        port1_q;
  logic [BEAT_W-1:0] beat1_q;
  logic [3:0]        small1_q;
  logic [LEN_W:0]    len1_q, len1_d; // bytes of the frame up to this beat
  logic [1:0]        vlan1_q;            // [t]: the type at byte 12+4t is a VLAN tag's
  logic [2:0]        v4_1_q;
  logic [2:0]        v6_1_q;
  logic [LANE_W-1:0] lane;

  always_comb begin
    data1_d = s_axis_rx_tdata;
    lane    = '0;
    if (s_axis_rx_tlast) begin // else tkeep is full
      for (int i = 0; i < BYTES; i++) begin
        if (!s_axis_rx_tkeep[i]) data1_d[i*8 +: 8] = '0;
        // One-hot at the first byte that is not kept.
        if (i > 0 && !s_axis_rx_tkeep[i] && s_axis_rx_tkeep[(i+BYTES-1)%BYTES]) begin
          lane = lane | LANE_W'(i);
        end
      end
    end
    len1_d = {1'b0, beat0_q, lane};
    if (s_axis_rx_tkeep[BYTES-1]) len1_d = {{1'b0, beat0_q} + (BEAT_W+1)'(1), LANE_W'(0)};
  end

  always_ff @(posedge clk) begin
    v1_q <= take0;
    if (take0) begin
      data1_q  <= data1_d;
      last1_q  <= s_axis_rx_tlast;
      user1_q  <= s_axis_rx_tuser;
      port1_q  <= s_axis_rx_tid;
      beat1_q  <= beat0_q;
      small1_q <= small0_q;
      len1_q   <= len1_d;
    end
    if (rst) v1_q <= 1'b0;
  end

  generate
    for (genvar t = 0; t < 3; t++) begin : gen_type
      localparam int AT   = 12 + 4*t;
      localparam int LANE = AT % BYTES;
      wire [15:0] kind = {s_axis_rx_tdata[LANE*8 +: 8], s_axis_rx_tdata[LANE*8+8 +: 8]};
      always_ff @(posedge clk) begin
        if (take0 && small0_q == 4'(AT / BYTES)) begin
          v4_1_q[t] <= kind == inc_spec_pkg::ETHERTYPE_IPV4;
          v6_1_q[t] <= kind == inc_spec_pkg::ETHERTYPE_IPV6;
        end
      end
      if (t < 2) begin : gen_vlan // behind two tags a third is as strange as any other type
        always_ff @(posedge clk) begin
          if (take0 && small0_q == 4'(AT / BYTES)) begin
            vlan1_q[t] <= kind == inc_spec_pkg::ETHERTYPE_VLAN ||
                          kind == inc_spec_pkg::ETHERTYPE_QINQ;
          end
        end
      end
    end
  endgenerate

  // ---------------------------------------------------------------------------------------------
  // Clock 1 to 2: IP and UDP headers into registers of their own, wherever they start. A stale flag
  // of the frame before does no harm: it only ever selects among positions in later beats.

  wire [1:0] tags1 = !vlan1_q[0] ? 2'd0 : !vlan1_q[1] ? 2'd1 : 2'd2;
  wire       is4_1 = !vlan1_q[0] ? v4_1_q[0] : !vlan1_q[1] ? v4_1_q[1] : v4_1_q[2];
  wire       is6_1 = !vlan1_q[0] ? v6_1_q[0] : !vlan1_q[1] ? v6_1_q[1] : v6_1_q[2];

  logic [12*8-1:0]       mac_q; // byte i of the frame in [i*8 +: 8]
  logic [40*8-1:0]       ip_q;  // byte i of IP
  logic [L4_BYTES*8-1:0] l4_q;  // byte i of UDP

  // The beat is turned so that each header byte is in a lane of its own whatever the layout; then
  // only the beat in which it is to be taken depends on the layout.
  wire  [2*DATA_W-1:0]   twice1 = {data1_q, data1_q};
  logic [DATA_W-1:0]     ip_turned;
  logic [DATA_W-1:0]     l4_turned;
  logic [IP_BYTES-1:0]   ip_en;
  logic [L4_BYTES-1:0]   l4_en;
  wire  [7:0]            opcode1 = l4_turned[(8 % BYTES)*8 +: 8];

  // What the opcode says, worked out on its way into l4_q.
  logic                  known_q;
  logic                  is_data_q;
  logic                  is_ack_q;
  logic                  is_cnp_q;
  logic                  has_imm_q;
  logic [1:0]            ext_kind_q; // 0: none, 1: ImmDt or AETH, 2: RETH, 3: RETH and ImmDt

  always_comb begin
    ip_turned = data1_q;
    l4_turned = data1_q;
    ip_en = '0;
    l4_en = '0;
    for (int t = 0; t < 3; t++) begin
      if (tags1 == 2'(t)) begin
        ip_turned = twice1[((14+4*t) % BYTES)*8 +: DATA_W];
        if (is6_1) l4_turned = twice1[((54+4*t) % BYTES)*8 +: DATA_W];
        else       l4_turned = twice1[((34+4*t) % BYTES)*8 +: DATA_W];
        if (v1_q && small1_q <= 4'((62 + L4_BYTES - 1) / BYTES)) begin
          for (int i = 0; i < IP_BYTES; i++) begin
            ip_en[i] = small1_q == 4'((14+4*t+i) / BYTES);
          end
          for (int i = 0; i < L4_BYTES; i++) begin
            if (is6_1) l4_en[i] = small1_q == 4'((54+4*t+i) / BYTES);
            else       l4_en[i] = small1_q == 4'((34+4*t+i) / BYTES);
          end
        end
      end
    end
  end

  generate
    for (genvar b = 0; b <= 11 / BYTES; b++) begin : gen_mac
      always_ff @(posedge clk) begin
        if (v1_q && small1_q == 4'(b)) begin
          for (int i = 0; i < 12; i++) begin
            if (i / BYTES == b) mac_q[i*8 +: 8] <= data1_q[(i % BYTES)*8 +: 8];
          end
        end
      end
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (ip_en != '0) begin // spares the simulator the rest
      for (int i = 0; i < IP_BYTES; i++) begin
        if (ip_en[i]) ip_q[i*8 +: 8] <= ip_turned[(i % BYTES)*8 +: 8];
      end
    end
    if (l4_en != '0) begin
      for (int i = 0; i < L4_BYTES; i++) begin
        if (l4_en[i]) l4_q[i*8 +: 8] <= l4_turned[(i % BYTES)*8 +: 8];
      end
      if (l4_en[8]) begin
        known_q    <= inc_spec_pkg::opcode_known(opcode1);
        is_data_q  <= inc_spec_pkg::opcode_is_data(opcode1);
        is_ack_q   <= inc_spec_pkg::opcode_is_ack(opcode1);
        is_cnp_q   <= inc_spec_pkg::opcode_is_cnp(opcode1);
        has_imm_q  <= inc_spec_pkg::opcode_has_imm(opcode1);
        ext_kind_q <= {inc_spec_pkg::opcode_has_reth(opcode1),
                       inc_spec_pkg::opcode_has_imm(opcode1) ||
                       inc_spec_pkg::opcode_has_aeth(opcode1)};
      end
    end
  end

  logic              v2_q;
  logic [DATA_W-1:0] data2_q;
  logic              last2_q;
  logic              user2_q;
  logic [7:0]        port2_q;
  logic [3:0]        small2_q;
  logic              is4_2_q;
  logic              is6_2_q;
  logic [3:0]        base2_q;       // headers are 54 + 4*base2_q bytes and the extended ones
  logic [3:0]        headers_in2_q; // [e]: they are in, if ext_kind_q is e
  logic              length_in2_q;  // the UDP length is in
  logic [POS_W-1:0]  start2_q;      // first byte of this beat, counted from UDP; signed
  logic [POS_W-1:0]  next2_q;       // the same of the beat behind
  logic [POS_W-1:0]  room2_q;       // bytes for what the IP length counts, up to this beat; signed
  wire  [BYTES-1:0]  take2;
  wire  [31:0]       constant2;
  logic [BYTES-1:0]  sum2_q;  // bytes of addresses and UDP

  inc_icrc_cover #(
    .DATA_W(DATA_W)
  ) u_cover (
    .clk     (clk),
    .tags    (tags1),
    .is_v6   (is6_1),
    .beat    (small1_q),
    .take    (take2),
    .constant(constant2)
  );

  // Addresses start at IP+12 (IPv6: +8): 26 + 4t or 22 + 4t.
  localparam int SUM_BEATS = (34 + BYTES - 1) / BYTES;
  always_ff @(posedge clk) begin
    sum2_q <= '1;
    for (int b = 0; b < SUM_BEATS; b++) begin
      if (small1_q == 4'(b)) begin
        for (int i = 0; i < BYTES; i++) begin
          sum2_q[i] <= (b*BYTES + i >= 34) ||
                       (b*BYTES + i >= 30 && (is6_1 || tags1 != 2'd2)) ||
                       (b*BYTES + i >= 26 && (is6_1 ? tags1 != 2'd2 : tags1 == 2'd0)) ||
                       (b*BYTES + i >= 22 && is6_1 && tags1 == 2'd0);
        end
      end
    end
  end

  // Extended headers of an ext_kind_q, in units of four bytes.
  function automatic int ext_units(input int kind);
    ext_units = (kind == 0) ? 0 : (kind == 1) ? 1 : (kind == 2) ? 4 : 5;
  endfunction

  logic [3:0]       headers_in2_d;
  logic             length_in2_d;
  logic [POS_W-1:0] minus_l4;      // constants of the layout, negative where they are subtracted
  logic [POS_W-1:0] minus_l4_next;
  logic [POS_W-1:0] minus_counted; // where the bytes that the IP length counts begin

  always_comb begin
    headers_in2_d = '0;
    length_in2_d  = 1'b0;
    minus_l4      = '0;
    minus_l4_next = '0;
    minus_counted = '0;
    for (int t = 0; t < 3; t++) begin
      if (tags1 == 2'(t) && !is6_1) begin
        minus_l4      = POS_W'(-(34 + 4*t));
        minus_l4_next = POS_W'(BYTES - (34 + 4*t));
        minus_counted = POS_W'(-(14 + 4*t));
        length_in2_d = small1_q >= 4'((39 + 4*t) / BYTES);
        for (int e = 0; e < 4; e++) begin
          headers_in2_d[e] = small1_q >= 4'((53 + 4*t + 4*ext_units(e)) / BYTES);
        end
      end
      if (tags1 == 2'(t) && is6_1) begin
        minus_l4      = POS_W'(-(54 + 4*t));
        minus_l4_next = POS_W'(BYTES - (54 + 4*t));
        minus_counted = POS_W'(-(54 + 4*t));
        length_in2_d = small1_q >= 4'((59 + 4*t) / BYTES);
        for (int e = 0; e < 4; e++) begin
          headers_in2_d[e] = small1_q >= 4'((73 + 4*t + 4*ext_units(e)) / BYTES);
        end
      end
    end
  end

  always_ff @(posedge clk) begin
    v2_q <= v1_q;
    if (v1_q) begin
      data2_q  <= data1_q;
      last2_q  <= last1_q;
      user2_q  <= user1_q;
      port2_q  <= port1_q;
      small2_q <= small1_q;
      is4_2_q  <= is4_1;
      is6_2_q  <= is6_1;
      base2_q  <= {2'd0, tags1} + (is6_1 ? 4'd5 : 4'd0);
      headers_in2_q <= headers_in2_d;
      length_in2_q  <= length_in2_d;
      start2_q <= {1'b0, beat1_q, LANE_W'(0)} + minus_l4;
      next2_q  <= {1'b0, beat1_q, LANE_W'(0)} + minus_l4_next;
      room2_q  <= len1_q + minus_counted;
    end
    if (rst) v2_q <= 1'b0;
  end

  // ---------------------------------------------------------------------------------------------
  // Clock 2 to 3: fields, lengths, causes. Registers may still hold bytes of an earlier frame where
  // this one is too short; then a cause that sees the length comes first in the order.

  wire [3:0]  ip_version = ip_q[7:4];
  wire [3:0]  ihl        = ip_q[3:0];
  wire [15:0] ip_total   = {ip_q[23:16], ip_q[31:24]};
  wire [15:0] ip6_length = {ip_q[39:32], ip_q[47:40]};
  wire        more_frags = ip_q[6*8+5];
  wire [12:0] frag_at    = {ip_q[6*8 +: 5], ip_q[7*8 +: 8]};
  wire [7:0]  protocol   = is6_2_q ? ip_q[6*8 +: 8] : ip_q[9*8 +: 8];
  wire [15:0] udp_length = {l4_q[4*8 +: 8], l4_q[5*8 +: 8]};
  wire        udp_no_sum = l4_q[6*8 +: 16] == 16'd0;
  wire [7:0]  opcode     = l4_q[8*8 +: 8];
  wire [1:0]  pad        = l4_q[9*8+4 +: 2];
  wire [3:0]  tver       = l4_q[9*8 +: 4];
  wire [7:0]  syndrome   = l4_q[20*8 +: 8];

  wire        has_reth = ext_kind_q[1];

  // UDP destination port and the least room for UDP, behind IPv4 options.
  logic [15:0]      dport;
  logic [POS_W-1:0] least;
  always_comb begin
    dport = {l4_q[2*8 +: 8], l4_q[3*8 +: 8]};
    least = is6_2_q ? POS_W'(8) : POS_W'(28);
    for (int n = 6; n < 16; n++) begin
      if (!is6_2_q && ihl == 4'(n)) begin
        dport = {l4_q[(4*(n-5)+2)*8 +: 8], l4_q[(4*(n-5)+3)*8 +: 8]};
        least = POS_W'(8 + 4*n);
      end
    end
  end

  // Comparisons with each overhead (UDP, BTH, extended headers, ICRC), then a choice: faster than a
  // choice, then a comparison. An overhead is a multiple of 4: the pad is written behind it.
  logic [3:0]  overhead4;
  logic        no_room;     // UDP is shorter than its headers
  logic        no_payload;  // it is as long as they are
  logic [15:0] up;          // BYTES - 1 - overhead - pad: makes the payload length whole beats
  always_comb begin
    overhead4  = '0;
    no_room    = 1'b0;
    no_payload = 1'b0;
    up         = '0;
    for (int e = 0; e < 4; e++) begin
      if (ext_kind_q == 2'(e)) begin
        overhead4  = 4'(6 + ext_units(e));
        no_room    = udp_length < 16'(24 + 4*ext_units(e));
        no_payload = udp_length == 16'(24 + 4*ext_units(e));
        for (int p = 0; p < 4; p++) begin
          if (pad == 2'(p)) up = 16'(BYTES - 25 - 4*ext_units(e) - p);
        end
      end
    end
  end

  wire [15:0] plen      = udp_length - {10'd0, overhead4, pad};
  wire [15:0] plen_up   = udp_length + up;
  wire [15:0] beats_all = plen_up >> LANE_W;

  // [v]: verdict v applies. Those of the end of the frame are not among them.
  logic [ICRC:0] causes;
  always_comb begin
    causes = '0;
    causes[MAC_ERROR] = user2_q; // causes count in the last beat
    causes[NOT_ROCE] =
      !(is4_2_q || is6_2_q) || protocol != 8'd17 || (is4_2_q && frag_at != '0) ||
      dport != inc_spec_pkg::ROCE_UDP_PORT ||
      (last2_q && $signed(room2_q) < $signed(least));
    causes[IP_VERSION] = ip_version != (is6_2_q ? 4'd6 : 4'd4);
    causes[IP_HEADER_LENGTH] = is4_2_q && ihl != 4'd5;
    causes[IP_FRAGMENT] = is4_2_q && more_frags;
    causes[IP_LENGTH] = is6_2_q ?
      (ip6_length < 16'd8 || (last2_q && {3'd0, ip6_length} > room2_q)) :
      (ip_total < 16'd28 || (last2_q && {3'd0, ip_total} > room2_q));
    causes[UDP_LENGTH] =
      is6_2_q ? udp_length != ip6_length : udp_length + 16'd20 != ip_total;
    causes[BTH_LENGTH] = udp_length < 16'd24;
    causes[BTH_TVER] = tver != '0;
    causes[OPCODE] = !known_q;
    causes[HEADER_LENGTH] = no_room ||
      (is_ack_q && udp_length != 16'd28) || (is_cnp_q && udp_length != 16'd40);
    causes[PAD] =
      udp_length[1:0] != 2'd0 || (pad != 2'd0 && no_payload);
    causes[AETH_SYNDROME] =
      is_ack_q && !(syndrome[7:6] == 2'd0 || (syndrome[7:3] == 5'h0c && syndrome[2:0] <= 3'd4));
  end

  function automatic logic [7:0] first_of(input logic [ICRC:0] set);
    first_of = inc_spec_pkg::VERDICT_OK;
    for (int v = ICRC; v > 0; v--) begin
      if (set[v]) first_of = 8'(v);
    end
  endfunction

  // Headers are complete with the beat that holds their last byte. If the opcode has not come yet,
  // what its register holds says at least the end of BTH, so the answer is no all the same.
  logic done_q, done_d; // header of the frame in clock 2 has been handed on
  wire  headers_in = headers_in2_q[ext_kind_q];
  wire  hdr_push   = v2_q && !done_q && (headers_in || last2_q);
  always_comb begin
    done_d = done_q;
    if (v2_q) done_d = last2_q ? 1'b0 : (done_q || headers_in);
  end

  // What is handed on with the header: causes that the headers show. A frame that ends within them
  // is not taken, whatever the registers hold.
  logic [ICRC:0] hdr_causes;
  inc_pkg::hdr_t hdr;

  always_comb begin
    hdr_causes = causes;
    hdr_causes[MAC_ERROR] = 1'b0; // comes with the end
    if (!headers_in) hdr_causes[NOT_ROCE] = 1'b1;
    hdr = '0; // verdict and pay_beats follow in the next clock
    hdr.port      = port2_q;
    hdr.dmac      = {mac_q[0*8 +: 8], mac_q[1*8 +: 8], mac_q[2*8 +: 8],
                     mac_q[3*8 +: 8], mac_q[4*8 +: 8], mac_q[5*8 +: 8]};
    hdr.smac      = {mac_q[6*8 +: 8], mac_q[7*8 +: 8], mac_q[8*8 +: 8],
                     mac_q[9*8 +: 8], mac_q[10*8 +: 8], mac_q[11*8 +: 8]};
    hdr.is_v6     = is6_2_q;
    for (int i = 0; i < 16; i++) begin
      if (is6_2_q) begin
        hdr.sip[(15-i)*8 +: 8] = ip_q[(8+i)*8 +: 8];
        hdr.dip[(15-i)*8 +: 8] = ip_q[(24+i)*8 +: 8];
      end else if (i < 4) begin
        hdr.sip[(3-i)*8 +: 8] = ip_q[(12+i)*8 +: 8];
        hdr.dip[(3-i)*8 +: 8] = ip_q[(16+i)*8 +: 8];
      end
    end
    hdr.tos       = is6_2_q ? {ip_q[3:0], ip_q[15:12]} : ip_q[15:8];
    hdr.opcode    = opcode;
    hdr.se        = l4_q[9*8+7];
    hdr.mig_req   = l4_q[9*8+6];
    hdr.pkey      = {l4_q[10*8 +: 8], l4_q[11*8 +: 8]};
    hdr.dqpn      = {l4_q[13*8 +: 8], l4_q[14*8 +: 8], l4_q[15*8 +: 8]};
    hdr.ack_req   = l4_q[16*8+7];
    hdr.psn       = {l4_q[17*8 +: 8], l4_q[18*8 +: 8], l4_q[19*8 +: 8]};
    hdr.is_data   = is_data_q;
    hdr.is_ack    = is_ack_q;
    hdr.is_cnp    = is_cnp_q;
    hdr.is_write  = inc_spec_pkg::opcode_is_write(opcode);
    hdr.is_first  = inc_spec_pkg::opcode_is_first(opcode);
    hdr.is_last   = inc_spec_pkg::opcode_is_last(opcode);
    hdr.has_imm   = has_imm_q;
    hdr.imm       = has_reth
                    ? {l4_q[36*8 +: 8], l4_q[37*8 +: 8], l4_q[38*8 +: 8], l4_q[39*8 +: 8]}
                    : {l4_q[20*8 +: 8], l4_q[21*8 +: 8], l4_q[22*8 +: 8], l4_q[23*8 +: 8]};
    hdr.has_reth  = has_reth;
    for (int i = 0; i < 8; i++) hdr.va[(7-i)*8 +: 8] = l4_q[(20+i)*8 +: 8];
    for (int i = 0; i < 4; i++) begin
      hdr.rkey[(3-i)*8 +: 8]    = l4_q[(28+i)*8 +: 8];
      hdr.dma_len[(3-i)*8 +: 8] = l4_q[(32+i)*8 +: 8];
    end
    hdr.syndrome  = syndrome;
    hdr.msn       = {l4_q[21*8 +: 8], l4_q[22*8 +: 8], l4_q[23*8 +: 8]};
    hdr.plen      = plen;
  end

  // Which bytes count for checksum and ICRC: up to the end of the UDP bytes, once that is known.
  wire [POS_W-1:0]  to_end   = {3'd0, udp_length} - start2_q; // from the start of the beat; signed
  wire [POS_W-1:0]  to_next  = {3'd0, udp_length} - next2_q;  // from its end
  wire              beyond   = to_end[POS_W-1];
  wire              whole    = !to_next[POS_W-1];             // the beat is, and more may follow
  wire [LANE_W-1:0] end_lane = to_end[LANE_W-1:0];            // bytes, if it is not whole
  wire              past_end = length_in2_q && (beyond || (!whole && end_lane == '0));
  wire              at_end   = length_in2_q && !beyond &&
                               (whole ? to_next == '0 : end_lane != '0);
  logic [BYTES-1:0] inside_end;
  always_comb begin
    inside_end = '1;
    if (length_in2_q && (beyond || !whole)) begin
      for (int i = 0; i < BYTES; i++) begin
        inside_end[i] = !beyond && end_lane > LANE_W'(i);
      end
    end
  end

  // ---------------------------------------------------------------------------------------------
  // Clock 3: payload. The beat in data3_q waits for the next one of its frame, whose first bytes
  // end the payload beat; the ICRC that follows the payload sees to it that there is one.

  logic [DATA_W-1:0]  data3_q;
  logic               last3_q;
  logic               pend_q, pend_d;   // a payload beat starts in data3_q and is not out
  logic [FILL_W-1:0]  left_q, left_d;   // payload beats not out yet
  logic [SHIFT_W-1:0] shift_q;          // payload starts at lane 2 + 4*shift
  logic [BYTES-1:0]   tail_q, tail_d;   // bytes that count in the last payload beat
  logic               one_left_q, one_left_d;
  logic               fresh_q;          // the header was handed on in the clock before
  logic [3:0]         bad_q;            // some cause of its headers, in four parts
  logic               fits_q;           // it is a data frame, and no RoCE MTU is exceeded
  logic               pays_q;           // pays, in the clocks after

  // The payload goes on if no cause is known: judged in the clock after they were found.
  wire               pays = fresh_q ? bad_q == '0 && fits_q : pays_q;
  wire               emit = pend_q && pays && (last3_q || v2_q);
  wire               emit_last = one_left_q;
  wire [FILL_W-1:0]  left_after = !emit ? left_q : last3_q ? '0 : left_q - FILL_W'(1);
  wire [FILL_W-1:0]  fill = last3_q ? left_q - FILL_W'(1) : '0;
  wire [2*DATA_W-1:0] pair = {last3_q ? '0 : data2_q, data3_q};
  logic [DATA_W-1:0] aligned;

  always_comb begin
    pend_d = pend_q && !emit;
    left_d = left_after;
    one_left_d = emit ? left_q == FILL_W'(2) && !last3_q : one_left_q;
    if (v2_q) pend_d = done_q && left_after != '0;
    if (hdr_push) begin
      pend_d = beats_all != '0;
      left_d = beats_all[FILL_W-1:0];
      one_left_d = beats_all == 16'd1;
    end
    aligned = pair[32'(shift_q)*32 + 16 +: DATA_W];
    if (emit_last) begin
      for (int i = 0; i < BYTES; i++) begin
        if (!tail_q[i]) aligned[i*8 +: 8] = '0;
      end
    end
    for (int i = 0; i < BYTES; i++) begin
      tail_d[i] = plen[LANE_W-1:0] == '0 || plen[LANE_W-1:0] > LANE_W'(i);
    end
  end

  logic [3:0]         head_units;       // headers are 54 + 4*head_units bytes
  always_comb begin
    head_units = base2_q;
    for (int e = 1; e < 4; e++) begin
      if (ext_kind_q == 2'(e)) head_units = base2_q + 4'(ext_units(e));
    end
  end

  always_ff @(posedge clk) begin
    done_q <= done_d;
    pend_q <= pend_d;
    left_q <= left_d;
    one_left_q <= one_left_d;
    fresh_q <= hdr_push;
    pays_q  <= pays;
    if (v2_q) begin
      data3_q <= data2_q;
      last3_q <= last2_q;
    end
    if (hdr_push) begin
      shift_q <= SHIFT_W'(32'(head_units) + 32'd13); // (54 + 4*head_units - 2) / 4
      tail_q  <= tail_d;
      bad_q <= {hdr_causes[ICRC:BTH_LENGTH] != '0, hdr_causes[UDP_LENGTH], hdr_causes[IP_LENGTH],
                hdr_causes[IP_FRAGMENT:0] != '0};
      fits_q       <= is_data_q && beats_all <= 16'(PAY_MAX / BYTES);
    end
    if (rst) begin
      done_q <= 1'b0;
      pend_q <= 1'b0;
      left_q <= '0;
      fresh_q <= 1'b0;
      pays_q  <= 1'b0;
    end
  end

  // ---------------------------------------------------------------------------------------------
  // Clocks 3 to 5: checksums and ICRC over the beat in data3_q, then the final verdict.

  logic             v3_q, v4_q, v5_q;  // the beat is the last of its frame
  logic             beat3_q;           // a new beat is in data3_q
  logic             first3_q;
  logic             at_end3_q;
  logic             update3_q;
  logic [BYTES-1:0] icrc_take3_q;
  logic [BYTES-1:0] sum_take3_q;
  logic [31:0]      constant3_q;
  logic [SHIFT_W-1:0] zeros3_q;
  logic [31:0]      extra3_q;
  logic [ICRC:0] causes3_q, causes4_q;
  logic [7:0]       early5_q;            // first of those, and where it stands among the late ones
  logic             early_ip5_q;         // before IP_CHECKSUM
  logic             early_udp5_q;        // before UDP_CHECKSUM
  logic             early_any5_q;
  logic [7:0]       final5;
  logic             no_sum3_q, no_sum4_q, no_sum5_q;
  logic             is4_3_q, is4_4_q;
  logic [17:0]      ip_a3_q, ip_b3_q, ip_c3_q;  // header checksum: 4, 4 and 2 words
  logic [19:0]      ip_sum4_q;
  logic             ip_bad5_q;
  wire              icrc_good5;
  wire              udp_good5;

  function automatic logic [17:0] word(input logic [15:0] w);
    word = {2'b00, w};
  endfunction

  always_ff @(posedge clk) begin
    beat3_q      <= v2_q;
    first3_q     <= small2_q == '0;
    at_end3_q    <= at_end;
    update3_q    <= !past_end;
    icrc_take3_q <= take2 & inside_end;
    sum_take3_q  <= sum2_q & inside_end;
    constant3_q  <= constant2;
    zeros3_q     <= ~end_lane[LANE_W-1:2]; // (BYTES - end_lane - 2) / 4; end_lane is 2 mod 4
    extra3_q     <= {udp_length[7:0], udp_length[15:8], 16'h1100};
    causes3_q    <= causes;
    no_sum3_q    <= udp_no_sum;
    is4_3_q      <= is4_2_q;
    ip_a3_q      <= word(ip_q[0 +: 16]) + word(ip_q[16 +: 16]) + word(ip_q[32 +: 16]) +
                    word(ip_q[48 +: 16]);
    ip_b3_q      <= word(ip_q[64 +: 16]) + word(ip_q[80 +: 16]) + word(ip_q[96 +: 16]) +
                    word(ip_q[112 +: 16]);
    ip_c3_q      <= word(ip_q[128 +: 16]) + word(ip_q[144 +: 16]);
    ip_sum4_q    <= {2'b00, ip_a3_q} + {2'b00, ip_b3_q} + {2'b00, ip_c3_q};
    // Right iff the folded sum is 0xffff, the same reasoning as in inc_udp_check.
    ip_bad5_q    <= is4_4_q && {12'd0, ip_sum4_q[19:16]} != ~ip_sum4_q[15:0];
    causes4_q    <= causes3_q;
    early5_q     <= first_of(causes4_q);
    early_ip5_q  <= causes4_q[IP_CHECKSUM-1:0] != '0;
    early_udp5_q <= causes4_q[UDP_CHECKSUM-1:0] != '0;
    early_any5_q <= causes4_q != '0;
    no_sum4_q    <= no_sum3_q;
    no_sum5_q    <= no_sum4_q;
    is4_4_q      <= is4_3_q;
    v3_q         <= v2_q && last2_q;
    v4_q         <= v3_q;
    v5_q         <= v4_q;
    if (rst) begin
      v3_q <= 1'b0;
      v4_q <= 1'b0;
      v5_q <= 1'b0;
    end
  end

  inc_icrc_check #(
    .DATA_W(DATA_W)
  ) u_icrc (
    .clk          (clk),
    .beat_valid   (beat3_q),
    .beat_first   (first3_q),
    .beat_update  (update3_q),
    .beat_data    (data3_q),
    .beat_take    (icrc_take3_q),
    .beat_constant(constant3_q),
    .beat_zeros   (zeros3_q),
    .good         (icrc_good5)
  );

  inc_udp_check #(
    .DATA_W(DATA_W)
  ) u_udp (
    .clk        (clk),
    .beat_valid (beat3_q),
    .beat_first (first3_q),
    .beat_update(update3_q),
    .beat_end   (at_end3_q),
    .beat_data  (data3_q),
    .beat_take  (sum_take3_q),
    .beat_extra (extra3_q),
    .good       (udp_good5)
  );

  always_comb begin
    if (early_ip5_q)                     final5 = early5_q;
    else if (ip_bad5_q)                  final5 = inc_spec_pkg::VERDICT_IP_CHECKSUM;
    else if (early_udp5_q)               final5 = early5_q;
    else if (!no_sum5_q && !udp_good5)   final5 = inc_spec_pkg::VERDICT_UDP_CHECKSUM;
    else if (early_any5_q)               final5 = early5_q;
    else if (!icrc_good5)                final5 = inc_spec_pkg::VERDICT_ICRC;
    else                                 final5 = inc_spec_pkg::VERDICT_OK;
  end

  // ---------------------------------------------------------------------------------------------
  // FIFOs. A beat is taken only if all that is on its way fits everywhere: a header is pushed out
  // of clock 2, a payload beat out of clock 3, an end out of clock 5, and two beats are taken
  // before a count is seen.

  localparam int PAY_CW = $clog2(PAY_DEPTH + 1);
  localparam int HDR_CW = $clog2(HDR_DEPTH + 1);
  localparam int EOF_CW = $clog2(EOF_DEPTH + 1);

  wire [PAY_CW-1:0] pay_count;
  wire [HDR_CW-1:0] hdr_count;
  wire [EOF_CW-1:0] eof_count;
  wire              hdr_room;
  wire              pay_room;
  wire              eof_room;

  always_comb begin
    ready_d = pay_count <= PAY_CW'(PAY_DEPTH - 5) && hdr_count <= HDR_CW'(HDR_DEPTH - 4) &&
              eof_count <= EOF_CW'(EOF_DEPTH - 7);
  end

  always_ff @(posedge clk) begin
    ready_q <= ready_d;
    if (rst) ready_q <= 1'b0;
  end

  // The verdict is worked out behind the FIFO: its causes come late.
  wire [HDR_W-1:0] hdr_out;
  wire [ICRC:0]    hdr_out_causes;
  wire [15:0]      hdr_out_beats;
  inc_pkg::hdr_t   hdr_full;
  assign m_hdr = hdr_full;

  always_comb begin
    hdr_full = hdr_out;
    hdr_full.verdict   = first_of(hdr_out_causes);
    hdr_full.pay_beats = (hdr_out_causes == '0 && hdr_full.is_data &&
                          hdr_out_beats <= 16'(PAY_MAX / BYTES)) ? hdr_out_beats : '0;
  end

  inc_fifo #(
    .DATA_W (HDR_W + ICRC + 1 + 16),
    .DEPTH  (HDR_DEPTH),
    .OUT_REG(1)
  ) u_hdr_fifo (
    .clk    (clk),
    .rst    (rst),
    .s_valid(hdr_push),
    .s_ready(hdr_room),
    .s_data ({hdr, hdr_causes, beats_all}),
    .m_valid(m_hdr_valid),
    .m_ready(m_hdr_ready),
    .m_data ({hdr_out, hdr_out_causes, hdr_out_beats}),
    .count  (hdr_count)
  );

  inc_fifo #(
    .DATA_W(8),
    .DEPTH (EOF_DEPTH)
  ) u_eof_fifo (
    .clk    (clk),
    .rst    (rst),
    .s_valid(v5_q),
    .s_ready(eof_room),
    .s_data (final5),
    .m_valid(m_eof_valid),
    .m_ready(m_eof_ready),
    .m_data (m_eof_verdict),
    .count  (eof_count)
  );

  // A payload beat, and how many zero beats of a frame that ended too soon follow it.
  wire              pay_valid;
  wire [DATA_W-1:0] pay_data;
  wire              pay_last;
  wire [FILL_W-1:0] pay_fill;
  logic [FILL_W-1:0] fill_q, fill_d;
  wire              filling = fill_q != '0;

  inc_fifo #(
    .DATA_W (DATA_W + 1 + FILL_W),
    .DEPTH  (PAY_DEPTH),
    .OUT_REG(1)
  ) u_pay_fifo (
    .clk    (clk),
    .rst    (rst),
    .s_valid(emit),
    .s_ready(pay_room),
    .s_data ({fill, emit_last, aligned}),
    .m_valid(pay_valid),
    .m_ready(m_pay_ready && !filling),
    .m_data ({pay_fill, pay_last, pay_data}),
    .count  (pay_count)
  );

  assign m_pay_valid = pay_valid || filling;
  assign m_pay_data  = filling ? '0 : pay_data;
  assign m_pay_last  = filling ? fill_q == FILL_W'(1) : pay_last;

  always_comb begin
    fill_d = fill_q;
    if (m_pay_ready) begin
      if (filling) fill_d = fill_q - FILL_W'(1);
      else if (pay_valid) fill_d = pay_fill;
    end
  end

  always_ff @(posedge clk) begin
    fill_q <= fill_d;
    if (rst) fill_q <= '0;
  end

`ifdef INC_ASSERT
  initial begin
    assert (DATA_W >= 64 && (DATA_W & (DATA_W - 1)) == 0);
    assert (PAY_DEPTH >= 16 && HDR_DEPTH >= 16 && EOF_DEPTH >= 16);
    assert (PAY_MAX % BYTES == 0);
  end
  always_ff @(posedge clk) begin
    if (!rst) begin
      // Reserve: a push always finds room.
      assert (!hdr_push || hdr_room);
      assert (!emit || pay_room);
      assert (!v5_q || eof_room);
      if (take0) begin
        assert ((s_axis_rx_tkeep & (s_axis_rx_tkeep + BYTES'(1))) == '0); // contiguous
        assert (s_axis_rx_tkeep[0]);
        assert (s_axis_rx_tlast || s_axis_rx_tkeep == '1);
      end
    end
  end
`endif

endmodule

`default_nettype wire
