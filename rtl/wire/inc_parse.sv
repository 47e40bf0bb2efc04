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
// Early:         m_early_*: the dqpn of the m_hdr that is new in the next clock (behind one that
//                is taken in this clock, or none), for a table read to begin. Without
//                m_early_valid none is; with it one may be.
// Latency:       from the beat that ends the headers (or the frame) to m_hdr_valid 2 clocks, to
//                m_early_* 1; from the second beat that a payload beat is made of to m_pay_valid 3
//                clocks, from the last if there is no second 4; from the last beat to m_eof_valid
//                7 clocks. m_hdr and m_eof come a few gate levels behind registers.
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
  output wire                m_early_valid,
  output wire [23:0]         m_early_qpn,

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
  localparam int UNITS   = BYTES / 4;
  localparam int SHIFT_W = $clog2(UNITS);
  // Beats of a frame are counted to LEN_W bits of bytes: more than any IP length can name.
  localparam int LEN_W   = 18;
  localparam int BEAT_W  = LEN_W - LANE_W;
  localparam int POS_W   = LEN_W + 1;
  localparam int FILL_W  = 16 - LANE_W;
  localparam int HDR_W   = $bits(m_hdr);
  localparam int IP_BYTES = 40;
  localparam int L4_BYTES = 44; // IHL 15: UDP destination port is at IP+62
  localparam int LAYOUTS  = 6;  // VLAN tags, + 3 for IPv6
  localparam int HEAD_BEATS = (62 + L4_BYTES + BYTES - 1) / BYTES;
  localparam int TURNS    = (UNITS < 16) ? UNITS : LAYOUTS;
  // Registers with many loads come in copies (`keep`: synthesis would leave only one of equal
  // registers): lanes that have a copy in common are 4.
  localparam int GROUPS   = BYTES / 4;

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
  logic [BYTES-1:0]  keep1_q;
  logic              last1_q;
  logic              user1_q;
  logic [7:0]        port1_q;
  logic [BEAT_W-1:0] beat1_q;
  logic [3:0]        small1_q;
  logic [LEN_W:0]    len1_q, len1_d; // bytes of the frame up to this beat
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
      keep1_q  <= s_axis_rx_tlast ? s_axis_rx_tkeep : '1;
      last1_q  <= s_axis_rx_tlast;
      user1_q  <= s_axis_rx_tuser;
      port1_q  <= s_axis_rx_tid;
      beat1_q  <= beat0_q;
      small1_q <= small0_q;
      len1_q   <= len1_d;
    end
    if (rst) v1_q <= 1'b0;
  end

  function automatic logic [15:0] type_at(input logic [DATA_W-1:0] beat, input int t);
    type_at = {beat[((12 + 4*t) % BYTES)*8 +: 8], beat[((12 + 4*t) % BYTES)*8 + 8 +: 8]};
  endfunction

  // EtherTypes seen so far in this frame (stale where they are still to come).
  logic [1:0] type_vlan_q, type_vlan_d; // [t]: the type at byte 12+4t is a VLAN tag's
  logic [2:0] type_v4_q, type_v4_d;
  logic [2:0] type_v6_q, type_v6_d;
  logic [2:0] tags_d;                   // one-hot: 0, 1, 2 tags
  logic       is4_d, is6_d;

  always_comb begin
    type_vlan_d = type_vlan_q;
    type_v4_d   = type_v4_q;
    type_v6_d   = type_v6_q;
    for (int t = 0; t < 3; t++) begin
      if (small0_q == 4'((12 + 4*t) / BYTES)) begin
        type_v4_d[t] = type_at(s_axis_rx_tdata, t) == inc_spec_pkg::ETHERTYPE_IPV4;
        type_v6_d[t] = type_at(s_axis_rx_tdata, t) == inc_spec_pkg::ETHERTYPE_IPV6;
        if (t < 2) begin // behind two tags a third is as strange as any other type
          type_vlan_d[t % 2] = type_at(s_axis_rx_tdata, t) == inc_spec_pkg::ETHERTYPE_VLAN ||
                               type_at(s_axis_rx_tdata, t) == inc_spec_pkg::ETHERTYPE_QINQ;
        end
      end
    end
    tags_d = {type_vlan_d[0] && type_vlan_d[1], type_vlan_d[0] && !type_vlan_d[1], !type_vlan_d[0]};
    is4_d  = (tags_d & type_v4_d) != '0;
    is6_d  = (tags_d & type_v6_d) != '0;
  end

  // Byte of the frame at which IP and UDP start; how far a beat is turned to put UDP in lane 0.
  function automatic int ip_at(input int layout);
    ip_at = 14 + 4*(layout % 3);
  endfunction

  function automatic int l4_at(input int layout);
    l4_at = (layout < 3) ? 34 + 4*layout : 54 + 4*(layout - 3);
  endfunction

  function automatic int turn_of(input int layout);
    turn_of = (UNITS < 16) ? (l4_at(layout) / 4) % UNITS : layout;
  endfunction

  function automatic int turn_lane(input int t); // lane that goes to lane 0
    turn_lane = (UNITS < 16) ? (4*t + 2) % BYTES : l4_at(t) % BYTES;
  endfunction

  logic [LAYOUTS-1:0]    layout1_q; // one-hot; what is not IPv6 is laid out as IPv4
  logic [TURNS-1:0]      turn_d;    // one-hot
  logic [2:0]            tags1_q;   // one-hot
  logic [GROUPS*TURNS-1:0] turn1_q; // turn_d, in copies
  logic [GROUPS*3-1:0]   turn_ip1_q; // tags1_q, in copies
  logic [LAYOUTS-1:0]    layout1_copy_q; // layout1_q
  logic [5:0]            row1_q;    // VLAN tags and number of the beat, for inc_icrc_cover
  logic                  is4_1_q, is6_1_q;
  logic [HEAD_BEATS-1:0] hot1_q;    // one-hot: number of the beat, 0 behind the headers
  logic [HEAD_BEATS-1:0] past1_q;   // [b]: the beat is behind beat b
  logic                  head1_q;   // the beat may hold headers
  logic [LAYOUTS-1:0]    layout_d;

  assign layout_d = is6_d ? {tags_d, 3'd0} : {3'd0, tags_d};

  always_comb begin
    turn_d = '0;
    for (int l = 0; l < LAYOUTS; l++) begin
      if (layout_d[l]) turn_d[turn_of(l)] = 1'b1;
    end
  end

  generate
    for (genvar g = 0; g < GROUPS; g++) begin : gen_copies
      (* keep *) always_ff @(posedge clk) begin
        if (take0) turn1_q[g*TURNS +: TURNS] <= turn_d;
      end
      (* keep *) always_ff @(posedge clk) begin
        if (take0) turn_ip1_q[g*3 +: 3] <= tags_d;
      end
    end
  endgenerate

  (* keep *) always_ff @(posedge clk) begin
    if (take0) begin
      layout1_q <= layout_d;
      tags1_q   <= tags_d;
    end
  end

  (* keep *) always_ff @(posedge clk) begin
    if (take0) begin
      layout1_copy_q <= layout_d;
      row1_q         <= {tags_d[2:1], small0_q};
    end
  end

  always_ff @(posedge clk) begin
    head1_q <= take0 && small0_q < 4'(HEAD_BEATS);
    if (take0) begin
      type_vlan_q <= type_vlan_d;
      type_v4_q <= type_v4_d;
      type_v6_q <= type_v6_d;
      is4_1_q   <= is4_d;
      is6_1_q   <= is6_d;
      for (int b = 0; b < HEAD_BEATS; b++) begin
        hot1_q[b]  <= small0_q == 4'(b);
        past1_q[b] <= small0_q > 4'(b);
      end
    end
    if (rst) head1_q <= 1'b0;
  end

  // ---------------------------------------------------------------------------------------------
  // Clock 1 to 2: IP and UDP headers into registers of their own, wherever they start. A stale flag
  // of the frame before does no harm: it only ever selects among positions in later beats.

  wire [1:0] tags1 = {tags1_q[2], tags1_q[1]};

  logic [12*8-1:0]       mac_q; // byte i of the frame in [i*8 +: 8]
  logic [40*8-1:0]       ip_q;  // byte i of IP
  logic [40*8-1:0]       l4_q;  // byte i of UDP

  // The beat is turned so that each header byte is in a lane of its own whatever the layout; then
  // only the beat in which it is to be taken depends on the layout.
  logic [DATA_W-1:0]     ip_turned;
  logic [DATA_W-1:0]     l4_turned;
  logic [IP_BYTES-1:0]   ip_en;
  logic [L4_BYTES-1:0]   l4_en;

  always_comb begin
    ip_turned = '0;
    l4_turned = '0;
    ip_en = '0;
    l4_en = '0;
    for (int i = 0; i < BYTES; i++) begin
      for (int t = 0; t < 3; t++) begin
        ip_turned[i*8 +: 8] = ip_turned[i*8 +: 8] |
                              (data1_q[((14 + 4*t + i) % BYTES)*8 +: 8] &
                               {8{turn_ip1_q[(i/4)*3 + t]}});
      end
      for (int t = 0; t < TURNS; t++) begin
        l4_turned[i*8 +: 8] = l4_turned[i*8 +: 8] |
                              (data1_q[((turn_lane(t) + i) % BYTES)*8 +: 8] &
                               {8{turn1_q[(i/4)*TURNS + t]}});
      end
    end
    for (int l = 0; l < LAYOUTS; l++) begin
      for (int i = 0; i < IP_BYTES; i++) begin
        ip_en[i] = ip_en[i] | (tags1_q[l % 3] && hot1_q[(ip_at(l) + i) / BYTES]);
      end
      for (int i = 0; i < L4_BYTES; i++) begin
        l4_en[i] = l4_en[i] | (layout1_q[l] && hot1_q[(l4_at(l) + i) / BYTES]);
      end
    end
  end

  generate
    for (genvar b = 0; b <= 11 / BYTES; b++) begin : gen_mac
      always_ff @(posedge clk) begin
        if (head1_q && hot1_q[b]) begin
          for (int i = 0; i < 12; i++) begin
            if (i / BYTES == b) mac_q[i*8 +: 8] <= data1_q[(i % BYTES)*8 +: 8];
          end
        end
      end
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (head1_q) begin
      for (int i = 0; i < IP_BYTES; i++) begin
        if (ip_en[i]) ip_q[i*8 +: 8] <= ip_turned[(i % BYTES)*8 +: 8];
      end
      for (int i = 0; i < 40; i++) begin
        if (l4_en[i]) l4_q[i*8 +: 8] <= l4_turned[(i % BYTES)*8 +: 8];
      end
    end
  end

  // What the fields say is worked out on their way in, as far as they are not more than 16 bits
  // together and start at even bytes: those never lie in two beats.
  function automatic logic [15:0] ip_field(input logic [DATA_W-1:0] turned, input int at);
    ip_field = {turned[(at % BYTES)*8 +: 8], turned[((at+1) % BYTES)*8 +: 8]};
  endfunction

  wire [7:0]  ip_first1  = ip_turned[7:0];
  wire [15:0] frag1      = ip_field(ip_turned, 6);
  wire [15:0] total1     = is6_1_q ? ip_field(ip_turned, 4) : ip_field(ip_turned, 2);
  wire [15:0] length1    = ip_field(l4_turned, 4);
  wire [7:0]  opcode1    = l4_turned[(8 % BYTES)*8 +: 8];
  wire [5:0]  flags1     = l4_turned[(9 % BYTES)*8 +: 6]; // pad and TVer
  wire [7:0]  syndrome1  = l4_turned[(20 % BYTES)*8 +: 8];
  // The kind of extended headers (0: none, 1: ImmDt or AETH, 2: RETH, 3: RETH and ImmDt) of opcodes
  // that are known, in as few levels as there can be; of others it is anything.
  wire [1:0]  ext_kind1  = {!opcode1[4] && (opcode1[3:0] == 4'h6 || opcode1[3:1] == 3'h5),
                            opcode1[4] || opcode1[3:0] == 4'h3 || opcode1[3:0] == 4'h5 ||
                            opcode1[3:0] == 4'h9 || opcode1[3:0] == 4'hb};

  logic        version_bad_q;
  logic        ihl_bad_q;    // IPv4, with options or too short a header
  logic [3:0]  over_q;       // 32-bit words of IPv4 options
  logic        later_q;      // IPv4, not the first fragment
  logic        more_q;       // IPv4, and not the last
  logic        prot_bad_q;   // not UDP
  logic [15:0] ip_total_q;   // length of IPv4, of the payload of IPv6
  logic [1:0]  ip_small_q;   // both: it has no room for UDP
  logic [10:0] port_q;       // [n]: the UDP destination port is 4791 behind n words of options
  logic        no_sum_q;
  logic [3:0]  shorter_q;    // [e]: UDP is shorter than headers of ext_kind_q e
  logic [3:0]  equal_q;      // [e]: it is as long as they are
  logic [3:0]  fits_l_q;     // [e]: it is not longer than they are and the largest payload
  logic        for_cnp_q;    // it is as long as that of a CNP
  logic        tver_bad_q;
  logic        known_q;
  logic        is_data_q;
  logic        is_ack_q;
  logic        is_cnp_q;
  logic        has_imm_q;
  logic [1:0]  ext_kind_q;
  logic [3:0]  minus_q;      // units of UDP that are not whole units of payload
  logic signed [8:0] up_q;   // units that make those of payload and pad whole beats
  logic        synd_bad_q;

  // Units of UDP, BTH, ICRC and the extended headers of an ext_kind_q.
  function automatic int head_units_of(input int kind);
    head_units_of = 6 + ((kind == 0) ? 0 : (kind == 1) ? 1 : (kind == 2) ? 4 : 5);
  endfunction

  always_ff @(posedge clk) begin
    if (head1_q) begin
      if (ip_en[0]) begin
        version_bad_q <= ip_first1[7:4] != (is6_1_q ? 4'd6 : 4'd4);
        ihl_bad_q     <= !is6_1_q && ip_first1[3:0] != 4'd5;
        over_q        <= (!is6_1_q && ip_first1[3:0] > 4'd5) ? ip_first1[3:0] - 4'd5 : 4'd0;
      end
      if (ip_en[6]) begin
        later_q <= !is6_1_q && frag1[12:0] != '0;
        more_q  <= !is6_1_q && frag1[13];
      end
      if (is6_1_q ? ip_en[6] : ip_en[9]) begin
        prot_bad_q <= (is6_1_q ? frag1[15:8] : ip_turned[(9 % BYTES)*8 +: 8]) != 8'd17;
      end
      if (is6_1_q ? ip_en[4] : ip_en[2]) begin
        ip_total_q    <= total1;
        ip_small_q[0] <= total1[15:5] == '0;
        ip_small_q[1] <= is6_1_q ? total1[4:3] == '0 : total1[4:2] != '1; // 8, 28
      end
      for (int n = 0; n < 11; n++) begin
        if (l4_en[4*n+2]) begin
          port_q[n] <= ip_field(l4_turned, 4*n + 2) == inc_spec_pkg::ROCE_UDP_PORT;
        end
      end
      if (l4_en[4]) begin
        for (int e = 0; e < 4; e++) begin
          shorter_q[e] <= length1 < 16'(4*head_units_of(e));
          equal_q[e]   <= length1 == 16'(4*head_units_of(e));
          fits_l_q[e]  <= length1 <= 16'(4*head_units_of(e) + PAY_MAX);
        end
        for_cnp_q <= length1 == 16'd40;
      end
      if (l4_en[6]) no_sum_q <= ip_field(l4_turned, 6) == 16'd0;
      if (l4_en[8]) begin
        known_q    <= inc_spec_pkg::opcode_known(opcode1);
        is_data_q  <= inc_spec_pkg::opcode_is_data(opcode1);
        is_ack_q   <= inc_spec_pkg::opcode_is_ack(opcode1);
        is_cnp_q   <= inc_spec_pkg::opcode_is_cnp(opcode1);
        has_imm_q  <= inc_spec_pkg::opcode_has_imm(opcode1);
        tver_bad_q <= flags1[3:0] != '0;
        ext_kind_q <= ext_kind1;
        for (int e = 0; e < 4; e++) begin
          if (ext_kind1 == 2'(e)) begin
            minus_q <= 4'(head_units_of(e)) + 4'(flags1[5:4] != '0); // a pad is in the last of them
            up_q    <= 9'(UNITS - 1 - head_units_of(e));
          end
        end
      end
      // Neither ACK, RNR NAK nor a NAK code that there is.
      if (l4_en[20]) begin
        synd_bad_q <= !(syndrome1[7:6] == 2'd0 ||
                        (syndrome1[7:3] == 5'h0c && syndrome1[2:0] <= 3'd4));
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
  logic              neither2_q;    // neither IPv4 nor IPv6
  logic [1:0]        v6_copy2_q;    // is6_2_q, in copies
  logic [3:0]        base2_q;       // headers are 54 + 4*base2_q bytes and the extended ones
  logic              headers_in2_q; // they are in
  logic              done1_q, done2_q; // they were in with an earlier beat
  logic              push2_q;       // and are with this one, or the frame is over
  logic              length_in2_q;  // the UDP length is in
  logic [POS_W-1:0]  start2_q;      // first byte of this beat, counted from UDP; signed
  logic [POS_W-1:0]  next2_q;       // the same of the beat behind
  logic [LEN_W:0]    len2_q;        // bytes of the frame up to this beat
  logic [POS_W-1:0]  minus2_q;      // to be added: those before UDP, negative
  logic [POS_W-1:0]  minus8_2_q;    // and 8 more
  wire  [BYTES-1:0]  take2;
  wire  [31:0]       constant3;
  logic [BYTES-1:0]  sum2_q;  // bytes of addresses and UDP

  inc_icrc_cover #(
    .DATA_W(DATA_W)
  ) u_cover (
    .clk     (clk),
    .tags    (row1_q[5:4]),
    .is_v6   (is6_1_q),
    .beat    (row1_q[3:0]),
    .take    (take2),
    .constant(constant3)
  );

  // Addresses start at IP+12 (IPv6: +8): 26 + 4t or 22 + 4t.
  localparam int SUM_BEATS = (34 + BYTES - 1) / BYTES;
  always_ff @(posedge clk) begin
    sum2_q <= '1;
    for (int b = 0; b < SUM_BEATS; b++) begin
      if (small1_q == 4'(b)) begin
        for (int i = 0; i < BYTES; i++) begin
          sum2_q[i] <= (b*BYTES + i >= 34) ||
                       (b*BYTES + i >= 30 && (is6_1_q || !tags1_q[2])) ||
                       (b*BYTES + i >= 26 && (is6_1_q ? !tags1_q[2] : tags1_q[0])) ||
                       (b*BYTES + i >= 22 && is6_1_q && tags1_q[0]);
        end
      end
    end
  end

  // Last byte of the headers, in the frame.
  function automatic int head_last(input int layout, input int kind);
    head_last = l4_at(layout) + 4*head_units_of(kind) - 5; // without the ICRC
  endfunction

  logic [3:0]       in1;           // [e]: the headers are in, if their kind is e
  logic             length_in1;
  logic [POS_W-1:0] minus_l4;      // constants of the layout, negative where they are subtracted
  logic [POS_W-1:0] minus_l4_next;
  logic [POS_W-1:0] minus_l4_8;

  always_comb begin
    in1           = '0;
    length_in1    = 1'b0;
    minus_l4      = '0;
    minus_l4_next = '0;
    minus_l4_8    = '0;
    for (int l = 0; l < LAYOUTS; l++) begin
      if (layout1_copy_q[l]) begin
        minus_l4      = minus_l4 | POS_W'(-l4_at(l));
        minus_l4_next = minus_l4_next | POS_W'(BYTES - l4_at(l));
        minus_l4_8    = minus_l4_8 | POS_W'(-l4_at(l) - 8);
      end
      if (layout1_q[l]) begin
        length_in1 = length_in1 | past1_q[(l4_at(l) + 5) / BYTES] | hot1_q[(l4_at(l) + 5) / BYTES];
        for (int e = 0; e < 4; e++) begin
          in1[e] = in1[e] | past1_q[head_last(l, e) / BYTES] |
                   (hot1_q[head_last(l, e) / BYTES] && keep1_q[head_last(l, e) % BYTES]);
        end
      end
    end
  end

  // Headers are complete with the beat that holds their last byte. If the opcode has not come yet,
  // what its register holds says at least the end of BTH, so the answer is no all the same; so it
  // is in the beat of the opcode, if that cannot hold the end of BTH, 11 bytes on.
  wire headers_in1 = (BYTES > 11 && l4_en[8]) ? in1[ext_kind1] : in1[ext_kind_q];

  always_ff @(posedge clk) begin
    v2_q    <= v1_q;
    push2_q <= v1_q && !done1_q && (headers_in1 || last1_q);
    if (v1_q) begin
      done1_q  <= !last1_q && (done1_q || headers_in1);
      done2_q  <= done1_q;
      data2_q  <= data1_q;
      last2_q  <= last1_q;
      user2_q  <= user1_q;
      port2_q  <= port1_q;
      small2_q <= small1_q;
      is4_2_q  <= is4_1_q;
      neither2_q <= !is4_1_q && !is6_1_q;
      base2_q  <= {2'd0, tags1} + (is6_1_q ? 4'd5 : 4'd0);
      headers_in2_q <= headers_in1;
      length_in2_q  <= length_in1;
      start2_q  <= {1'b0, beat1_q, LANE_W'(0)} + minus_l4;
      next2_q   <= {1'b0, beat1_q, LANE_W'(0)} + minus_l4_next;
      len2_q     <= len1_q;
      minus2_q   <= minus_l4;
      minus8_2_q <= minus_l4_8;
    end
    if (rst) begin
      v2_q    <= 1'b0;
      push2_q <= 1'b0;
      done1_q <= 1'b0;
    end
  end

  (* keep *) always_ff @(posedge clk) begin
    if (v1_q) is6_2_q <= is6_1_q;
  end

  generate
    for (genvar c = 0; c < 2; c++) begin : gen_v6_copies
      (* keep *) always_ff @(posedge clk) begin
        if (v1_q) v6_copy2_q[c] <= is6_1_q;
      end
    end
  endgenerate

  // ---------------------------------------------------------------------------------------------
  // Clock 2 to 3: fields, lengths, causes. Registers may still hold bytes of an earlier frame where
  // this one is too short; then a cause that sees the length comes first in the order.

  wire [15:0] udp_length = {l4_q[4*8 +: 8], l4_q[5*8 +: 8]};
  wire [7:0]  opcode     = l4_q[8*8 +: 8];
  wire [1:0]  pad        = l4_q[9*8+4 +: 2];
  wire        has_reth   = ext_kind_q[1];
  wire        no_payload = equal_q[ext_kind_q];
  wire        fits       = is_data_q && fits_l_q[ext_kind_q];

  // An overhead is a multiple of 4, and so is the length of a good frame: units are counted.
  wire [13:0] whole_units = udp_length[15:2] - {10'd0, minus_q};
  wire [15:0] plen        = {whole_units, 2'd0 - pad};
  wire [14:0] up_units    = {1'b0, udp_length[15:2]} + 15'(up_q);
  wire [15:0] beats_all   = 16'(up_units >> SHIFT_W);

  // The UDP length is what IP says: udp + 20 + ~total = -1 (IPv6: without 20), seen without a carry
  // chain: sum bits and carry bits of the three numbers are complements.
  wire [15:0] over_udp  = is6_2_q ? 16'd0 : 16'd20;
  wire [15:0] not_total = ~ip_total_q;
  wire [15:0] sum_bits  = udp_length ^ not_total ^ over_udp;
  wire [14:0] carries   = (udp_length[14:0] & not_total[14:0]) |
                          ((udp_length[14:0] | not_total[14:0]) & over_udp[14:0]);
  wire        udp_bad   = (sum_bits ^ {carries, 1'b0}) != '1;

  // [v]: verdict v applies. Those of the end of the frame are not among them. hdr_causes: what the
  // headers alone show, fast; of several some may be missing.
  logic [ICRC:0] causes;
  logic [ICRC:0] hdr_causes;
  logic          not_roce;
  logic [10:0]   port_hot;  // one-hot: where the port is
  always_comb begin
    port_hot = '0;
    for (int n = 0; n < 11; n++) begin
      port_hot[n] = over_q == 4'(n);
    end
    not_roce = neither2_q || prot_bad_q || later_q;
    causes = '0;
    causes[IP_VERSION]       = version_bad_q;
    causes[IP_HEADER_LENGTH] = ihl_bad_q;
    causes[IP_FRAGMENT]      = more_q;
    causes[IP_LENGTH]        = &ip_small_q;
    causes[UDP_LENGTH]       = udp_bad;
    causes[BTH_LENGTH]       = shorter_q[0];
    causes[BTH_TVER]         = tver_bad_q;
    causes[OPCODE]           = !known_q;
    causes[HEADER_LENGTH]    = shorter_q[ext_kind_q] || (is_ack_q && !equal_q[1]) ||
                               (is_cnp_q && !for_cnp_q);
    causes[PAD]              = udp_length[1:0] != 2'd0 || (pad != 2'd0 && no_payload);
    causes[AETH_SYNDROME]    = is_ack_q && synd_bad_q;
    hdr_causes = causes;
    // A frame that ends within its headers is not taken, whatever the registers hold.
    hdr_causes[NOT_ROCE] = not_roce || (!ihl_bad_q && !port_q[0]) || !headers_in2_q;
    causes[MAC_ERROR]    = user2_q; // causes count in the last beat
    causes[NOT_ROCE]     = not_roce || (port_hot & port_q) == '0;
  end

  function automatic logic [7:0] first_of(input logic [ICRC:0] set);
    first_of = inc_spec_pkg::VERDICT_OK;
    for (int v = ICRC; v > 0; v--) begin
      if (set[v]) first_of = 8'(v);
    end
  endfunction

  // The first cause of the headers: that of the UDP length is known last, so it chooses last
  // between what comes before and behind.
  localparam logic [ICRC:0] BEFORE_UDP = (ICRC+1)'((1 << UDP_LENGTH) - 1);
  localparam logic [ICRC:0] BEHIND_UDP = ~((ICRC+1)'((2 << UDP_LENGTH) - 1));
  wire [7:0] before_udp  = first_of(hdr_causes & BEFORE_UDP);
  wire [7:0] behind_udp  = first_of(hdr_causes & BEHIND_UDP);
  wire       some_before = (hdr_causes & BEFORE_UDP) != '0;
  wire       some_behind = (hdr_causes & BEHIND_UDP) != '0;
  wire       pays_all    = !some_before && !some_behind && fits;

  inc_pkg::hdr_t hdr;

  always_comb begin
    hdr = '0;
    hdr.verdict   = some_before ? before_udp
                    : udp_bad ? inc_spec_pkg::VERDICT_UDP_LENGTH : behind_udp;
    hdr.pay_beats = (pays_all && !udp_bad) ? beats_all : '0;
    hdr.port      = port2_q;
    hdr.dmac      = {mac_q[0*8 +: 8], mac_q[1*8 +: 8], mac_q[2*8 +: 8],
                     mac_q[3*8 +: 8], mac_q[4*8 +: 8], mac_q[5*8 +: 8]};
    hdr.smac      = {mac_q[6*8 +: 8], mac_q[7*8 +: 8], mac_q[8*8 +: 8],
                     mac_q[9*8 +: 8], mac_q[10*8 +: 8], mac_q[11*8 +: 8]};
    hdr.is_v6     = is6_2_q;
    for (int i = 0; i < 16; i++) begin
      if (v6_copy2_q[i / 8]) begin
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
    hdr.syndrome  = l4_q[20*8 +: 8];
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
  logic               last3_q, last3_copy_q; // the copy: for what is not the data
  logic               pend_q, pend_d;   // a payload beat starts in data3_q and is not out
  logic [FILL_W-1:0]  left_q, left_d;   // payload beats not out yet
  logic [UNITS/2*SHIFT_W-1:0] shift_q;  // payload starts at lane 2 + 4*shift; copies for 8 lanes
  logic [BYTES-1:0]   tail_q, tail_d;   // bytes that count in the last payload beat
  logic               one_left_q, one_left_d;
  logic               fresh_q;          // the header was handed on in the clock before
  logic               fits_q;           // it is a data frame without a cause but, perhaps:
  logic               udp_bad_q;        // UDP_LENGTH
  logic               pays_q;           // pays, in the clocks after

  // The payload goes on if no cause is known: judged in the clock after they were found.
  wire               pays = fresh_q ? fits_q && !udp_bad_q : pays_q;
  wire               emit = pend_q && pays && (last3_copy_q || v2_q);
  wire               emit_last = one_left_q;
  wire [FILL_W-1:0]  left_after = !emit ? left_q : last3_copy_q ? '0 : left_q - FILL_W'(1);
  wire [FILL_W-1:0]  fill = last3_copy_q ? left_q - FILL_W'(1) : '0;
  wire [2*DATA_W-1:0] pair = {last3_q ? '0 : data2_q, data3_q};
  logic [DATA_W-1:0] aligned;

  always_comb begin
    pend_d = pend_q && !emit;
    left_d = left_after;
    one_left_d = emit ? left_q == FILL_W'(2) && !last3_copy_q : one_left_q;
    if (v2_q) pend_d = done2_q && left_after != '0;
    if (push2_q) begin
      pend_d = !no_payload;
      left_d = beats_all[FILL_W-1:0];
      one_left_d = beats_all == 16'd1;
    end
    for (int g = 0; g < UNITS/2; g++) begin
      aligned[g*64 +: 64] = pair[32'(shift_q[g*SHIFT_W +: SHIFT_W])*32 + g*64 + 16 +: 64];
    end
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
      if (ext_kind_q == 2'(e)) head_units = base2_q + 4'(head_units_of(e) - 6);
    end
  end

  always_ff @(posedge clk) begin
    pend_q <= pend_d;
    left_q <= left_d;
    one_left_q <= one_left_d;
    fresh_q <= push2_q;
    pays_q  <= pays;
    if (v2_q) begin
      data3_q <= data2_q;
    end
    if (push2_q) begin
      tail_q  <= tail_d;
      fits_q    <= pays_all;
      udp_bad_q <= udp_bad;
    end
    if (rst) begin
      pend_q <= 1'b0;
      left_q <= '0;
      fresh_q <= 1'b0;
      pays_q  <= 1'b0;
    end
  end

  (* keep *) always_ff @(posedge clk) begin
    if (v2_q) last3_q <= last2_q;
  end
  (* keep *) always_ff @(posedge clk) begin
    if (v2_q) last3_copy_q <= last2_q;
  end

  generate
    for (genvar g = 0; g < UNITS/2; g++) begin : gen_shift
      (* keep *) always_ff @(posedge clk) begin
        if (push2_q) begin // (54 + 4*head_units - 2) / 4
          shift_q[g*SHIFT_W +: SHIFT_W] <= SHIFT_W'(32'(head_units) + 32'd13);
        end
      end
    end
  endgenerate

  // ---------------------------------------------------------------------------------------------
  // Clocks 3 to 7: checksums and ICRC over the beat in data3_q, then the final verdict.

  logic             v3_q, v4_q, v5_q, v6_q, v7_q; // the beat is the last of its frame
  logic             beat3_q;           // a new beat is in data3_q
  logic             first3_q;
  logic             at_end3_q;
  logic             update3_q;
  logic [BYTES-1:0] icrc_take3_q;
  logic [BYTES-1:0] sum_take3_q;
  logic [SHIFT_W-1:0] zeros3_q;
  logic [31:0]      extra3_q;
  logic [ICRC:0]    causes3_q;
  logic [ICRC:0]    causes4_q, causes4_d; // with those that compare lengths
  logic [3:0]       over3_q;
  logic [POS_W-1:0] room3_q;           // bytes behind IP up to this beat; signed
  logic [POS_W-1:0] room8_3_q;         // and less 8
  logic [POS_W-1:0] named3_q;          // bytes that IP says are behind it; signed
  logic [7:0]       early5_q;          // first of those, and where it stands among the late ones
  logic             early_ip5_q;       // before IP_CHECKSUM
  logic             early_udp5_q;      // before UDP_CHECKSUM
  logic [7:0]       known6_q, known6_d; // first of those and of IP_CHECKSUM
  logic             early_udp6_q;      // it comes before UDP_CHECKSUM
  logic [7:0]       ok7_q;             // final verdict if ICRC and UDP checksum are right
  logic [7:0]       icrc_bad7_q;       // if the first is not
  logic [7:0]       udp_bad7_q;        // if the second is not
  logic [7:0]       final7;
  logic [6:3]       no_sum_at_q;       // no_sum_q, [n]: of the frame in clock n
  logic             no_sum7_q;
  logic             is4_3_q, is4_4_q;
  logic [17:0]      ip_a3_q, ip_b3_q, ip_c3_q;  // header checksum: 4, 4 and 2 words
  logic [19:0]      ip_sum4_q;
  logic             ip_bad5_q;
  wire              icrc_good7;
  wire              udp_good7;

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
    zeros3_q     <= ~end_lane[LANE_W-1:2]; // (BYTES - end_lane - 2) / 4; end_lane is 2 mod 4
    extra3_q     <= {udp_length[7:0], udp_length[15:8], 16'h1100};
    causes3_q    <= causes;
    is4_3_q      <= is4_2_q;
    ip_a3_q      <= word(ip_q[0 +: 16]) + word(ip_q[16 +: 16]) + word(ip_q[32 +: 16]) +
                    word(ip_q[48 +: 16]);
    ip_b3_q      <= word(ip_q[64 +: 16]) + word(ip_q[80 +: 16]) + word(ip_q[96 +: 16]) +
                    word(ip_q[112 +: 16]);
    ip_c3_q      <= word(ip_q[128 +: 16]) + word(ip_q[144 +: 16]);
    ip_sum4_q    <= {2'b00, ip_a3_q} + {2'b00, ip_b3_q} + {2'b00, ip_c3_q};
    over3_q      <= over_q;
    room3_q      <= len2_q + minus2_q;
    room8_3_q    <= len2_q + minus8_2_q;
    named3_q     <= {3'd0, ip_total_q} - (is6_2_q ? POS_W'(0) : POS_W'(20));
    causes4_q    <= causes4_d;
    early5_q     <= first_of(causes4_q);
    early_ip5_q  <= causes4_q[IP_CHECKSUM-1:0] != '0;
    early_udp5_q <= causes4_q[UDP_CHECKSUM-1:0] != '0;
    // Right iff the folded sum is 0xffff, the same reasoning as in inc_udp_check.
    ip_bad5_q    <= is4_4_q && {12'd0, ip_sum4_q[19:16]} != ~ip_sum4_q[15:0];
    known6_q     <= known6_d;
    early_udp6_q <= early_udp5_q || ip_bad5_q;
    ok7_q        <= known6_q;
    icrc_bad7_q  <= (known6_q == inc_spec_pkg::VERDICT_OK) ? inc_spec_pkg::VERDICT_ICRC : known6_q;
    udp_bad7_q   <= early_udp6_q ? known6_q : inc_spec_pkg::VERDICT_UDP_CHECKSUM;
    no_sum_at_q  <= {no_sum_at_q[5:3], no_sum_q};
    no_sum7_q    <= no_sum_at_q[6];
    is4_4_q      <= is4_3_q;
    v3_q         <= v2_q && last2_q;
    v4_q         <= v3_q;
    v5_q         <= v4_q;
    v6_q         <= v5_q;
    v7_q         <= v6_q;
    if (rst) begin
      v3_q <= 1'b0;
      v4_q <= 1'b0;
      v5_q <= 1'b0;
      v6_q <= 1'b0;
      v7_q <= 1'b0;
    end
  end

  always_comb begin
    causes4_d = causes3_q;
    // Too short for UDP behind the options that there are.
    if (room8_3_q[POS_W-1] || (room8_3_q[POS_W-1:6] == '0 && room8_3_q[5:2] < over3_q)) begin
      causes4_d[NOT_ROCE] = 1'b1;
    end
    if ($signed(named3_q) > $signed(room3_q)) causes4_d[IP_LENGTH] = 1'b1;
    known6_d = (ip_bad5_q && !early_ip5_q) ? inc_spec_pkg::VERDICT_IP_CHECKSUM : early5_q;
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
    .beat_constant(constant3),
    .beat_zeros   (zeros3_q),
    .good         (icrc_good7)
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
    .good       (udp_good7)
  );

  always_comb begin
    final7 = ok7_q;
    if (!icrc_good7)              final7 = icrc_bad7_q;
    if (!no_sum7_q && !udp_good7) final7 = udp_bad7_q;
  end

  // ---------------------------------------------------------------------------------------------
  // FIFOs. A beat is taken only if all that is on its way fits everywhere: a header is pushed out
  // of clock 2, a payload beat out of clock 3, an end out of clock 7, and two beats are taken
  // before a count is seen.

  localparam int PAY_CW = $clog2(PAY_DEPTH + 1);
  localparam int HDR_CW = $clog2(HDR_DEPTH + 1);
  localparam int EOF_CW = $clog2(EOF_DEPTH + 1);

  wire [PAY_CW-1:0] pay_count;
  wire [HDR_CW-1:0] hdr_count;
  wire [EOF_CW-1:0] eof_count;
  wire              pay_room;

  always_comb begin
    ready_d = pay_count <= PAY_CW'(PAY_DEPTH - 5) && hdr_count <= HDR_CW'(HDR_DEPTH - 4) &&
              eof_count <= EOF_CW'(EOF_DEPTH - 9);
  end

  always_ff @(posedge clk) begin
    ready_q <= ready_d;
    if (rst) ready_q <= 1'b0;
  end

  wire [HDR_W-1:0]  hdr_out;
  wire [HDR_W-1:0]  hdr_next_out;
  wire              hdr_next_valid;
  inc_pkg::hdr_t    hdr_next;
  wire              unused_eof_next_valid;
  wire [7:0]        unused_eof_next;
  logic [23:0]      qpn1;
  assign m_hdr    = hdr_out;
  assign hdr_next = hdr_next_out;

  inc_parse_queue #(
    .DATA_W(HDR_W),
    .DEPTH (HDR_DEPTH)
  ) u_hdr_queue (
    .clk       (clk),
    .rst       (rst),
    .s_valid   (push2_q),
    .s_data    (hdr),
    .m_valid   (m_hdr_valid),
    .m_ready   (m_hdr_ready),
    .m_data    (hdr_out),
    .next_valid(hdr_next_valid),
    .next_data (hdr_next_out),
    .count     (hdr_count)
  );

  // Behind what has come is the frame of clock 1, whose QPN may be on its way into its register.
  always_comb begin
    qpn1 = {l4_q[13*8 +: 8], l4_q[14*8 +: 8], l4_q[15*8 +: 8]};
    for (int i = 13; i < 16; i++) begin
      if (l4_en[i]) qpn1[(15-i)*8 +: 8] = l4_turned[(i % BYTES)*8 +: 8];
    end
  end
  assign m_early_valid = hdr_next_valid || (v1_q && !done1_q);
  assign m_early_qpn   = hdr_next_valid ? hdr_next.dqpn : qpn1;

  inc_parse_queue #(
    .DATA_W(8),
    .DEPTH (EOF_DEPTH)
  ) u_eof_queue (
    .clk       (clk),
    .rst       (rst),
    .s_valid   (v7_q),
    .s_data    (final7),
    .m_valid   (m_eof_valid),
    .m_ready   (m_eof_ready),
    .m_data    (m_eof_verdict),
    .next_valid(unused_eof_next_valid),
    .next_data (unused_eof_next),
    .count     (eof_count)
  );

  // A payload beat, and how many zero beats of a frame that ended too soon follow it.
  wire              pay_valid;
  wire [DATA_W-1:0] pay_data;
  wire              pay_last;
  wire [FILL_W-1:0] pay_fill;
  wire              pay_fills;           // pay_fill is not 0
  logic [FILL_W-1:0] fill_q;
  logic             filling_q, filling_d; // fill_q is not 0
  logic             fill_one_q;           // fill_q is 1

  inc_fifo #(
    .DATA_W (DATA_W + 2 + FILL_W),
    .DEPTH  (PAY_DEPTH),
    .OUT_REG(1)
  ) u_pay_fifo (
    .clk    (clk),
    .rst    (rst),
    .s_valid(emit),
    .s_ready(pay_room),
    .s_data ({fill, fill != '0, emit_last, aligned}),
    .m_valid(pay_valid),
    .m_ready(m_pay_ready && !filling_q),
    .m_data ({pay_fill, pay_fills, pay_last, pay_data}),
    .count  (pay_count)
  );

  assign m_pay_valid = pay_valid || filling_q;
  assign m_pay_data  = filling_q ? '0 : pay_data;
  assign m_pay_last  = filling_q ? fill_one_q : pay_last;

  always_comb begin
    filling_d = filling_q;
    if (m_pay_ready) filling_d = filling_q ? !fill_one_q : pay_valid && pay_fills;
  end

  always_ff @(posedge clk) begin
    filling_q <= filling_d;
    if (m_pay_ready || !filling_q) begin
      fill_q     <= filling_q ? fill_q - FILL_W'(1) : pay_fill;
      fill_one_q <= filling_q ? fill_q == FILL_W'(2) : pay_fill == FILL_W'(1);
    end
    if (rst) filling_q <= 1'b0;
  end

  wire unused_ok = &{1'b0, hdr_next, pay_room};

`ifdef INC_ASSERT
  initial begin
    assert (DATA_W >= 64 && (DATA_W & (DATA_W - 1)) == 0);
    assert (PAY_DEPTH >= 16 && HDR_DEPTH >= 16 && EOF_DEPTH >= 16);
    assert (PAY_MAX % BYTES == 0);
  end
  always_ff @(posedge clk) begin
    if (!rst) begin
      // Reserve: a push always finds room (asserted in the queues, too).
      assert (!emit || pay_room);
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
