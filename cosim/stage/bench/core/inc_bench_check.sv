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

  wire [7:0] verdict;
  wire       compare;
  inc_check_duplicate u_dut (
    .mode2(in.mode2), .copy(in.copy), .psn(in.psn), .first(in.first), .epsn(in.epsn),
    .n_log2(in.n_log2), .pipe_error(in.pipe_error), .binding(in.binding),
    .slot_valid(in.slot_valid), .slot_tag(in.slot_tag[22:0]), .slot_bit(in.slot_bit),
    .slot_full(in.slot_full), .may_start(!in.no_window), .whole_lanes(1'b1),
    .verdict(verdict), .compare(compare), .start(out.start), .replay(out.replay),
    .in_order(out.in_order), .behind(out.behind));
  assign out.verdict = compare && !in.meta_equal ? inc_spec_pkg::VERDICT_MISMATCH : verdict;

  inc_bench_sink #(.STREAM(0), .W($bits(out))) u_out (
    .clk(clk), .rst(rst), .handle(handle), .valid(valid), .ready(ready), .data(out));

endmodule

`default_nettype wire
