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
  wire       valid, ready, progress, restart, rnr_start, fatal;
  inc_spec_pkg::ep_tx_t st_d;
  logic      once_q, settled_q;     // the token was there in the clock before, and in that before it

  inc_bench_source #(.STREAM(8), .W($bits(in))) u_in (
    .clk(clk), .rst(rst), .handle(handle), .valid(valid), .ready(ready && settled_q),
    .data(in));

  always_ff @(posedge clk) begin
    once_q    <= !rst && valid && !(ready && settled_q);
    settled_q <= !rst && valid && !(ready && settled_q) && once_q;
  end

  inc_receive_ack u_dut (
    .clk(clk), .psn(in.psn), .syndrome(in.syndrome), .st(in.st),
    .st_d(st_d), .verdict(out.verdict), .restart(restart), .progress(progress),
    .rnr_start(rnr_start), .fatal(fatal));

  // What a frame does that is not ok is for nobody.
  wire ok = out.verdict == inc_spec_pkg::VERDICT_OK;
  assign out.st        = ok ? st_d : in.st;
  assign out.restart   = ok && restart;
  assign out.rnr_start = ok && rnr_start;

  inc_bench_sink #(.STREAM(0), .W($bits(out))) u_out (
    .clk(clk), .rst(rst), .handle(handle), .valid(valid && settled_q), .ready(ready),
    .data(out));

  wire unused_ok = &{1'b0, progress, fatal};

endmodule

`default_nettype wire
