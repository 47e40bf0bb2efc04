// inc_check_duplicate between streams. Streams: 0 outputs; source 8 inputs.
`default_nettype none

module inc_bench_check (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;

  check_in_t  in;
  check_out_t out;
  wire        valid, ready;

  inc_bench_source #(.STREAM(8), .W($bits(in))) u_in (
    .clk(clk), .rst(rst), .handle(handle), .valid(valid), .ready(ready), .data(in));

  inc_check_duplicate u_dut (
    .psn(in.psn), .psn_start(in.psn_start), .epsn(in.epsn), .n_log2(in.n_log2),
    .pipe_error(in.pipe_error), .binding(in.binding), .slot_valid(in.slot_valid),
    .slot_tag(in.slot_tag), .slot_bit(in.slot_bit), .meta_equal(in.meta_equal),
    .verdict(out.verdict), .start(out.start), .in_order(out.in_order), .behind(out.behind));

  inc_bench_sink #(.STREAM(0), .W($bits(out))) u_out (
    .clk(clk), .rst(rst), .handle(handle), .valid(valid), .ready(ready), .data(out));

endmodule

`default_nettype wire
