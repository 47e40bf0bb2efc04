// inc_fp_add, 16 bits: sums of special values in float16 and bfloat16, against IEEE 754 read from
// the bits alone. One pair goes in in every clock; its sum is there 5 clocks later.
`default_nettype none

module prove_float (
  input wire        clk,
  input wire        half,        // float16, else bfloat16
  input wire [15:0] a,
  input wire [15:0] x
);

  wire [15:0] y;
  inc_fp_add #(.FRAC(10)) u_add (
    .clk, .s_fmt(half ? 2'd1 : 2'd2), .s_op(2'd0), .s_start(1'b0), .s_a(a), .s_x(x), .y);

  logic [4:0]  half_q;
  logic [79:0] a_q, x_q;
  logic [2:0]  age_q = 3'd0;
  wire         h  = half_q[4];
  wire [15:0]  ay = a_q[79:64], xy = x_q[79:64];

  function automatic logic [14:0] inf(input logic f16);
    return f16 ? 15'h7c00 : 15'h7f80;
  endfunction

  wire a_nan = ay[14:0] > inf(h), x_nan = xy[14:0] > inf(h);
  wire a_inf = ay[14:0] == inf(h), x_inf = xy[14:0] == inf(h);
  wire a_zero = ay[14:0] == 15'd0, x_zero = xy[14:0] == 15'd0;
  // Subnormal sums are exact: numbers of one size, added as integers.
  wire [14:0] least = h ? 15'h0400 : 15'h0080;
  wire a_small = ay[14:0] < least, x_small = xy[14:0] < least;
  wire signed [16:0] a_int = ay[15] ? -$signed({2'b00, ay[14:0]}) : $signed({2'b00, ay[14:0]});
  wire signed [16:0] x_int = xy[15] ? -$signed({2'b00, xy[14:0]}) : $signed({2'b00, xy[14:0]});
  wire signed [16:0] sum   = a_int + x_int;
  wire [16:0]        size  = sum[16] ? 17'(-sum) : 17'(sum);

  always_ff @(posedge clk) begin
    half_q <= {half_q[3:0], half};
    a_q    <= {a_q[63:0], a};
    x_q    <= {x_q[63:0], x};
    if (age_q != 3'd5) age_q <= age_q + 3'd1;
    if (age_q == 3'd5) begin
      // Any NaN, and inf - inf: the canonical quiet NaN.
      if (a_nan || x_nan || (a_inf && x_inf && ay[15] != xy[15]))
        assert (y == (h ? 16'h7e00 : 16'h7fc0));
      else if (a_inf) assert (y == ay);
      else if (x_inf) assert (y == xy);
      else begin
        assert (y[14:0] <= inf(h));
        if (a_zero && x_zero) assert (y == {ay[15] && xy[15], 15'd0});
        if (a_zero && !x_zero) assert (y == xy);
        if (x_zero && !a_zero) assert (y == ay);
        if (ay == {!xy[15], xy[14:0]}) assert (y == 16'd0);
        if (a_small && x_small && sum != 17'sd0) assert (y == {sum[16], size[14:0]});
      end
      cover (a_small && x_small && size[14:0] >= least);
      cover (a_inf && !x_nan && !x_inf && h);
      cover (a_nan && x_nan);
    end
  end

endmodule

`default_nettype wire
