// inc_receive_ack between streams. Streams: 0 outputs; source 8 inputs.
`default_nettype none

module inc_bench_receive_ack (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;

  aeth_in_t  in;
  aeth_out_t out;
  wire       valid, ready;

  inc_bench_source #(.STREAM(8), .W($bits(in))) u_in (
    .clk(clk), .rst(rst), .handle(handle), .valid(valid), .ready(ready), .data(in));

  inc_receive_ack u_dut (
    .st(in.st), .psn(in.psn), .syndrome(in.syndrome),
    .st_d(out.st), .verdict(out.verdict), .restart(out.restart), .rnr_start(out.rnr_start));

  inc_bench_sink #(.STREAM(0), .W($bits(out))) u_out (
    .clk(clk), .rst(rst), .handle(handle), .valid(valid), .ready(ready), .data(out));

endmodule

`default_nettype wire
