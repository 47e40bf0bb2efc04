// Every stage by itself, each with a clock of its own: the driver picks one stage and clocks only that.
// Stages: the numbers of clk, which bench.go names.
`default_nettype none

module inc_bench (
  input wire [15:0] clk,
  input wire        rst,
  input wire [63:0] handle
);

  inc_bench_lookup         u_lookup         (.clk(clk[0]), .rst(rst), .handle(handle));
  inc_bench_check          u_check          (.clk(clk[1]), .rst(rst), .handle(handle));
  inc_bench_aggregate      u_aggregate      (.clk(clk[2]), .rst(rst), .handle(handle));
  inc_bench_send_ack       u_send_ack       (.clk(clk[3]), .rst(rst), .handle(handle));
  inc_bench_receive_ack    u_receive_ack    (.clk(clk[4]), .rst(rst), .handle(handle));
  inc_bench_recycle        u_recycle        (.clk(clk[5]), .rst(rst), .handle(handle));
  inc_bench_retransmission u_retransmission (.clk(clk[6]), .rst(rst), .handle(handle));
  inc_bench_translate      u_translate      (.clk(clk[7]), .rst(rst), .handle(handle));
  inc_bench_replicate      u_replicate      (.clk(clk[8]), .rst(rst), .handle(handle));
  inc_bench_pipe           u_pipe           (.clk(clk[9]), .rst(rst), .handle(handle));
  inc_bench_hand_on        u_hand_on        (.clk(clk[10]), .rst(rst), .handle(handle));
  inc_bench_alu            u_alu            (.clk(clk[11]), .rst(rst), .handle(handle));

endmodule

`default_nettype wire
