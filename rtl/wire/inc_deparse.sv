// Writes frames: headers, payload, pad, checksums, ICRC.
//
// Streams:       s_hdr_* (one txhdr_t a frame) and s_pay_* (ceil(plen*8/DATA_W) beats, payload
//                from lane 0, bytes after plen ignored) in; m_axis_tx_* out, without FCS, tdest
//                the port.
// Frame:         lengths, IPv4 checksum, pad and ICRC are worked out here. IPv4: IHL 5, ID 0, DF.
//                IPv6: flow label 0. UDP checksum 0, BTH reserved bits 0. Extended header: AETH
//                if has_aeth, else ImmDt if has_imm. No RETH: opcodes that need one are not sent.
// Latency:       2 clocks from header and first payload beat (and no frame before it) to the
//                first beat out; a beat that holds bytes of the ICRC comes 4 or 5 clocks later
//                than it would.
// Throughput:    1 beat per clock; frames without bubbles when fed.
// Back-pressure: s_hdr_ready and s_pay_ready are registers (inc_skid). m_axis_tx_* are
//                registers.
// Reset:         synchronous; forgets everything inside.
// Parameters:    DATA_W 64..4096, a power of two.
// Source:        docs/protocol.md 3; IBTA 9.2, A17.
`default_nettype none

module inc_deparse #(
  parameter int DATA_W = 512
) (
  input  wire                  clk,
  input  wire                  rst,

  input  wire                  s_hdr_valid,
  output wire                  s_hdr_ready,
  input  wire inc_pkg::txhdr_t s_hdr,

  input  wire                  s_pay_valid,
  output wire                  s_pay_ready,
  input  wire [DATA_W-1:0]     s_pay_data,
  input  wire                  s_pay_last,

  output wire [DATA_W-1:0]     m_axis_tx_tdata,
  output wire [DATA_W/8-1:0]   m_axis_tx_tkeep,
  output wire                  m_axis_tx_tvalid,
  input  wire                  m_axis_tx_tready,
  output wire                  m_axis_tx_tlast,
  output wire                  m_axis_tx_tuser, // 0: make the FCS bad is not asked for yet
  output wire [7:0]            m_axis_tx_tdest
);

  localparam int BYTES   = DATA_W / 8;
  localparam int LANE_W  = $clog2(BYTES);
  localparam int UNIT_W  = $clog2(BYTES / 4);
  localparam int LEN_W   = 17;
  localparam int BEAT_W  = LEN_W - LANE_W;
  localparam int IMAGE_BYTES = 82;                 // VLAN tag, IPv6 and an extended header
  localparam int IMAGE_BEATS = (IMAGE_BYTES + BYTES - 1) / BYTES;
  localparam int HDR_W   = $bits(s_hdr);
  localparam int OUT_DEPTH = 16;

  // ---------------------------------------------------------------------------------------------
  // Lengths and the sum of the IPv4 header are worked out on the way in.

  typedef struct packed {
    logic [15:0]       udp_length;
    logic [18:0]       ip_sum;     // of the IPv4 header, to be folded
    logic [2:0]        extra;      // (header bytes - 54) / 4: 0, 1, 2, 5, 6, 7
    logic [3:0]        pay_beat;   // beat in which the payload starts
    logic              pay_first;  // that is the first
    logic              has_pay;
    logic [LEN_W-1:0]  icrc_at;    // first byte of the ICRC
    logic [LEN_W-1:0]  final_at;   // last byte of the frame
    logic              icrc_first; // the ICRC starts in the first beat
    logic              one_beat;   // the frame is one beat
  } work_t;

  work_t           in, w;
  inc_pkg::txhdr_t h;

  localparam int WORK_W = $bits(in);

  function automatic logic [18:0] word(input logic [15:0] value);
    word = {3'b000, value};
  endfunction

  wire        in_ext = s_hdr.has_aeth || s_hdr.has_imm;
  // IPv4 length: header to ICRC, with the pad.
  wire [15:0] in_length = (s_hdr.plen + (in_ext ? 16'd51 : 16'd47)) & 16'hfffc;
  always_comb begin
    in.udp_length = (s_hdr.plen + (in_ext ? 16'd31 : 16'd27)) & 16'hfffc;
    in.extra = {2'b00, s_hdr.vlan_valid} + {2'b00, in_ext} + (s_hdr.is_v6 ? 3'd5 : 3'd0);
    in.icrc_at  = LEN_W'(s_hdr.plen);
    in.final_at = LEN_W'(s_hdr.plen);
    in.pay_beat = '0;
    for (int n = 0; n < 8; n++) begin
      if (in.extra == 3'(n)) begin
        in.icrc_at  = LEN_W'(s_hdr.plen) + LEN_W'(55 + 4*n);
        in.final_at = LEN_W'(s_hdr.plen) + LEN_W'(59 + 4*n);
        in.pay_beat = 4'((54 + 4*n) / BYTES);
      end
    end
    in.icrc_at  = {in.icrc_at[LEN_W-1:2], 2'b10};  // headers are 2 mod 4: see below
    in.final_at = {in.final_at[LEN_W-1:2], 2'b01};
    in.pay_first  = in.pay_beat == '0;
    in.has_pay    = s_hdr.plen != '0;
    in.icrc_first = in.icrc_at[LEN_W-1:LANE_W] == '0;
    in.one_beat   = in.final_at[LEN_W-1:LANE_W] == '0;
    in.ip_sum = ((word(s_hdr.sip[31:16]) + word(s_hdr.sip[15:0])) +
                 (word(s_hdr.dip[31:16]) + word(s_hdr.dip[15:0]))) +
                ((word({8'h45, s_hdr.tos}) + word({s_hdr.ttl, 8'd17})) +
                 (word(in_length) + word(16'h4000)));
  end

  wire              hdr_valid;
  wire              hdr_ready;
  wire [HDR_W-1:0]  hdr_out;
  wire [WORK_W-1:0] work_out;
  wire              pay_valid;
  wire              pay_ready;
  wire [DATA_W-1:0] pay_data;
  wire              pay_last;

  assign h = hdr_out;
  assign w = work_out;

  inc_skid #(
    .DATA_W(HDR_W + WORK_W)
  ) u_hdr_skid (
    .clk    (clk),
    .rst    (rst),
    .s_valid(s_hdr_valid),
    .s_ready(s_hdr_ready),
    .s_data ({s_hdr, in}),
    .m_valid(hdr_valid),
    .m_ready(hdr_ready),
    .m_data ({hdr_out, work_out})
  );

  inc_skid #(
    .DATA_W(DATA_W + 1)
  ) u_pay_skid (
    .clk    (clk),
    .rst    (rst),
    .s_valid(s_pay_valid),
    .s_ready(s_pay_ready),
    .s_data ({s_pay_last, s_pay_data}),
    .m_valid(pay_valid),
    .m_ready(pay_ready),
    .m_data ({pay_last, pay_data})
  );

  // ---------------------------------------------------------------------------------------------
  // Clock 1: one beat of the frame at the head of the inputs. Header bytes in their lanes,
  // the payload behind them: the end of the payload beat before and the start of this one.

  // What the beat at hand is was worked out with the beat before; of the first beat, on the way in.
  logic              first_q;
  logic [BEAT_W-1:0] next_q;         // number of the beat behind
  logic [3:0]        small_q;        // number of the beat, stops at 15
  logic [IMAGE_BEATS-1:0] hot_q;     // the same one-hot; 0 behind the headers
  logic              final_q;        // not the first: the last
  logic              icrc_q;         // not the first: the ICRC starts here
  logic              rest_q;         // the ICRC started in the beat before
  logic              reached_q;      // the payload starts here or before
  logic              paid_q, paid_d; // all payload beats of the frame are taken
  logic [DATA_W-1:0] before_q;
  logic [UNIT_W-1:0] pay_unit;       // the payload's first lane is 2 + 4*pay_unit

  always_comb begin
    pay_unit = UNIT_W'(32'(w.extra) + 32'd13);
  end

  wire               need_pay  = w.has_pay && !paid_q && (w.pay_first || reached_q);
  logic              room_q;
  wire               fire      = hdr_valid && room_q && (!need_pay || pay_valid);
  wire               final_now = first_q ? w.one_beat : final_q;
  wire               icrc_now  = first_q ? w.icrc_first : icrc_q;
  wire               rest_now  = !first_q && rest_q;
  assign hdr_ready = fire && final_now;
  assign pay_ready = fire && need_pay;

  // Headers as one vector, byte i of the frame in [i*8 +: 8]: concatenations are written last byte
  // first, and numbers turned so that their most significant byte is first on the wire.
  function automatic logic [15:0] wire2(input logic [15:0] v);
    wire2 = {v[7:0], v[15:8]};
  endfunction

  function automatic logic [23:0] wire3(input logic [23:0] v);
    wire3 = {v[7:0], v[15:8], v[23:16]};
  endfunction

  function automatic logic [31:0] wire4(input logic [31:0] v);
    wire4 = {v[7:0], v[15:8], v[23:16], v[31:24]};
  endfunction

  function automatic logic [47:0] wire6(input logic [47:0] v);
    wire6 = {wire3(v[23:0]), wire3(v[47:24])};
  endfunction

  function automatic logic [127:0] wire16(input logic [127:0] v);
    wire16 = {wire4(v[31:0]), wire4(v[63:32]), wire4(v[95:64]), wire4(v[127:96])};
  endfunction

  logic [15:0]     ip_length;
  logic [16:0]     ip_folded;
  logic [15:0]     ip_checksum_d;
  wire  [15:0]     ip_checksum;
  logic [15:0]     ether_type;
  logic [31:0]     ext;
  logic [8*24-1:0] l4;  // UDP, BTH, extended header
  logic [8*64-1:0] l3;  // IP, l4, zeros
  logic [8*IMAGE_BYTES-1:0] headers;

  always_comb begin
    ip_length = w.udp_length + 16'd20;
    ip_folded = {1'b0, w.ip_sum[15:0]} + {14'd0, w.ip_sum[18:16]};
    ip_checksum_d = ~(ip_folded[15:0] + {15'd0, ip_folded[16]});
    ether_type = h.is_v6 ? inc_spec_pkg::ETHERTYPE_IPV6 : inc_spec_pkg::ETHERTYPE_IPV4;
    ext = h.has_aeth ? {h.syndrome, h.msn} : h.has_imm ? h.imm : 32'd0;
    l4 = {wire4(ext), wire3(h.psn), h.ack_req, 7'd0, wire3(h.dqpn), 8'd0, wire2(h.pkey),
          h.se, h.mig_req, 2'd0 - h.plen[1:0], 4'd0, h.opcode,
          16'd0, wire2(w.udp_length), wire2(inc_spec_pkg::ROCE_UDP_PORT), wire2(h.udp_sport)};
    if (h.is_v6) begin
      l3 = {l4, wire16(h.dip), wire16(h.sip), h.ttl, 8'd17, wire2(w.udp_length),
            16'd0, h.tos[3:0], 4'd0, 4'd6, h.tos[7:4]};
    end else begin
      l3 = {160'd0, l4, wire4(h.dip[31:0]), wire4(h.sip[31:0]), wire2(ip_checksum), 8'd17, h.ttl,
            wire2(16'h4000), 16'd0, wire2(ip_length), h.tos, 8'h45};
    end
    if (h.vlan_valid) begin
      headers = {l3, wire2(ether_type), wire2(h.vlan_tci), wire2(inc_spec_pkg::ETHERTYPE_VLAN),
                 wire6(h.smac), wire6(h.dmac)};
    end else begin
      headers = {32'd0, l3, wire2(ether_type), wire6(h.smac), wire6(h.dmac)};
    end
  end

  // Up to 128 bits the checksum is not in the first beat: a clock more.
  generate
    if (DATA_W <= 128) begin : gen_checksum
      logic [15:0] checksum_q;
      always_ff @(posedge clk) checksum_q <= ip_checksum_d;
      assign ip_checksum = checksum_q;
    end else begin : gen_checksum
      assign ip_checksum = ip_checksum_d;
    end
  endgenerate

  logic [IMAGE_BEATS*DATA_W-1:0] image;
  logic [DATA_W-1:0]   payload;     // this payload beat, bytes after plen 0
  logic [2*DATA_W-1:0] pair;
  logic [DATA_W-1:0]   data;
  wire  [LANE_W-1:0]   tail = h.plen[LANE_W-1:0];

  always_comb begin
    image = '0;
    image[IMAGE_BYTES*8-1:0] = headers;
    payload = need_pay ? pay_data : '0;
    if (pay_last && tail != '0) begin
      for (int i = 0; i < BYTES; i++) begin
        if (tail <= LANE_W'(i)) payload[i*8 +: 8] = '0;
      end
    end
    pair = {payload, before_q};
    // Lane l of the frame is payload byte l - first: shift right by BYTES - first.
    data = pair[DATA_W - 16 - 32'(pay_unit)*32 +: DATA_W];
    for (int b = 0; b < IMAGE_BEATS; b++) begin
      if (hot_q[b]) data = data | image[b*DATA_W +: DATA_W];
    end
    paid_d = paid_q;
    if (fire) begin
      paid_d = !final_now && (paid_q || (need_pay && pay_last));
    end
  end

  always_ff @(posedge clk) begin
    paid_q <= paid_d;
    if (fire) begin
      before_q <= final_now ? '0 : payload;
      first_q  <= final_now;
      hot_q    <= final_now ? IMAGE_BEATS'(1) : hot_q << 1;
      next_q   <= final_now ? BEAT_W'(1) : next_q + BEAT_W'(1);
      final_q  <= next_q == w.final_at[LEN_W-1:LANE_W];
      icrc_q   <= next_q == w.icrc_at[LEN_W-1:LANE_W];
      rest_q   <= icrc_now;
      reached_q <= !final_now && (reached_q || small_q + 4'd1 == w.pay_beat);
      if (final_now) small_q <= '0;
      else if (small_q != 4'd15) small_q <= small_q + 4'd1;
    end
    if (rst) begin
      paid_q    <= 1'b0;
      first_q   <= 1'b1;
      hot_q     <= IMAGE_BEATS'(1);
      next_q    <= BEAT_W'(1);
      reached_q <= 1'b0;
      small_q   <= '0;
      before_q  <= '0;
    end
  end

  // ---------------------------------------------------------------------------------------------
  // Clock 2: the beat in a register, for the ICRC.

  logic              v2_q;
  logic              first2_q;
  logic              last2_q;
  logic [DATA_W-1:0] data2_q;
  logic [UNIT_W-1:0] zeros2_q;
  wire  [BYTES-1:0]  take2;
  wire  [31:0]       constant2;
  wire               icrc_valid;
  wire  [31:0]       icrc;

  inc_icrc_cover #(
    .DATA_W(DATA_W)
  ) u_cover (
    .clk     (clk),
    .tags    ({1'b0, h.vlan_valid}),
    .is_v6   (h.is_v6),
    .beat    (small_q),
    .take    (take2),
    .constant(constant2)
  );

  always_ff @(posedge clk) begin
    v2_q <= fire && !rest_now;
    if (fire) begin
      first2_q <= first_q;
      last2_q  <= icrc_now;
      data2_q  <= data;
      zeros2_q <= UNIT_W'((32'(BYTES) - 32'd2 - 32'(w.icrc_at[LANE_W-1:0])) >> 2);
    end
    if (rst) v2_q <= 1'b0;
  end

  inc_icrc_gen #(
    .DATA_W(DATA_W)
  ) u_icrc (
    .clk          (clk),
    .rst          (rst),
    .beat_valid   (v2_q),
    .beat_first   (first2_q),
    .beat_last    (last2_q),
    .beat_data    (data2_q),
    .beat_take    (take2),
    .beat_constant(constant2),
    .beat_zeros   (zeros2_q),
    .icrc_valid   (icrc_valid),
    .icrc         (icrc)
  );

  // ---------------------------------------------------------------------------------------------
  // Output: beats that need the ICRC wait for it in a FIFO, with those behind them; others go
  // straight to the output register while the FIFO is empty.

  typedef struct packed {
    logic [7:0]        port;
    logic              last;
    logic [LANE_W-1:0] final_lane; // last byte of the frame, in its last beat
    logic              icrc_start; // the ICRC starts in this beat, at lane 2 + 4*icrc_unit
    logic              icrc_rest;  // its last two bytes are lanes 0 and 1 of this beat
    logic [UNIT_W-1:0] icrc_unit;
    logic [DATA_W-1:0] data;
  } out_t;

  localparam int OUT_CW = $clog2(OUT_DEPTH + 1);

  out_t              next, head, pick;
  localparam int OUT_W = $bits(next);
  wire               wait_valid;
  wire               wait_ready;
  wire [OUT_W-1:0]   wait_out;
  wire [OUT_CW-1:0]  wait_count;
  wire               wait_room;
  wire               sum_valid;
  wire               sum_ready;
  wire [31:0]        sum;
  wire               sum_room;
  wire [OUT_CW-1:0]  unused_sum_count;
  logic              valid_q;
  logic [DATA_W-1:0] data_q, data_d;
  logic [BYTES-1:0]  keep_q, keep_d;
  logic              last_q;
  logic [7:0]        port_q;

  always_comb begin
    next = '0;
    next.port       = h.port;
    next.last       = final_now;
    next.final_lane = w.final_at[LANE_W-1:0];
    next.icrc_start = icrc_now;
    next.icrc_rest  = rest_now;
    next.icrc_unit  = UNIT_W'((w.icrc_at[LANE_W-1:0] - LANE_W'(2)) >> 2);
    next.data       = data;
  end

  wire out_free   = !valid_q || m_axis_tx_tready;
  wire needs      = head.icrc_start || head.icrc_rest;
  wire pick_wait  = wait_valid && (!needs || sum_valid);
  wire straight   = fire && !wait_valid && !next.icrc_start && !next.icrc_rest && out_free;
  assign head       = wait_out;
  assign wait_ready = out_free && (!needs || sum_valid);
  assign sum_ready  = out_free && pick_wait && head.last;
  assign pick       = wait_valid ? head : next;

  always_comb begin
    data_d = pick.data;
    for (int u = 0; u < BYTES/4; u++) begin
      if (pick.icrc_start && pick.icrc_unit == UNIT_W'(u)) begin
        for (int i = 0; i < 4; i++) begin
          if (4*u + 2 + i < BYTES) begin
            data_d[((4*u+2+i) % BYTES)*8 +: 8] = sum[i*8 +: 8];
          end
        end
      end
    end
    if (pick.icrc_rest) data_d[15:0] = sum[31:16];
    keep_d = '1;
    if (pick.last) begin
      for (int i = 0; i < BYTES; i++) begin
        keep_d[i] = pick.final_lane >= LANE_W'(i);
      end
    end
  end

  inc_fifo #(
    .DATA_W(OUT_W),
    .DEPTH (OUT_DEPTH)
  ) u_wait_fifo (
    .clk    (clk),
    .rst    (rst),
    .s_valid(fire && !straight),
    .s_ready(wait_room),
    .s_data (next),
    .m_valid(wait_valid),
    .m_ready(wait_ready),
    .m_data (wait_out),
    .count  (wait_count)
  );

  inc_fifo #(
    .DATA_W(32),
    .DEPTH (OUT_DEPTH)
  ) u_sum_fifo (
    .clk    (clk),
    .rst    (rst),
    .s_valid(icrc_valid),
    .s_ready(sum_room),
    .s_data (icrc),
    .m_valid(sum_valid),
    .m_ready(sum_ready),
    .m_data (sum),
    .count  (unused_sum_count)
  );

  always_ff @(posedge clk) begin
    // One beat may be on its way into the FIFO when its count is read.
    room_q <= wait_count <= OUT_CW'(OUT_DEPTH - 2);
    if (out_free) begin
      valid_q <= pick_wait || straight;
      data_q  <= data_d;
      keep_q  <= keep_d;
      last_q  <= pick.last;
      port_q  <= pick.port;
    end
    if (rst) begin
      room_q  <= 1'b0;
      valid_q <= 1'b0;
    end
  end

  assign m_axis_tx_tvalid = valid_q;
  assign m_axis_tx_tdata  = data_q;
  assign m_axis_tx_tkeep  = keep_q;
  assign m_axis_tx_tlast  = last_q;
  assign m_axis_tx_tuser  = 1'b0;
  assign m_axis_tx_tdest  = port_q;

  wire unused_ok = &{1'b0, h.has_reth, h.va, h.rkey, h.dma_len, h.is_cnp, h.late};

`ifdef INC_ASSERT
  initial begin
    assert (DATA_W >= 64 && (DATA_W & (DATA_W - 1)) == 0);
  end
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!(fire && !straight) || wait_room);
      assert (!icrc_valid || sum_room);
      // The caller's last mark falls on the beat that plen says.
      if (fire && final_now) assert (paid_d == 1'b0 && (h.plen == '0 || paid_q || pay_last));
    end
  end
`endif

endmodule

`default_nettype wire
