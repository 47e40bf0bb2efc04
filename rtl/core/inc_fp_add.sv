// One floating-point element: sum, minimum, maximum, or the new element passed on, in float32,
// float16 or bfloat16.
//
// Operation:     sum: IEEE 754, round to nearest even, subnormals kept; any NaN in, and inf - inf,
//                give the canonical quiet NaN. Minimum and maximum: minimumNumber, maximumNumber
//                with -0 < +0. start: x as it is, whatever it is.
// Latency:       5 clocks to y, which is then registered by the user: 6 in all. a may come late in
//                its clock (it is only sorted into fields), x and the rest come from registers.
// Throughput:    1 element per clock. Nothing stops it; the user keeps the valid bits.
// Parameters:    FRAC 23: all three formats, the element is s_a[31:0] or s_a[15:0];
//                FRAC 10: float16 and bfloat16.
// Source:        protocol.md 11; IEEE 754-2019 4.3.1, 6.2, 6.3, 9.6.
//
// Every format is a sign, 8 bits of exponent (float16 uses 5) and FRAC bits of fraction, left
// aligned. C1 unpack. C2 compare, sort by magnitude. C3 align the smaller; specials. C4 add, and
// anticipate the leading one from the operands. C5 normalise. C6 round.
// A result that is one of the operands goes through the adder as the larger, with nothing added;
// an infinity or NaN is then a number like any other, but for the check for overflow.
`default_nettype none

module inc_fp_add #(
  parameter int FRAC = 23,
  parameter int W    = FRAC == 23 ? 32 : 16
) (
  input  wire         clk,
  input  wire [1:0]   s_fmt,         // 0 float32, 1 float16, 2 bfloat16
  input  wire [1:0]   s_op,          // 0 sum, 1 min, 2 max
  input  wire         s_start,
  input  wire [W-1:0] s_a,
  input  wire [W-1:0] s_x,
  output wire [W-1:0] y
);

  localparam int P = FRAC + 1;       // bits of a significand
  localparam int N = P + 4;          // and of a sum: a carry before, three bits behind
  localparam logic [1:0] F16 = 2'd1;
  localparam logic [1:0] BF16 = 2'd2;
  localparam logic [1:0] SUM = 2'd0;
  localparam logic [1:0] MIN = 2'd1;

  // ------------------------------------------------------------------ C1: fields
  logic [8+FRAC:0] a_d, x_d;         // sign, exponent, fraction
  generate
    if (FRAC == 23) begin : gen_unpack32
      always_comb begin
        case (s_fmt)
          F16:     a_d = {s_a[15], 3'd0, s_a[14:0], 13'd0};
          BF16:    a_d = {s_a[15:0], 16'd0};
          default: a_d = s_a;
        endcase
        case (s_fmt)
          F16:     x_d = {s_x[15], 3'd0, s_x[14:0], 13'd0};
          BF16:    x_d = {s_x[15:0], 16'd0};
          default: x_d = s_x;
        endcase
      end
    end else begin : gen_unpack16
      assign a_d = s_fmt == F16 ? {s_a[15], 3'd0, s_a[14:0]} : {s_a, 3'd0};
      assign x_d = s_fmt == F16 ? {s_x[15], 3'd0, s_x[14:0]} : {s_x, 3'd0};
    end
  endgenerate

  logic [8+FRAC:0] a1_q, x1_q;
  logic [1:0]      fmt1_q, op1_q;
  logic            start1_q;

  // ------------------------------------------------------------------ C2: compare and sort
  wire [7:0] ones1 = fmt1_q == F16 ? 8'd31 : 8'd255;
  wire       as = a1_q[8+FRAC], xs = x1_q[8+FRAC];
  wire [7:0] ae = a1_q[FRAC +: 8], xe = x1_q[FRAC +: 8];
  wire       a_norm = ae != 8'd0, x_norm = xe != 8'd0;
  wire       a_top = ae == ones1, x_top = xe == ones1;
  wire       a_frac = a1_q[FRAC-1:0] != '0, x_frac = x1_q[FRAC-1:0] != '0;
  wire       gt = a1_q[7+FRAC:0] > x1_q[7+FRAC:0];
  wire       equal = a1_q[7+FRAC:0] == x1_q[7+FRAC:0];
  // Subnormals have the exponent of the least normals.
  wire [7:0] ae1 = {ae[7:1], ae[0] || !a_norm}, xe1 = {xe[7:1], xe[0] || !x_norm};
  wire [7:0] d_ax = ae1 - xe1, d_xa = xe1 - ae1;
  // a goes first: if it is the larger, and if it is not. NaNs are seen to in C3.
  logic      first_gt, first_le;
  always_comb begin
    if (start1_q) {first_gt, first_le} = 2'b00;
    else if (op1_q == SUM) {first_gt, first_le} = 2'b10;
    else if (as != xs) {first_gt, first_le} = {2{as == (op1_q == MIN)}};
    else {first_gt, first_le} = as == (op1_q == MIN) ? 2'b10 : 2'b01;
  end
  wire       first = gt ? first_gt : first_le;

  logic            bs2_q, ss2_q, bnorm2_q, snorm2_q, equal2_q;
  logic            btop2_q, stop2_q, bfrac2_q, sfrac2_q;
  logic [7:0]      be2_q, se2_q, d2_q;
  logic [FRAC-1:0] bf2_q, sf2_q;
  logic [1:0]      fmt2_q, op2_q;
  logic            start2_q;

  // ------------------------------------------------------------------ C3: specials, align
  wire  b_nan = btop2_q && bfrac2_q, s_nan = stop2_q && sfrac2_q;
  wire  sum2  = op2_q == SUM && !start2_q;
  wire  pick2 = op2_q != SUM && !start2_q;                    // minimum, maximum
  wire  minus = bs2_q != ss2_q;
  wire  nan2  = (sum2 && (b_nan || s_nan || (btop2_q && stop2_q && minus)))
                || (pick2 && b_nan && s_nan);
  wire  other = pick2 && b_nan;                               // the number, not the NaN
  wire  alone = !sum2 || btop2_q;                             // nothing is added
  wire [7:0] e_pick = other ? se2_q : be2_q;
  logic [P-1:0] m_pick;
  always_comb begin
    m_pick = other ? {snorm2_q, sf2_q} : {bnorm2_q, bf2_q};
    if (nan2) m_pick = P'(3) << (P - 2);
  end
  wire [7:0] e_pick1 = {e_pick[7:1], e_pick[0] || e_pick == 8'd0};
  // Right by d; what falls off leaves a one behind.
  logic [P+2:0] al;
  logic         lost;
  always_comb begin
    al   = {snorm2_q, sf2_q, 3'd0};
    lost = 1'b0;
    for (int k = 4; k >= 0; k--) begin
      if (d2_q[k]) begin
        for (int i = 0; i < P + 3; i++) if (i < (1 << k)) lost = lost | al[i];
        al = al >> (1 << k);
      end
    end
    if (d2_q[7:5] != 3'd0) begin
      al   = '0;
      lost = snorm2_q || sfrac2_q;
    end
    al[0] = al[0] | lost;
    if (alone || nan2) al = '0;
  end
  wire sub2 = minus && !alone && !nan2;
  // Left of this bit a sum is not shifted: it would have an exponent below the least.
  logic [N-1:0] stop_d;
  always_comb begin
    stop_d = '0;
    for (int i = 0; i < N; i++) stop_d[i] = e_pick1 == 8'(N - 1 - i);
  end

  logic         sign3_q, sub3_q, top3_q, almost3_q;
  logic [7:0]   e3_q;
  logic [P-1:0] m3_q;
  logic [P+2:0] al3_q;               // inverted if it is subtracted
  logic [N-1:0] stop3_q;
  logic [1:0]   fmt3_q;

  // ------------------------------------------------------------------ C4: add, anticipate
  wire [N-1:0] big4   = {1'b0, m3_q, 3'd0};
  wire [N-1:0] small4 = {sub3_q, al3_q};
  wire [N-1:0] n4     = big4 + small4 + N'(sub3_q);
  // Of a difference with the digits 1, 0, -1: its leading one is where a run 1, -1, -1, ... ends,
  // or a place lower. A sum's is in the first two places.
  wire [N-1:0] plain4 = sub3_q ? ~small4 : small4;
  wire [N-2:0] less4  = ~big4[N-2:0] & plain4[N-2:0];
  wire [N-1:0] lead4  = ((big4 ^ plain4) & ~{less4, 1'b0}) | stop3_q
                        | {!sub3_q, {(N-1){1'b0}}};
  wire [31:0]  wide4  = {lead4, {(32-N){1'b1}}};
  wire [4:0]   lz4;
  wire         unused_zero;
  inc_fp_lzc u_lzc (.v(wide4), .count(lz4), .zero(unused_zero));

  logic         sign4_q, top4_q, almost4_q;
  logic [7:0]   e4_q;
  logic [N-1:0] n4_q;
  logic [4:0]   lz4_q;
  logic [1:0]   fmt4_q;

  // ------------------------------------------------------------------ C5: normalise
  wire [N-1:0] sh5   = n4_q << lz4_q;
  wire         more5 = !sh5[N-1] && e4_q != 8'(lz4_q);        // one place lower after all
  wire [N-1:0] n5    = more5 ? sh5 << 1 : sh5;
  wire [7:0]   e_hi  = e4_q + 8'd1 - 8'(lz4_q);
  wire [7:0]   e_lo  = e4_q - 8'(lz4_q);

  logic            sign5_q, over5_q;
  logic [7:0]      e5_q;
  logic [N-2:0]    n5_q;
  logic [1:0]      fmt5_q;

  // ------------------------------------------------------------------ C6: round
  // Half of the last place is added, and a tie that it makes odd is made even again.
  wire [FRAC:0]     f6 = over5_q ? '0 : n5_q[N-2:3];          // fraction and one bit behind
  wire              behind6 = n5_q[2:0] != 3'd0;
  localparam int    D16 = FRAC - 10;                          // fraction bits not in float16
  localparam int    DBF = FRAC - 7;
  logic [FRAC+8:0]  half6;
  logic             tie6;
  generate
    if (FRAC == 23) begin : gen_half32
      always_comb begin
        case (fmt5_q)
          F16: begin
            half6 = (FRAC+9)'(1) << D16;
            tie6  = f6[D16] && !behind6 && f6[D16-1:0] == '0;
          end
          BF16: begin
            half6 = (FRAC+9)'(1) << DBF;
            tie6  = f6[DBF] && !behind6 && f6[DBF-1:0] == '0;
          end
          default: begin
            half6 = (FRAC+9)'(1);
            tie6  = f6[0] && !behind6;
          end
        endcase
      end
    end else begin : gen_half16
      assign half6 = fmt5_q == F16 ? (FRAC+9)'(1) : (FRAC+9)'(1) << DBF;
      assign tie6  = !behind6 && (fmt5_q == F16 ? f6[0] : f6[DBF] && f6[DBF-1:0] == '0);
    end
  endgenerate
  wire [FRAC+8:0] r6 = {e5_q, f6} + half6;
  generate
    if (FRAC == 23) begin : gen_pack32
      logic [31:0] y_d;
      always_comb begin
        case (fmt5_q)
          F16:     y_d = {16'd0, sign5_q, r6[FRAC+1 +: 5], r6[D16+2 +: 9], r6[D16+1] && !tie6};
          BF16:    y_d = {16'd0, sign5_q, r6[FRAC+1 +: 8], r6[DBF+2 +: 6], r6[DBF+1] && !tie6};
          default: y_d = {sign5_q, r6[FRAC+8:2], r6[1] && !tie6};
        endcase
      end
      assign y = y_d;
    end else begin : gen_pack16
      assign y = fmt5_q == F16
        ? {sign5_q, r6[FRAC+1 +: 5], r6[10:2], r6[1] && !tie6}
        : {sign5_q, r6[FRAC+1 +: 8], r6[DBF+2 +: 6], r6[DBF+1] && !tie6};
    end
  endgenerate

  always_ff @(posedge clk) begin
    a1_q     <= a_d;
    x1_q     <= x_d;
    fmt1_q   <= s_fmt;
    op1_q    <= s_op;
    start1_q <= s_start;

    bs2_q    <= first ? as : xs;
    ss2_q    <= first ? xs : as;
    be2_q    <= first ? ae : xe;
    se2_q    <= first ? xe : ae;
    bf2_q    <= first ? a1_q[FRAC-1:0] : x1_q[FRAC-1:0];
    sf2_q    <= first ? x1_q[FRAC-1:0] : a1_q[FRAC-1:0];
    bnorm2_q <= first ? a_norm : x_norm;
    snorm2_q <= first ? x_norm : a_norm;
    btop2_q  <= first ? a_top : x_top;
    stop2_q  <= first ? x_top : a_top;
    bfrac2_q <= first ? a_frac : x_frac;
    sfrac2_q <= first ? x_frac : a_frac;
    d2_q     <= first ? d_ax : d_xa;
    equal2_q <= equal;
    fmt2_q   <= fmt1_q;
    op2_q    <= op1_q;
    start2_q <= start1_q;

    sign3_q   <= !nan2 && (other ? ss2_q : bs2_q) && !(sub2 && equal2_q);  // x - x is +0
    sub3_q    <= sub2;
    top3_q    <= nan2 || (other ? stop2_q : btop2_q);
    almost3_q <= be2_q == (fmt2_q == F16 ? 8'd30 : 8'd254);
    e3_q      <= nan2 ? (fmt2_q == F16 ? 8'd31 : 8'd255) : e_pick1;
    m3_q      <= m_pick;
    al3_q     <= sub2 ? ~al : al;
    stop3_q   <= stop_d;
    fmt3_q    <= fmt2_q;

    sign4_q   <= sign3_q;
    top4_q    <= top3_q;
    almost4_q <= almost3_q;
    e4_q      <= e3_q;
    n4_q      <= n4;
    lz4_q     <= lz4;
    fmt4_q    <= fmt3_q;

    sign5_q  <= sign4_q;
    over5_q  <= almost4_q && !top4_q && lz4_q == 5'd0 && n4_q[N-1];
    e5_q     <= !n5[N-1] ? 8'd0 : more5 ? e_lo : e_hi;
    n5_q     <= n5[N-2:0];
    fmt5_q   <= fmt4_q;
  end

endmodule

`default_nettype wire
