// Offers the tokens that the bench's driver holds for one stream.
//
// Streams:       valid/ready/data out, tokens in the order given. Data is random while valid is low.
// Latency:       a token is offered in the clock after it is due.
// Throughput:    1 token per clock.
// Back-pressure: a token is held until ready.
// Reset:         synchronous, active high: nothing offered; the stream is announced to the driver.
// Parameters:    STREAM number within the stage, 0..31; W bits of a token, 1..inc_bench_pkg::MAX_W.
`default_nettype none

module inc_bench_source #(
  parameter int STREAM = 0,
  parameter int W      = 8
) (
  input  wire          clk,
  input  wire          rst,
  input  wire  [63:0]  handle,
  output logic         valid,
  input  wire          ready,
  output logic [W-1:0] data
);

  bit                            got;
  bit [inc_bench_pkg::MAX_W-1:0] token;

  /* verilator lint_off BLKSEQ */
  always_ff @(posedge clk) begin
    if (rst) begin
      inc_bench_pkg::inc_bench_open(handle, STREAM, 0, W);
      valid <= 1'b0;
    end else begin
      got   = inc_bench_pkg::inc_bench_source(handle, STREAM, valid && ready, token);
      valid <= got;
      data  <= token[W-1:0];
    end
  end
  /* verilator lint_on BLKSEQ */

endmodule

`default_nettype wire
