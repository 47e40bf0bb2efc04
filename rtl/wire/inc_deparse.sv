// Writes frames: headers, payload, pad, checksums, ICRC.
//
// Streams:       s_hdr_* (one txhdr_t a frame, with its shape: inc_frame_shape) and s_pay_*
//                (ceil(plen*8/DATA_W) beats, payload from lane 0, bytes after plen ignored) in;
//                m_axis_tx_* out, without FCS, tdest the port. s_end_*: one word for each frame
//                whose header says late, in order: the beat with the end of its ICRC waits for it.
//                s_end_poison 1: the frame is complete and right but for its ICRC, which is
//                inverted, and tuser is 1 on its last beat (make the FCS bad). tuser is 0 on every
//                other beat.
// Frame:         lengths, IPv4 checksum, pad and ICRC are worked out here. IPv4: IHL 5, ID 0, DF.
//                IPv6: flow label 0. UDP checksum 0, BTH reserved bits 0. Extended headers: RETH
//                if has_reth, behind it AETH if has_aeth, else ImmDt if has_imm. is_cnp (then none
//                of those, and plen 0): 16 zero bytes behind BTH.
// Latency:       1 clock from the first payload beat, if its header was offered at least a clock
//                before and no frame is before it, to the first beat out (without payload, and up
//                to the beat in which it starts: 2 clocks from the header). A beat that holds
//                bytes of the ICRC comes 3 + ceil($clog2(DATA_W/32) / 2) clocks later than it
//                would, at least 2 after its s_end.
// Throughput:    1 beat per clock; frames without bubbles when fed, those of one beat too.
// Back-pressure: s_hdr_ready, s_pay_ready and s_end_ready are registers. m_axis_tx_* are
//                registers. Behind a beat that waits, up to OUT_DEPTH beats wait with it.
// Reset:         synchronous; forgets everything inside.
// Parameters:    DATA_W 64..4096, a power of two.
// Source:        docs/protocol.md 3 (poisoned: the verdict of a frame begun too early); IBTA 9.2,
//                9.3, A17.
//
// All headers are 2 mod 4 bytes long: a beat is lanes 0 and 1 (the end of what began in the beat
// before) and units of four lanes from lane 2 on, the last of them cut in half.
`default_nettype none

module inc_deparse #(
  parameter int DATA_W = 512
) (
  input  wire                  clk,
  input  wire                  rst,

  input  wire                  s_hdr_valid,
  output wire                  s_hdr_ready,
  input  wire inc_pkg::txhdr_t s_hdr,
  input  wire inc_pkg::txshape_t s_shape,

  input  wire                  s_pay_valid,
  output wire                  s_pay_ready,
  input  wire [DATA_W-1:0]     s_pay_data,
  input  wire                  s_pay_last,

  input  wire                  s_end_valid,
  output wire                  s_end_ready,
  input  wire                  s_end_poison,

  output wire [DATA_W-1:0]     m_axis_tx_tdata,
  output wire [DATA_W/8-1:0]   m_axis_tx_tkeep,
  output wire                  m_axis_tx_tvalid,
  input  wire                  m_axis_tx_tready,
  output wire                  m_axis_tx_tlast,
  output wire                  m_axis_tx_tuser,
  output wire [7:0]            m_axis_tx_tdest
);

  localparam int BYTES   = DATA_W / 8;
  localparam int LANE_W  = $clog2(BYTES);
  localparam int UNITS   = BYTES / 4;
  localparam int UNIT_W  = $clog2(UNITS);
  localparam int AT_W    = 15;               // counts units of a frame
  localparam int BEAT_W  = AT_W - UNIT_W;
  localparam int IMAGE_BYTES = 98;           // VLAN tag, IPv6, RETH and ImmDt
  localparam int IMAGE_W = IMAGE_BYTES * 8;
  localparam int MORE_W  = (IMAGE_W > DATA_W) ? IMAGE_W - DATA_W : 1; // behind the first beat
  localparam int HDR_W   = $bits(s_hdr);
  localparam int SHAPE_W = $bits(s_shape);
  localparam int OUT_DEPTH = 16;
  // Up to 128 bits the IPv4 checksum is not in the first beat: it may come a clock later.
  localparam bit SUM_LATE = DATA_W <= 128;

  inc_pkg::txhdr_t   h;
  inc_pkg::txshape_t w;
  wire               hdr_valid;
  wire               load;
  wire [HDR_W-1:0]   hdr_out;
  wire [SHAPE_W-1:0] shape_out;

  assign h = hdr_out;
  assign w = shape_out;

  inc_pass #(
    .DATA_W(HDR_W + SHAPE_W)
  ) u_hdr_pass (
    .clk    (clk),
    .rst    (rst),
    .s_valid(s_hdr_valid),
    .s_ready(s_hdr_ready),
    .s_data ({s_hdr, s_shape}),
    .m_valid(hdr_valid),
    .m_ready(load),
    .m_data ({hdr_out, shape_out})
  );

  // ---------------------------------------------------------------------------------------------
  // Header, clock 0 to 1: as bytes of the frame, byte i in [i*8 +: 8]: concatenations are written
  // last byte first, and numbers turned so that their most significant byte is first on the wire.

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

  // The checksum of the IPv4 header from its two sums. A carry out of the first folding leaves less
  // than 8 behind: the second folding is four bits long.
  function automatic logic [15:0] checksum(input logic [17:0] a, input logic [17:0] b);
    logic [18:0] total;
    logic [16:0] folded;
    total    = {1'b0, a} + {1'b0, b};
    folded   = {1'b0, total[15:0]} + {14'd0, total[18:16]};
    checksum = ~{folded[15:4], folded[3:0] + {3'd0, folded[16]}};
  endfunction

  wire  [15:0]      ip_length = w.udp_length + 16'd20;
  wire  [15:0]      ip_checksum = SUM_LATE ? 16'd0 : checksum(w.sum_a, w.sum_b);
  wire  [15:0]      ether_type = h.is_v6 ? inc_spec_pkg::ETHERTYPE_IPV6
                                         : inc_spec_pkg::ETHERTYPE_IPV4;
  logic [31:0]      short_ext;
  logic [127:0]     reth;
  logic [8*40-1:0]  l4;  // UDP, BTH, extended headers
  logic [8*80-1:0]  l3;  // IP, l4, zeros
  logic [IMAGE_W-1:0] headers;

  always_comb begin
    short_ext = h.has_aeth ? {h.syndrome, h.msn} : h.has_imm ? h.imm : 32'd0;
    reth = h.has_reth ? {wire4(h.dma_len), wire4(h.rkey), wire4(h.va[31:0]), wire4(h.va[63:32])}
                      : 128'd0;
    l4[20*8-1:0] = {wire3(h.psn), h.ack_req, 7'd0, wire3(h.dqpn), 8'd0, wire2(h.pkey),
                    h.se, h.mig_req, 2'd0 - h.plen[1:0], 4'd0, h.opcode,
                    16'd0, wire2(w.udp_length), wire2(inc_spec_pkg::ROCE_UDP_PORT),
                    wire2(h.udp_sport)};
    l4[40*8-1:20*8] = (h.has_reth || h.is_cnp) ? {wire4(short_ext), reth}
                                               : {128'd0, wire4(short_ext)};
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

  // ---------------------------------------------------------------------------------------------
  // The frame at hand, a beat a clock. What its next beat is, is worked out with the beat before;
  // of the first beat, with the header.

  localparam int FIRST_UNIT = 13;            // headers without anything extra
  localparam int TURNS   = (UNITS < 16) ? UNITS : 12;

  logic              busy_q;
  logic              first_q;                // this beat is the first
  logic              final_q;                // it is the last
  logic              icrc_q;                 // the ICRC starts in it
  logic [BEAT_W-1:0] left_q;                 // beats behind this one
  logic [3:0]        small_q;                // number of the beat, stops at 15
  logic [3:0]        before_q;               // beats before the one in which the payload starts
  logic              need_q, need_d;         // this beat takes one of the payload
  logic [BEAT_W:0]   pays_q, pays_d;         // payload beats to come, this one among them
  logic [BYTES-1:0]  en_q, en_d;             // bytes of the payload beat that count
  logic [LANE_W-1:0] tail_q;                 // of the last payload beat; 0: all
  logic [TURNS-1:0]  turn_q, turn_d;         // one-hot: how far the payload is turned
  logic [UNITS-1:0]  new_q, new_d;           // units of a beat that its own payload beat fills
  logic [DATA_W-1:0] base_q, base_d;         // the beat without its own payload beat
  logic [MORE_W-1:0] more_q, more_d;         // headers behind this beat
  logic [7:0]        dest_q;
  logic              vlan_q;
  logic              v6_q;
  logic              late_q;
  logic              split_q;                // the ICRC ends in the beat behind that it starts in
  logic [UNIT_W-1:0] unit_q;                 // unit of the beat that the ICRC is

  logic              room_q;
  logic              pay_ready_q;            // nothing is spare
  logic [DATA_W-1:0] spare_q;
  wire               pay_valid = s_pay_valid || !pay_ready_q;
  wire               fire      = busy_q && room_q && (!need_q || pay_valid);
  wire               step      = fire || !busy_q; // else everything stays
  wire               next_is_new = final_q || !busy_q;
  wire               rest_now  = final_q && split_q;
  assign load        = next_is_new && step;
  assign s_pay_ready = pay_ready_q;

  // Payload, its bytes behind the end 0, turned to where it goes.
  logic [DATA_W-1:0] turned;
  logic [DATA_W-1:0] data;
  logic [DATA_W-1:0] carried;
  logic [BYTES-1:0]  lane_new;

  function automatic logic [DATA_W-1:0] turn(input logic [DATA_W-1:0] d, input int by);
    int lane;
    for (int i = 0; i < BYTES; i++) begin
      lane = (i + 2 + 4*by) % BYTES;
      turn[lane*8 +: 8] = d[i*8 +: 8];
    end
  endfunction

  // Turn t is by t units if all units can be the first, else by FIRST_UNIT + t.
  function automatic int units_of(input int t);
    units_of = (UNITS < 16) ? t : FIRST_UNIT + t;
  endfunction

  logic [DATA_W-1:0] payload;
  always_comb begin
    for (int i = 0; i < BYTES; i++) begin
      payload[i*8 +: 8] = (pay_ready_q ? s_pay_data[i*8 +: 8] : spare_q[i*8 +: 8]) & {8{en_q[i]}};
    end
    turned = '0;
    for (int t = 0; t < TURNS; t++) begin
      if (UNITS < 16 || (t != 3 && t != 8)) begin // no headers are of that length
        turned = turned | (turn(payload, units_of(t)) & {DATA_W{turn_q[t]}});
      end
    end
    for (int i = 0; i < BYTES; i++) begin
      lane_new[i] = i >= 2 && new_q[((i + BYTES - 2) / 4) % UNITS];
    end
    for (int i = 0; i < BYTES; i++) begin
      data[i*8 +: 8]    = base_q[i*8 +: 8] | (turned[i*8 +: 8] & {8{lane_new[i]}});
      carried[i*8 +: 8] = turned[i*8 +: 8] & {8{!lane_new[i]}};
    end
  end

  // The header image behind this beat, with the checksum if it comes late.
  logic [MORE_W-1:0] more_now;
  generate
    if (SUM_LATE) begin : gen_late_sum
      localparam int AT = 24*8 - DATA_W;
      logic [17:0] sum_a_q, sum_b_q;
      wire  [15:0] late_sum = wire2(checksum(sum_a_q, sum_b_q));
      always_ff @(posedge clk) begin
        if (load) begin
          sum_a_q <= w.sum_a;
          sum_b_q <= w.sum_b;
        end
      end
      always_comb begin
        more_now = more_q;
        if (first_q && !v6_q) begin
          if (vlan_q) more_now[AT+32 +: 16] = late_sum;
          else        more_now[AT +: 16]    = late_sum;
        end
      end
    end else begin : gen_no_late_sum
      assign more_now = more_q;
    end
  endgenerate

  wire [AT_W-1:0]   pay_last_unit = w.pay_units - AT_W'(1);
  wire [BEAT_W:0]   pay_beats     = (w.pay_units == '0) ? '0
                                  : {1'b0, pay_last_unit[AT_W-1:UNIT_W]} + (BEAT_W+1)'(1);
  wire              in_split      = &w.icrc_at[UNIT_W-1:0];
  wire [BEAT_W-1:0] icrc_beat     = w.icrc_at[AT_W-1:UNIT_W];
  wire [4:0]        pay_at        = 5'(FIRST_UNIT) + {1'b0, w.extra};

  always_comb begin
    turn_d = '0;
    new_d  = '0;
    for (int t = 0; t < TURNS; t++) begin
      turn_d[t] = (UNITS < 16) ? 32'(pay_at) % UNITS == t : w.extra == 4'(t);
    end
    for (int u = 0; u < UNITS; u++) begin
      new_d[u] = u >= 32'(pay_at) % UNITS;
    end
    if (next_is_new) begin
      pays_d = pay_beats;
      need_d = pay_beats != '0 && 32'(pay_at) < UNITS;
    end else begin
      pays_d = need_q ? pays_q - (BEAT_W+1)'(1) : pays_q;
      need_d = need_q ? pays_q != (BEAT_W+1)'(1) : pays_q != '0 && before_q == 4'd1;
    end
    en_d = {BYTES{need_d}};
    if (pays_d == (BEAT_W+1)'(1)) begin
      for (int i = 1; i < BYTES; i++) begin
        if (next_is_new) begin
          if (h.plen[LANE_W-1:0] != '0 && h.plen[LANE_W-1:0] <= LANE_W'(i)) en_d[i] = 1'b0;
        end else begin
          if (tail_q != '0 && tail_q <= LANE_W'(i)) en_d[i] = 1'b0;
        end
      end
    end
    base_d = '0;
    more_d = '0;
    if (next_is_new) begin
      for (int i = 0; i < IMAGE_W; i++) begin
        if (i < DATA_W) base_d[i % DATA_W] = headers[i];
        else            more_d[(i - DATA_W) % MORE_W] = headers[i];
      end
    end else begin
      base_d = carried;
      for (int i = 0; i < MORE_W; i++) begin
        if (i < DATA_W) base_d[i % DATA_W] = carried[i % DATA_W] | more_now[i];
        else            more_d[(i - DATA_W) % MORE_W] = more_now[i];
      end
    end
  end

  always_ff @(posedge clk) begin
    if (step) begin
      busy_q   <= next_is_new ? hdr_valid : 1'b1;
      first_q  <= next_is_new;
      need_q   <= need_d;
      pays_q   <= pays_d;
      en_q     <= en_d;
      base_q   <= base_d;
      more_q   <= more_d;
      if (next_is_new) begin
        final_q  <= icrc_beat == '0 && !in_split;
        icrc_q   <= icrc_beat == '0;
        left_q   <= icrc_beat + BEAT_W'(in_split);
        small_q  <= '0;
        before_q <= 4'(32'(pay_at) / UNITS);
      end else begin
        final_q  <= left_q == BEAT_W'(1);
        icrc_q   <= left_q == (split_q ? BEAT_W'(2) : BEAT_W'(1));
        left_q   <= left_q - BEAT_W'(1);
        if (small_q != 4'd15) small_q <= small_q + 4'd1;
        if (before_q != '0) before_q <= before_q - 4'd1;
      end
    end
    if (load) begin
      split_q <= in_split;
      unit_q  <= w.icrc_at[UNIT_W-1:0];
      turn_q  <= turn_d;
      new_q   <= new_d;
      tail_q  <= h.plen[LANE_W-1:0];
      dest_q  <= h.port;
      vlan_q  <= h.vlan_valid;
      v6_q    <= h.is_v6;
      late_q  <= h.late;
    end
    if (rst) busy_q <= 1'b0;
  end

  // The payload beat that comes while none is taken.
  wire pay_take = fire && need_q;
  always_ff @(posedge clk) begin
    if (pay_ready_q) begin
      spare_q     <= s_pay_data;
      pay_ready_q <= !s_pay_valid || pay_take;
    end else begin
      pay_ready_q <= pay_take;
    end
    if (rst) pay_ready_q <= 1'b1;
  end

  // ---------------------------------------------------------------------------------------------
  // A clock later: the beat in a register, for the ICRC.

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
    .tags    ({1'b0, vlan_q}),
    .is_v6   (v6_q),
    .beat    (small_q),
    .take    (take2),
    .constant(constant2)
  );

  always_ff @(posedge clk) begin
    v2_q <= fire && !rest_now;
    first2_q <= first_q;
    last2_q  <= icrc_q;
    zeros2_q <= ~unit_q;
    if (fire) data2_q <= data;
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
    logic              late;
    logic              icrc_start; // the ICRC starts in this beat, at unit icrc_unit
    logic              icrc_rest;  // its last two bytes are lanes 0 and 1 of this beat
    logic [UNIT_W-1:0] icrc_unit;
    logic [DATA_W-1:0] data;
  } out_t;

  localparam int OUT_CW = $clog2(OUT_DEPTH + 1);

  out_t              next, head;
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
  wire               end_valid;
  wire               end_ready;
  wire               end_poison;
  logic              valid_q;
  logic [DATA_W-1:0] data_q, data_d;
  logic [UNITS:0]    keep_q, keep_d;   // [0]: lanes 0 and 1; [u+1]: unit u
  logic              last_q;
  logic              user_q;
  logic [7:0]        port_q;

  always_comb begin
    next = '0;
    next.port       = dest_q;
    next.last       = final_q;
    next.late       = late_q;
    next.icrc_start = icrc_q;
    next.icrc_rest  = rest_now;
    next.icrc_unit  = unit_q;
    next.data       = data;
  end

  wire        out_free  = !valid_q || m_axis_tx_tready;
  wire        needs     = head.icrc_start || head.icrc_rest;
  wire        goes      = !needs || (sum_valid && (!head.late || end_valid));
  wire        pick_wait = wait_valid && goes;
  wire        straight  = fire && !wait_valid && !icrc_q && !rest_now && out_free;
  wire        poison    = head.late && end_poison;
  wire [31:0] sum_out   = sum ^ {32{poison}};
  assign head       = wait_out;
  assign wait_ready = out_free && goes;
  assign sum_ready  = out_free && pick_wait && head.last;
  assign end_ready  = sum_ready && head.late;

  always_comb begin
    data_d = wait_valid ? head.data : data;
    keep_d = '1;
    if (wait_valid) begin
      for (int u = 0; u < UNITS; u++) begin
        if (head.icrc_start && head.icrc_unit == UNIT_W'(u)) begin
          for (int i = 0; i < 4; i++) begin
            if (4*u + 2 + i < BYTES) begin
              data_d[((4*u+2+i) % BYTES)*8 +: 8] = sum_out[i*8 +: 8];
            end
          end
        end
        keep_d[u+1] = !head.last || (head.icrc_start && head.icrc_unit >= UNIT_W'(u));
      end
      if (head.icrc_rest) data_d[15:0] = sum_out[31:16];
    end
  end

  inc_fifo #(
    .DATA_W (OUT_W),
    .DEPTH  (OUT_DEPTH),
    .OUT_REG(1)
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
    .DATA_W (32),
    .DEPTH  (OUT_DEPTH),
    .OUT_REG(1)
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

  inc_skid #(
    .DATA_W(1)
  ) u_end_skid (
    .clk    (clk),
    .rst    (rst),
    .s_valid(s_end_valid),
    .s_ready(s_end_ready),
    .s_data (s_end_poison),
    .m_valid(end_valid),
    .m_ready(end_ready),
    .m_data (end_poison)
  );

  always_ff @(posedge clk) begin
    // One beat may be on its way into the FIFO when its count is read.
    room_q <= wait_count <= OUT_CW'(OUT_DEPTH - 2);
    if (out_free) begin
      valid_q <= pick_wait || straight;
      data_q  <= data_d;
      keep_q  <= keep_d;
      last_q  <= wait_valid && head.last;
      user_q  <= wait_valid && head.last && poison;
      port_q  <= wait_valid ? head.port : next.port;
    end
    if (rst) begin
      room_q  <= 1'b0;
      valid_q <= 1'b0;
    end
  end

  generate
    for (genvar i = 0; i < BYTES; i++) begin : gen_keep
      assign m_axis_tx_tkeep[i] = keep_q[(i + 2) / 4];
    end
  endgenerate
  assign m_axis_tx_tvalid = valid_q;
  assign m_axis_tx_tdata  = data_q;
  assign m_axis_tx_tlast  = last_q;
  assign m_axis_tx_tuser  = user_q;
  assign m_axis_tx_tdest  = port_q;

  wire unused_ok = &{1'b0, s_pay_last, wait_room, sum_room, pay_last_unit};

`ifdef INC_ASSERT
  logic f_spare_last_q;
  initial begin
    assert (DATA_W >= 64 && (DATA_W & (DATA_W - 1)) == 0);
  end
  always_ff @(posedge clk) begin
    if (pay_ready_q) f_spare_last_q <= s_pay_last;
    if (!rst) begin
      assert (!(fire && !straight) || wait_room);
      assert (!icrc_valid || sum_room);
      // The caller's last mark falls on the beat that plen says, and a frame takes all its beats.
      if (pay_take) begin
        assert ((pay_ready_q ? s_pay_last : f_spare_last_q) == (pays_q == (BEAT_W+1)'(1)));
      end
      if (fire && final_q) assert (pays_d == '0 || next_is_new);
      if (load && hdr_valid) begin
        assert (!h.is_cnp || (h.plen == '0 && !h.has_reth && !h.has_imm && !h.has_aeth));
      end
    end
  end
`endif

endmodule

`default_nettype wire
