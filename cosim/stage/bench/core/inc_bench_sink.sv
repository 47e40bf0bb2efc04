// Takes the tokens of one output stream, with random back-pressure, and tells the bench's driver, which
// also holds the stage to the ready/valid law: once offered, a token stays as it is until taken.
//
// Streams:       valid/ready/data in.
// Latency:       none.
// Throughput:    1 token per clock.
// Back-pressure: ready is drawn for every clock.
// Reset:         synchronous, active high: not ready; the stream is announced to the driver.
// Parameters:    STREAM number within the stage, 0..31; W bits of a token, 1..inc_bench_pkg::MAX_W;
//                LAW 1: hold the stage to the law; 0: the token may change (an arbiter's choice).
`default_nettype none

module inc_bench_sink #(
  parameter int STREAM = 0,
  parameter int W      = 8,
  parameter int LAW    = 1
) (
  input  wire          clk,
  input  wire          rst,
  input  wire  [63:0]  handle,
  input  wire          valid,
  output logic         ready,
  input  wire  [W-1:0] data
);

  always_ff @(posedge clk) begin
    if (rst) begin
      inc_bench_pkg::inc_bench_open(handle, STREAM, LAW != 0 ? 1 : 2, W);
      ready <= 1'b0;
    end else begin
      ready <= inc_bench_pkg::inc_bench_sink(handle, STREAM, valid, ready,
                                             inc_bench_pkg::MAX_W'(data));
    end
  end

endmodule

`default_nettype wire
