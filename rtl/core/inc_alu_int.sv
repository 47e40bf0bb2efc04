// 64 bits of integer elements: two of 32 bits, one of 64 or eight of 8.
//
// Operation:     fast (1 clock): sum of 32 and 64 bits, wrapping; and, or, xor; start: x.
//                slow (2 clocks): min, max; saturating sum of int8; compare: a, and whether it is
//                x; start: x.
// Latency:       to fast 0 clocks, to slow 1; the user registers both. a may come late in its
//                clock; x and the rest come from registers.
// Throughput:    1 per clock.
// Source:        protocol.md 11.
//
// One carry chain does all: between bytes lies a bit that hands the carry on, or ends it and starts
// the next element's. Minimum and maximum subtract.
`default_nettype none

module inc_alu_int (
  input  wire        clk,
  input  wire [3:0]  s_dtype,
  input  wire [3:0]  s_op,
  input  wire        s_start,
  input  wire        s_compare,
  input  wire [63:0] s_a,
  input  wire [63:0] s_x,
  output wire [63:0] fast,
  output wire [63:0] slow,
  output wire [1:0]  slow_diff       // of each 32-bit word
);

  wire is_int8  = s_dtype == inc_spec_pkg::DTYPE_INT8;
  wire is_int64 = s_dtype == inc_spec_pkg::DTYPE_INT64;
  wire sub      = s_op == inc_spec_pkg::OP_MIN || s_op == inc_spec_pkg::OP_MAX;
  wire is_sum   = s_op == inc_spec_pkg::OP_SUM && !s_start;
  wire [63:0] x_in = s_x ^ {64{sub}};

  logic [70:0] ca, cx;
  wire  [70:0] cs = ca + cx + 71'(sub);
  logic [63:0] sum;
  always_comb begin
    ca = '0;
    cx = '0;
    for (int i = 0; i < 8; i++) begin
      ca[9*i +: 8] = s_a[8*i +: 8];
      cx[9*i +: 8] = x_in[8*i +: 8];
      if (i < 7) begin
        ca[9*i + 8] = is_int8 || (i == 3 && !is_int64) ? sub : 1'b1;
        cx[9*i + 8] = (is_int8 || (i == 3 && !is_int64)) && sub;
      end
      sum[8*i +: 8] = cs[9*i +: 8];
    end
  end

  logic [63:0] bits;
  always_comb begin
    if (s_start) bits = s_x;
    else begin
      case (s_op)
        inc_spec_pkg::OP_AND: bits = s_a & s_x;
        inc_spec_pkg::OP_OR:  bits = s_a | s_x;
        default:              bits = s_a ^ s_x;
      endcase
    end
  end
  assign fast = is_sum ? sum : bits;

  // ------------------------------------------------------------------ the second clock
  logic [63:0] a_q, x_q, sum_q;
  logic [3:0]  dtype_q;
  logic        min_q, add_q, start_q, compare_q;
  wire         bytes_q = dtype_q == inc_spec_pkg::DTYPE_INT8;
  wire         long_q  = dtype_q == inc_spec_pkg::DTYPE_INT64;
  wire         plus_q  = dtype_q == inc_spec_pkg::DTYPE_UINT32;  // no negative numbers

  logic [7:0] less, take_a, over;
  logic [63:0] slow_d;
  always_comb begin
    for (int i = 0; i < 8; i++) begin
      less[i] = a_q[8*i+7] == x_q[8*i+7] ? sum_q[8*i+7] : a_q[8*i+7] ^ plus_q;
      over[i] = a_q[8*i+7] == x_q[8*i+7] && sum_q[8*i+7] != a_q[8*i+7];
    end
    for (int i = 0; i < 8; i++) begin
      take_a[i] = less[bytes_q ? 3'(i) : (long_q || i > 3) ? 3'd7 : 3'd3] == min_q;
      if (compare_q) take_a[i] = 1'b1;
      if (start_q)   take_a[i] = 1'b0;
      slow_d[8*i +: 8] = take_a[i] ? a_q[8*i +: 8] : x_q[8*i +: 8];
      if (add_q) slow_d[8*i +: 8] = over[i] ? {a_q[8*i+7], {7{!a_q[8*i+7]}}} : sum_q[8*i +: 8];
    end
  end
  assign slow      = slow_d;
  assign slow_diff = {2{compare_q}}
                     & {a_q[63:32] != x_q[63:32], a_q[31:0] != x_q[31:0]};

  always_ff @(posedge clk) begin
    a_q       <= s_a;
    x_q       <= s_x;
    sum_q     <= sum;
    dtype_q   <= s_dtype;
    min_q     <= s_op == inc_spec_pkg::OP_MIN;
    add_q     <= s_op == inc_spec_pkg::OP_SUM && !s_start && !s_compare;
    start_q   <= s_start;
    compare_q <= s_compare && !s_start;
  end

endmodule

`default_nettype wire
