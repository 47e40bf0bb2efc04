// inc_alu between streams. Streams: 0 results; 1 clocks in which a float beat forbids the others; source 8
// beats (always taken: the driver keeps their distances).
`default_nettype none

module inc_bench_alu (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;

  alu_in_t  in;
  alu_out_t out;
  pulse_t   busy;
  wire      in_valid, out_valid, float_busy;
  assign busy.nothing = 1'b0;

  inc_bench_source #(.STREAM(8), .W($bits(in))) u_in (
    .clk(clk), .rst(rst), .handle(handle), .valid(in_valid), .ready(1'b1), .data(in));

  inc_alu #(.DATA_W(DATA_W), .FLOAT(1), .TAG_W(16)) u_dut (
    .clk(clk), .rst(rst),
    .s_valid(in_valid), .s_dtype(in.dtype), .s_op(in.op), .s_start(in.start),
    .s_compare(in.compare), .s_tag(in.tag), .s_a(in.a), .s_x(in.x), .float_busy(float_busy),
    .m_valid(out_valid), .m_tag(out.tag), .m_data(out.data), .m_diff(out.diff));

  inc_bench_watch #(.STREAM(0), .W($bits(out))) u_out (
    .clk(clk), .rst(rst), .handle(handle), .valid(out_valid), .data(out));
  inc_bench_watch #(.STREAM(1), .W($bits(busy))) u_busy (
    .clk(clk), .rst(rst), .handle(handle), .valid(float_busy), .data(busy));

endmodule

`default_nettype wire
