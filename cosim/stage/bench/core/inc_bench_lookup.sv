// inc_lookup_table between streams. Tables are written as inc_core does: hold, then write once nothing
// is inside.
// Streams: 0 m_lk; 1 ep_cfg read by TX; 2 pipe_cfg read by the sequencers; sources 8 ep_cfg writes,
// 9 pipe_cfg writes, 10 s_hdr, 11 TX reads, 12 sequencer reads, 13 out_list writes.
`default_nettype none

module inc_bench_lookup (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;

  ep_write_t        ep_wr;
  pipe_write_t      pipe_wr;
  out_write_t       out_wr;
  inc_pkg::hdr_t    hdr;
  ep_read_t         tx_rd;
  pipe_read_t       pipe_rd;
  pipe_readout_t    pipe_out;
  inc_pkg::lookup_t lk;
  inc_spec_pkg::ep_cfg_t tx_cfg;
  wire ep_wr_valid, pipe_wr_valid, hdr_valid, hdr_ready, tx_rd_valid, pipe_rd_valid;
  wire lk_valid, lk_ready, idle, ready_o;
  wire out_wr_valid;
  wire waiting = ep_wr_valid || pipe_wr_valid || out_wr_valid;
  wire hold    = waiting && !hdr_valid;
  wire tables  = idle && ready_o && !hdr_valid;
  wire ep_go   = ep_wr_valid && tables;
  wire pipe_go = pipe_wr_valid && tables;

  inc_bench_source #(.STREAM(8), .W($bits(ep_wr))) u_ep_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(ep_wr_valid), .ready(tables), .data(ep_wr));
  inc_bench_source #(.STREAM(9), .W($bits(pipe_wr))) u_pipe_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(pipe_wr_valid), .ready(tables), .data(pipe_wr));
  // A header waits in a register for a clock, in which its QPN is early. None waits there while a
  // table is written: it has been taken for the driver.
  inc_pkg::hdr_t next_hdr;
  wire           next_valid, take;
  logic          hdr_valid_q;
  assign take      = (!hdr_valid_q || hdr_ready) && !waiting;
  assign hdr_valid = hdr_valid_q;
  always_ff @(posedge clk) begin
    if (hdr_ready) hdr_valid_q <= 1'b0;
    if (take) begin
      hdr_valid_q <= next_valid;
      hdr         <= next_hdr;
    end
    if (rst) hdr_valid_q <= 1'b0;
  end
  inc_bench_source #(.STREAM(13), .W($bits(out_wr))) u_out_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(out_wr_valid), .ready(tables), .data(out_wr));
  inc_bench_source #(.STREAM(10), .W($bits(hdr))) u_hdr (
    .clk(clk), .rst(rst), .handle(handle), .valid(next_valid), .ready(take), .data(next_hdr));
  // A TX read of the entry that is being written returns the old one or the new: not asked for.
  inc_bench_source #(.STREAM(11), .W($bits(tx_rd))) u_tx_rd (
    .clk(clk), .rst(rst), .handle(handle), .valid(tx_rd_valid), .ready(ready_o && !hold),
    .data(tx_rd));
  inc_bench_source #(.STREAM(12), .W($bits(pipe_rd))) u_pipe_rd (
    .clk(clk), .rst(rst), .handle(handle), .valid(pipe_rd_valid), .ready(1'b1), .data(pipe_rd));

  inc_lookup_table #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_dut (
    .clk(clk), .rst(rst),
    .cfg_ep_wr(ep_go), .cfg_ep_index(ep_wr.index[$clog2(ENDPOINTS)-1:0]), .cfg_ep_data(ep_wr.cfg),
    .cfg_pipe_wr(pipe_go), .cfg_pipe_index(pipe_wr.index[$clog2(PIPES)-1:0]),
    .cfg_pipe_data(pipe_wr.cfg),
    .cfg_out_wr(out_wr_valid && tables), .cfg_out_index(out_wr.index[$clog2(ENDPOINTS)-1:0]),
    .cfg_out_data(out_wr.ep),
    .hold(hold), .idle(idle), .ready_o(ready_o),
    .s_hdr_valid(hdr_valid), .s_hdr_ready(hdr_ready), .s_hdr(hdr),
    .s_early_qpn(next_hdr.dqpn[$clog2(ENDPOINTS)-1:0]),
    .m_lk_valid(lk_valid), .m_lk_ready(lk_ready), .m_lk(lk),
    .tx_rd_en(tx_rd_valid && ready_o && !hold), .tx_rd_index(tx_rd.index[$clog2(ENDPOINTS)-1:0]),
    .tx_rd_data(tx_cfg),
    .op_pipe_index(pipe_rd.op[$clog2(PIPES)-1:0]), .op_pipe_cfg(pipe_out.op_cfg),
    .tx_pipe_index(pipe_rd.tx[$clog2(PIPES)-1:0]), .tx_pipe_cfg(pipe_out.tx_cfg),
    .send_pipe_index(pipe_rd.send[$clog2(PIPES)-1:0]), .send_pipe_cfg(pipe_out.send_cfg),
    .keep_pipe_index(pipe_rd.keep[$clog2(PIPES)-1:0]), .keep_pipe_cfg(pipe_out.keep_cfg));
  assign pipe_out.at = pipe_rd;

  logic tx_read_q;
  always_ff @(posedge clk) tx_read_q <= !rst && tx_rd_valid && ready_o && !hold;

  inc_bench_sink #(.STREAM(0), .W($bits(lk))) u_lk (
    .clk(clk), .rst(rst), .handle(handle), .valid(lk_valid), .ready(lk_ready), .data(lk));
  inc_bench_watch #(.STREAM(1), .W($bits(tx_cfg))) u_tx_cfg (
    .clk(clk), .rst(rst), .handle(handle), .valid(tx_read_q), .data(tx_cfg));
  inc_bench_watch #(.STREAM(2), .W($bits(pipe_out))) u_pipe_out (
    .clk(clk), .rst(rst), .handle(handle), .valid(pipe_rd_valid), .data(pipe_out));

endmodule

`default_nettype wire
