// inc_send_ack between streams. As in inc_pipe, a record is set or one is taken, never both in a clock.
// Streams: 0 record taken; 1 what the read ports say in the clock of a set; source 8 sets.
`default_nettype none

module inc_bench_send_ack (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;
  localparam int EP_W = $clog2(ENDPOINTS);

  ack_set_t  set;
  ack_seen_t seen;
  ack_take_t take;
  wire       set_valid, sel_valid, take_ready;
  wire [EP_W-1:0] sel_ep;
  wire       idle;
  // A table is written while no record is pending.
  wire       set_go     = set_valid && (!set.init || idle);
  wire       take_valid = sel_valid && !set_go;
  wire       go         = take_valid && take_ready;

  inc_bench_source #(.STREAM(8), .W($bits(set))) u_set (
    .clk(clk), .rst(rst), .handle(handle), .valid(set_valid), .ready(set_go), .data(set));

  inc_send_ack #(.ENDPOINTS(ENDPOINTS)) u_dut (
    .clk(clk), .rst(rst),
    .set_valid(set_go && set.set), .set_ep(set.ep[EP_W-1:0]), .set_kind(set.kind),
    .set_force(set.force_ack), .new_kind(seen.new_kind),
    .nak_wr(set_go && set.nak_wr), .nak_value(set.nak),
    .clr_valid(go), .clr_ep(sel_ep),
    .init_valid(set_go && set.init), .init_ep(set.ep[EP_W-1:0]),
    .rd_a_ep(set.ep[EP_W-1:0]), .rd_a_nak_sent(seen.old_nak), .rd_a_kind(seen.old_kind),
    .rd_b_ep(sel_ep), .rd_b_nak_sent(take.nak), .rd_b_kind(take.kind),
    .sel_valid(sel_valid), .sel_ep(sel_ep), .sel_next(go),
    .idle(idle));
  assign seen.ep = set.ep;
  assign take.ep = 12'(sel_ep);

  // The record may change while it waits: a newer one overwrites.
  inc_bench_sink #(.STREAM(0), .W($bits(take)), .LAW(0)) u_take (
    .clk(clk), .rst(rst), .handle(handle), .valid(take_valid), .ready(take_ready), .data(take));
  inc_bench_watch #(.STREAM(1), .W($bits(seen))) u_seen (
    .clk(clk), .rst(rst), .handle(handle), .valid(set_go), .data(seen));

endmodule

`default_nettype wire
