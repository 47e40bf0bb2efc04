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
//                bytes of the ICRC comes 4 + ceil($clog2(DATA_W/32) / 2) clocks later than it
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
  // Where the IPv4 checksum is, without a VLAN tag.
  localparam int SUM_BEAT = 24 / BYTES;
  localparam int SUM_LANE = 24 % BYTES;

  // Registers with many loads come in copies for 64 bits each (keep: synthesis would leave only one
  // of equal registers).
  localparam int COPIES   = (IMAGE_W + 63) / 64;

  inc_pkg::txhdr_t   h;
  inc_pkg::txshape_t w;
  wire               hdr_valid;
  wire               load;
  wire [HDR_W-1:0]   hdr_out;
  wire [SHAPE_W-1:0] shape_out;
  wire [COPIES-1:0]  is_tagged, is_v6;  // h.vlan_valid and h.is_v6, in copies
  wire [COPIES-1:0]  unused_copy_ready, unused_copy_valid;

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

  generate
    for (genvar c = 0; c < COPIES; c++) begin : gen_kind_copies
      inc_pass #(
        .DATA_W(2)
      ) u_pass (
        .clk    (clk),
        .rst    (rst),
        .s_valid(s_hdr_valid),
        .s_ready(unused_copy_ready[c]),
        .s_data ({s_hdr.vlan_valid, s_hdr.is_v6}),
        .m_valid(unused_copy_valid[c]),
        .m_ready(load),
        .m_data ({is_tagged[c], is_v6[c]})
      );
    end
  endgenerate

  // ---------------------------------------------------------------------------------------------
  // Header, clock 0: as bytes of the frame, without the IPv4 checksum, byte i in [i*8 +: 8]:
  // concatenations are written last byte first, and numbers turned so that their most significant
  // byte is first on the wire.

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

  // The sum of the IPv4 header, its carries folded in once; the checksum of that is folded and
  // inverted: a carry out of the first folding leaves less than 8 behind, so the second folding is
  // four bits long.
  function automatic logic [16:0] fold(input logic [17:0] a, input logic [17:0] b);
    logic [18:0] total;
    total = {1'b0, a} + {1'b0, b};
    fold  = {1'b0, total[15:0]} + {14'd0, total[18:16]};
  endfunction

  function automatic logic [15:0] checksum(input logic [16:0] folded);
    checksum = ~{folded[15:4], folded[3:0] + {3'd0, folded[16]}};
  endfunction

  wire  [15:0]      ip_length = w.udp_length + 16'd20;
  logic [31:0]      short_ext;
  logic [127:0]     reth;
  logic [8*40-1:0]  l4;  // UDP, BTH, extended headers
  logic [8*80-1:0]  ip4, ip6;  // IP, l4, zeros
  logic [IMAGE_W-1:0] plain4, plain6, tagged4, tagged6, headers;

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
    ip6 = {l4, wire16(h.dip), wire16(h.sip), h.ttl, 8'd17, wire2(w.udp_length),
           16'd0, h.tos[3:0], 4'd0, 4'd6, h.tos[7:4]};
    ip4 = {160'd0, l4, wire4(h.dip[31:0]), wire4(h.sip[31:0]), 16'd0, 8'd17, h.ttl,
           wire2(16'h4000), 16'd0, wire2(ip_length), h.tos, 8'h45};
    plain4  = {32'd0, ip4, wire2(inc_spec_pkg::ETHERTYPE_IPV4), wire6(h.smac), wire6(h.dmac)};
    plain6  = {32'd0, ip6, wire2(inc_spec_pkg::ETHERTYPE_IPV6), wire6(h.smac), wire6(h.dmac)};
    tagged4 = {ip4, wire2(inc_spec_pkg::ETHERTYPE_IPV4), wire2(h.vlan_tci),
               wire2(inc_spec_pkg::ETHERTYPE_VLAN), wire6(h.smac), wire6(h.dmac)};
    tagged6 = {ip6, wire2(inc_spec_pkg::ETHERTYPE_IPV6), wire2(h.vlan_tci),
               wire2(inc_spec_pkg::ETHERTYPE_VLAN), wire6(h.smac), wire6(h.dmac)};
  end

  generate
    for (genvar c = 0; c < COPIES; c++) begin : gen_headers
      localparam int W = (IMAGE_W - c*64 < 64) ? IMAGE_W - c*64 : 64;
      assign headers[c*64 +: W] =
        is_tagged[c] ? (is_v6[c] ? tagged6[c*64 +: W] : tagged4[c*64 +: W])
                     : (is_v6[c] ? plain6[c*64 +: W] : plain4[c*64 +: W]);
    end
  endgenerate

  // ---------------------------------------------------------------------------------------------
  // Clock 0 to 1: what the next beat is, all but its payload. This runs up to two beats ahead of
  // the payload and never waits for it in the same clock: the payload's valid and the output's
  // ready would have to reach every register of the headers.

  localparam int FIRST_UNIT = 13;            // headers without anything extra
  localparam int TURNS   = (UNITS < 16) ? UNITS : 12;

  typedef struct packed {
    logic [7:0]        dest;
    logic              vlan;
    logic              v6;
    logic              late;
    logic              first;     // the beat is the first
    logic              last;      // it is the last
    logic              icrc;      // the ICRC starts in it, as unit `unit`
    logic              rest;      // it began in the beat before: lanes 0 and 1
    logic [UNIT_W-1:0] unit;      // the same with every beat of a frame
    logic [3:0]        number;    // of the beat, stops at 15
    logic              sum_here;  // the IPv4 checksum is in it
    logic [16:0]       sum;
    logic              need;      // it takes a beat of the payload
    logic              pay_last;  // the last one
    logic [BYTES-1:0]  en;        // bytes of that which count
    logic [TURNS-1:0]  turn;      // one-hot: how far the payload is turned; 0 without need
    logic [DATA_W-1:0] head;
  } beat_t;

  beat_t             next, spare_q, at;      // `at` is in registers
  logic              next_valid;
  logic              next_ready_q;           // nothing is in spare_q
  logic              new_q, new_d;           // the next beat is the first
  logic [COPIES-1:0] new_copy_q;             // the same, in copies
  logic              end_q;                  // it is the last, if not the first
  logic              icrc_q;                 // the ICRC starts in it, if not the first
  logic [BEAT_W-1:0] left_q;                 // beats behind the one before
  logic [3:0]        number_q;
  logic [3:0]        before_q;               // beats from the one before to the payload's first
  logic              need_q;                 // the one before took a beat of the payload
  logic              some_q, some_d;         // payload beats were to come then, that one among them
  logic [BEAT_W-1:0] pays_q, pays_d;         // how many behind the next of them
  logic              one_q, one_d;           // none
  logic [LANE_W-1:0] tail_q;                 // bytes of the last payload beat; 0: all
  logic [MORE_W-1:0] more_q, more_d;         // headers from the next beat on
  logic [IMAGE_W-1:0] image;                 // the same, of a new frame all
  beat_t             same_q;                 // what all beats of the frame have in common
  logic [TURNS-1:0]  turn, turn_all_q;       // how far its payload is turned
  logic [16:0]       sum_q;                  // the IPv4 checksum, if it is behind the first beat
  logic              split_q;                // the ICRC ends in the beat behind that it starts in

  wire  [4:0]        pay_at   = 5'(FIRST_UNIT) + {1'b0, w.extra};
  wire               in_split = &w.icrc_at[UNIT_W-1:0];
  wire  [BEAT_W-1:0] in_icrc  = w.icrc_at[AT_W-1:UNIT_W];
  wire  [BEAT_W-1:0] in_end   = w.end_at[AT_W-1:UNIT_W];
  wire  [BEAT_W-1:0] in_pays  = BEAT_W'(w.pay_last >> UNIT_W);
  wire  [LANE_W-1:0] tail     = new_copy_q[0] ? h.plen[LANE_W-1:0] : tail_q;
  wire  [16:0]       sum_now  = fold(w.sum_a, w.sum_b);
  assign load  = new_copy_q[0] && next_ready_q;
  assign new_d = rst || (next_ready_q ? next.last || !next_valid : new_q);

  wire  [IMAGE_W-1:0] behind = IMAGE_W'(more_q);
  generate
    for (genvar c = 0; c < COPIES; c++) begin : gen_image
      localparam int W = (IMAGE_W - c*64 < 64) ? IMAGE_W - c*64 : 64;
      assign image[c*64 +: W] = new_copy_q[c] ? headers[c*64 +: W] : behind[c*64 +: W];
    end
  endgenerate
  wire  [DATA_W+MORE_W-1:0] padded = (DATA_W + MORE_W)'(image);

  always_comb begin
    next_valid = !new_q || hdr_valid;
    some_d = need_q ? !one_q : some_q;
    one_d  = need_q ? pays_q == BEAT_W'(1) : one_q;
    pays_d = need_q ? pays_q - BEAT_W'(1) : pays_q;
    turn = '0;
    if (new_q) begin
      next          = '0;
      next.dest     = h.port;
      next.vlan     = h.vlan_valid;
      next.v6       = h.is_v6;
      next.late     = h.late;
      next.first    = 1'b1;
      next.last     = BYTES >= 58 && in_end == '0; // no frame is shorter
      next.icrc     = BYTES >= 58 && in_icrc == '0;
      next.unit     = w.icrc_at[UNIT_W-1:0];
      next.sum_here = SUM_BEAT == 0 && !h.is_v6;
      next.need     = w.pay_some && 32'(pay_at) < UNITS;
      next.pay_last = in_pays == '0;
      for (int t = 0; t < TURNS; t++) begin
        turn[t] = (UNITS < 16) ? 32'(pay_at) % UNITS == t : w.extra == 4'(t);
      end
    end else begin
      next          = same_q;
      turn          = turn_all_q;
      next.first    = 1'b0;
      next.last     = end_q;
      next.icrc     = icrc_q;
      next.rest     = end_q && split_q;
      next.number   = number_q;
      next.sum_here = SUM_BEAT != 0 && !same_q.v6 && number_q == 4'(SUM_BEAT);
      next.need     = need_q ? !one_q : some_q && before_q == 4'd1;
      next.pay_last = one_d;
    end
    next.head = padded[DATA_W-1:0];
    more_d    = padded[DATA_W +: MORE_W];
    next.sum  = (SUM_BEAT == 0) ? sum_now : sum_q;
    next.turn = next.need ? turn : '0;
    for (int i = 0; i < BYTES; i++) begin
      next.en[i] = !next.pay_last || tail == '0 || tail > LANE_W'(i);
    end
  end

  always_ff @(posedge clk) begin
    if (next_ready_q) begin
      need_q <= next.need;
      more_q <= more_d;
      if (new_q) begin
        end_q    <= in_end == BEAT_W'(1);
        icrc_q   <= in_icrc == BEAT_W'(1);
        left_q   <= in_end;
        number_q <= 4'd1;
        before_q <= 4'(32'(pay_at) / UNITS);
        pays_q   <= in_pays;
        some_q   <= w.pay_some;
        one_q    <= in_pays == '0;
      end else begin
        end_q    <= left_q == BEAT_W'(2);
        icrc_q   <= left_q == (split_q ? BEAT_W'(3) : BEAT_W'(2));
        left_q   <= left_q - BEAT_W'(1);
        if (number_q != 4'd15) number_q <= number_q + 4'd1;
        if (before_q != '0) before_q <= before_q - 4'd1;
        pays_q   <= pays_d;
        some_q   <= some_d;
        one_q    <= one_d;
      end
    end
    if (load) begin
      same_q  <= next;
      turn_all_q <= turn;
      sum_q   <= sum_now;
      tail_q  <= h.plen[LANE_W-1:0];
      split_q <= in_split;
    end
  end

  (* keep *) always_ff @(posedge clk) begin
    new_q <= new_d;
  end

  generate
    for (genvar c = 0; c < COPIES; c++) begin : gen_new_copies
      (* keep *) always_ff @(posedge clk) begin
        new_copy_q[c] <= new_d;
      end
    end
  endgenerate

  // ---------------------------------------------------------------------------------------------
  // Clock 1: the beat at hand.

  localparam int GROUPS = BYTES / 8;         // lanes that have a copy in common are 8

  logic              busy_q;                 // `at` is a beat
  logic              room_q;
  logic              pay_ready_q;            // nothing is in pay_spare_q
  logic [GROUPS-1:0] pay_direct_q;           // the same, in copies
  logic [GROUPS*TURNS-1:0] turn_q;           // at.turn, in copies
  logic [DATA_W-1:0] pay_spare_q;
  logic [DATA_W-1:0] carried_q;              // of the payload, into this beat
  logic              pay_ready_d;
  wire               pay_valid = s_pay_valid || !pay_ready_q;
  wire               fire      = busy_q && room_q && (!at.need || pay_valid);
  wire               pay_take  = fire && at.need;
  wire               at_free   = fire || !busy_q;
  assign s_pay_ready = pay_ready_q;

  always_ff @(posedge clk) begin
    if (next_ready_q) spare_q <= next;
    if (at_free) begin
      at     <= next_ready_q ? next : spare_q;
      busy_q <= next_valid || !next_ready_q;
    end
    next_ready_q <= at_free || (next_ready_q && !next_valid);
    if (rst) begin
      busy_q       <= 1'b0;
      next_ready_q <= 1'b1;
    end
  end

  generate
    for (genvar g = 0; g < GROUPS; g++) begin : gen_copies
      (* keep *) always_ff @(posedge clk) begin
        if (at_free) turn_q[g*TURNS +: TURNS] <= next_ready_q ? next.turn : spare_q.turn;
      end
      (* keep *) always_ff @(posedge clk) begin
        pay_direct_q[g] <= pay_ready_d;
        if (rst) pay_direct_q[g] <= 1'b1;
      end
    end
  endgenerate

  // The payload beat that comes while none is taken.
  always_comb begin
    pay_ready_d = pay_ready_q ? !s_pay_valid || pay_take : pay_take;
  end

  always_ff @(posedge clk) begin
    for (int g = 0; g < GROUPS; g++) begin
      if (pay_direct_q[g]) pay_spare_q[g*64 +: 64] <= s_pay_data[g*64 +: 64];
    end
  end

  (* keep *) always_ff @(posedge clk) begin
    pay_ready_q <= pay_ready_d;
    if (rst) pay_ready_q <= 1'b1;
  end

  // Turn t is by t units if all units can be the first, else by FIRST_UNIT + t.
  function automatic int units_of(input int t);
    units_of = (UNITS < 16) ? t : (FIRST_UNIT + t) % UNITS;
  endfunction

  // Payload, its bytes behind the end 0, turned to where it goes. What comes to lie before its
  // first unit belongs in the beat behind. Turns 3 and 8 of 12 are of no headers that there are.
  logic [DATA_W-1:0] payload;
  logic [DATA_W-1:0] data;
  logic [DATA_W-1:0] carried;
  logic [DATA_W-1:0] turned; // all ones in the groups turned by t
  always_comb begin
    for (int i = 0; i < BYTES; i++) begin
      payload[i*8 +: 8] = (pay_direct_q[i/8] ? s_pay_data[i*8 +: 8] : pay_spare_q[i*8 +: 8]) &
                          {8{at.en[i]}};
    end
    data    = at.head | carried_q;
    carried = '0;
    for (int t = 0; t < TURNS; t++) begin
      for (int g = 0; g < GROUPS; g++) turned[g*64 +: 64] = {64{turn_q[g*TURNS + t]}};
      if (UNITS < 16 || (t != 3 && t != 8)) begin
        data    = data | ((payload << (8*(2 + 4*units_of(t)))) & turned);
        carried = carried | ((payload >> (8*(BYTES - 2 - 4*units_of(t)))) & turned);
      end
    end
    if (at.sum_here && !at.vlan) begin
      data[SUM_LANE*8 +: 16] = data[SUM_LANE*8 +: 16] | wire2(checksum(at.sum));
    end
    if (at.sum_here && at.vlan) begin
      data[SUM_LANE*8+32 +: 16] = data[SUM_LANE*8+32 +: 16] | wire2(checksum(at.sum));
    end
  end

  always_ff @(posedge clk) begin
    if (fire) carried_q <= carried; // nothing behind the last payload beat
    if (rst) carried_q <= '0;
  end

  // ---------------------------------------------------------------------------------------------
  // A clock later: the beat in a register, for the ICRC.

  logic              v2_q;
  logic              first2_q;
  logic              last2_q;
  logic [DATA_W-1:0] data2_q;
  logic [UNIT_W-1:0] zeros2_q;
  wire  [BYTES-1:0]  take2;
  wire  [31:0]       constant3;
  wire               icrc_valid;
  wire  [31:0]       icrc;

  inc_icrc_cover #(
    .DATA_W(DATA_W)
  ) u_cover (
    .clk     (clk),
    .tags    ({1'b0, at.vlan}),
    .is_v6   (at.v6),
    .beat    (at.number),
    .take    (take2),
    .constant(constant3)
  );

  always_ff @(posedge clk) begin
    v2_q     <= fire && !at.rest;
    first2_q <= at.first;
    last2_q  <= at.icrc;
    zeros2_q <= ~at.unit;
    data2_q  <= data;
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
    .beat_constant(constant3),
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
    logic              needs;      // some of the ICRC is in this beat
    logic              rest;       // its last two bytes are lanes 0 and 1
    logic [UNITS-1:0]  upto;       // units up to that which it is, if it starts here
    logic [DATA_W-1:0] data;
  } out_t;

  localparam int OUT_CW = $clog2(OUT_DEPTH + 1);

  out_t              out, head;
  localparam int OUT_W = $bits(out);
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
  logic [DATA_W-1:0] data_d;
  logic [UNITS:0]    keep_d;           // [0]: lanes 0 and 1; [u+1]: unit u
  wire  [UNITS:0]    keep;
  wire  [GROUPS-1:0] unused_slice_ready, unused_slice_valid;

  always_comb begin
    out       = '0;
    out.port  = at.dest;
    out.last  = at.last;
    out.late  = at.late;
    out.needs = at.icrc || at.rest;
    out.rest  = at.rest;
    for (int u = 0; u < UNITS; u++) out.upto[u] = at.icrc && at.unit >= UNIT_W'(u);
    out.data  = data;
  end

  wire        out_free; // a register
  wire        goes      = !head.needs || (sum_valid && (!head.late || end_valid));
  wire        pick_wait = wait_valid && goes;
  wire        straight  = fire && !wait_valid && !out.needs && out_free;
  wire        goes_out  = pick_wait || straight;
  wire        last_out  = wait_valid && head.last;
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
        if (head.upto[u] && (u == UNITS-1 || !head.upto[(u+1) % UNITS])) begin
          for (int i = 0; i < 4; i++) begin
            if (4*u + 2 + i < BYTES) begin
              data_d[((4*u+2+i) % BYTES)*8 +: 8] = sum_out[i*8 +: 8];
            end
          end
        end
        keep_d[u+1] = !head.last || head.upto[u];
      end
      if (head.rest) data_d[15:0] = sum_out[31:16];
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
    .s_data (out),
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
    if (rst) room_q <= 1'b0;
  end

  inc_skid #(
    .DATA_W(8 + 2 + UNITS + 1)
  ) u_out_skid (
    .clk    (clk),
    .rst    (rst),
    .s_valid(goes_out),
    .s_ready(out_free),
    .s_data ({wait_valid ? head.port : out.port, last_out, last_out && poison, keep_d}),
    .m_valid(m_axis_tx_tvalid),
    .m_ready(m_axis_tx_tready),
    .m_data ({m_axis_tx_tdest, m_axis_tx_tlast, m_axis_tx_tuser, keep})
  );

  // Slices, each with control of its own: they go in step.
  generate
    for (genvar g = 0; g < GROUPS; g++) begin : gen_slice
      inc_skid #(
        .DATA_W(64)
      ) u_skid (
        .clk    (clk),
        .rst    (rst),
        .s_valid(goes_out),
        .s_ready(unused_slice_ready[g]),
        .s_data (data_d[g*64 +: 64]),
        .m_valid(unused_slice_valid[g]),
        .m_ready(m_axis_tx_tready),
        .m_data (m_axis_tx_tdata[g*64 +: 64])
      );
    end
    for (genvar i = 0; i < BYTES; i++) begin : gen_keep
      assign m_axis_tx_tkeep[i] = keep[(i + 2) / 4];
    end
  endgenerate

  wire unused_ok = &{1'b0, s_pay_last, wait_room, sum_room, at.turn, at.pay_last,
                     unused_copy_ready, unused_copy_valid,
                     unused_slice_ready, unused_slice_valid};

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
        assert ((pay_ready_q ? s_pay_last : f_spare_last_q) == at.pay_last);
      end
      if (next_ready_q && !new_q && end_q) assert (next.need ? one_d : !some_d);
      if (load && hdr_valid) begin
        assert (!h.is_cnp || (h.plen == '0 && !h.has_reth && !h.has_imm && !h.has_aeth));
      end
    end
  end
`endif

endmodule

`default_nettype wire
