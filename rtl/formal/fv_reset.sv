// A reset in the first clock, and whenever else it is given. run: not the first clock.
`default_nettype none

module fv_reset (
  input  wire clk,
  input  wire rst,
  output wire run
);

  logic run_q = 1'b0;
  assign run = run_q;

  always_ff @(posedge clk) begin
    run_q <= 1'b1;
    if (!run_q) assume (rst);
  end

endmodule

`default_nettype wire
