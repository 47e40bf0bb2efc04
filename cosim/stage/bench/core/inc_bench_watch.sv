// Tells the bench's driver of every clock in which valid is high: for pulses and for levels.
//
// Latency:       none.
// Reset:         synchronous, active high: the stream is announced to the driver, nothing is told.
// Parameters:    STREAM number within the stage, 0..31; W bits of a token, 1..inc_bench_pkg::MAX_W.
`default_nettype none

module inc_bench_watch #(
  parameter int STREAM = 0,
  parameter int W      = 8
) (
  input  wire         clk,
  input  wire         rst,
  input  wire [63:0]  handle,
  input  wire         valid,
  input  wire [W-1:0] data
);

  always_ff @(posedge clk) begin
    if (rst) inc_bench_pkg::inc_bench_open(handle, STREAM, 3, W);
    else if (valid) begin
      inc_bench_pkg::inc_bench_watch(handle, STREAM, inc_bench_pkg::MAX_W'(data));
    end
  end

endmodule

`default_nettype wire
