// inc_retransmission between streams. pipe_cfg, nextSend, live and errors come from the driver.
// Streams: 0 retirement records; 1 minima of walks; 2 faults; 3 event pulses; 4 jobs as they are given,
// 5 as they leave the queue behind, whose room is that of inc_core; sources 8 levels,
// 9 ACKs, 10 pipe_cfg writes, 11 out_list writes, 12 endpoint initialisations, 13 a pipe written anew:
// its outs are live again when a level says so.
// Tables are written as inc_core does: hold, then write once nothing is under way.
`default_nettype none

module inc_bench_retransmission (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;
  localparam int EP_W   = $clog2(ENDPOINTS);
  localparam int PIPE_W = $clog2(PIPES);

  tx_level_t   level, level_q;
  ack_req_t    ack, next_ack;
  pipe_write_t pipe_wr;
  out_write_t  out_wr;
  ep_psn_t     init;
  pipe_psn_t   forget;
  pipe_psn_t   min;
  fault_t      fault;
  event_t      pulses;
  inc_pkg::txjob_t       job, sent;
  wire [4:0]   jobs;
  inc_spec_pkg::record_t rec;
  inc_spec_pkg::pipe_cfg_t cfg, send_cfg, keep_cfg;
  inc_spec_pkg::ep_tx_t  rd_state;
  logic [31:0] job_number_q;
  wire [7:0]   ack_verdict;
  wire [PIPE_W-1:0] cfg_pipe, send_cfg_pipe, keep_cfg_pipe, min_pipe, err_pipe, next_pipe;
  wire level_valid, ack_done, pipe_wr_valid, out_wr_valid, init_valid, forget_valid;
  wire next_ack_valid;
  wire idle, job_valid, min_valid, queue_ready, sent_valid, sent_ready, err_valid, fault_valid, rec_valid;
  wire cut_ok, upset, cut_sent, job_maybe;
  wire hold   = pipe_wr_valid || out_wr_valid || init_valid || forget_valid;
  // An ACK is announced in the clock before it is offered, and then held, as inc_pipe does.
  logic ack_valid;
  wire  ack_soon = next_ack_valid && (!ack_valid || ack_done);
  wire  tables   = idle && !ack_valid && !next_ack_valid;

  inc_bench_source #(.STREAM(8), .W($bits(level))) u_level (
    .clk(clk), .rst(rst), .handle(handle), .valid(level_valid), .ready(1'b1), .data(level));
  inc_bench_source #(.STREAM(9), .W($bits(ack))) u_ack (
    .clk(clk), .rst(rst), .handle(handle), .valid(next_ack_valid), .ready(ack_soon),
    .data(next_ack));
  inc_bench_source #(.STREAM(10), .W($bits(pipe_wr))) u_pipe_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(pipe_wr_valid), .ready(tables), .data(pipe_wr));
  inc_bench_source #(.STREAM(11), .W($bits(out_wr))) u_out_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(out_wr_valid), .ready(tables), .data(out_wr));
  inc_bench_source #(.STREAM(12), .W($bits(init))) u_init (
    .clk(clk), .rst(rst), .handle(handle), .valid(init_valid), .ready(tables), .data(init));
  inc_bench_source #(.STREAM(13), .W($bits(forget))) u_forget (
    .clk(clk), .rst(rst), .handle(handle), .valid(forget_valid), .ready(tables), .data(forget));

  inc_lutram #(.DATA_W($bits(cfg)), .DEPTH(PIPES), .R(3)) u_cfg (
    .clk(clk), .wr_en(pipe_wr_valid && tables), .wr_addr(pipe_wr.index[PIPE_W-1:0]),
    .wr_data(pipe_wr.cfg), .rd_addr({keep_cfg_pipe, send_cfg_pipe, cfg_pipe}),
    .rd_data({keep_cfg, send_cfg, cfg}));

  always_ff @(posedge clk) begin
    if (level_valid) level_q <= level;
    if (ack_done) ack_valid <= 1'b0;
    if (ack_soon) begin
      ack_valid <= 1'b1;
      ack       <= next_ack;
    end
    if (forget_valid && tables) level_q.live[forget.pipe[PIPE_W-1:0]] <= 1'b0;
    if (job_valid) job_number_q <= job_number_q + 32'd1;
    if (rst) begin
      level_q      <= '0;
      ack_valid    <= 1'b0;
      job_number_q <= '0;
    end
  end

  inc_retransmission #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_dut (
    .clk(clk), .rst(rst), .tick_clocks(32'(level_q.tick_clocks)),
    .hold(hold), .hold_keep(hold), .idle(idle),
    .init_ep(init_valid && tables), .init_ep_index(init.ep[EP_W-1:0]), .init_ep_psn(init.psn),
    .init_ep_out(init.out),
    .init_pipe(forget_valid && tables),
    .out_wr(out_wr_valid && tables), .out_wr_index(out_wr.index[EP_W-1:0]),
    .out_wr_ep(out_wr.ep),
    .rd_index('0), .rd_state(rd_state),
    .live(level_q.live), .pipe_error(level_q.pipe_error), .next_pipe(next_pipe),
    .next_send(level_q.next_send[24*next_pipe +: 24]),
    .cfg_pipe(cfg_pipe), .cfg(cfg), .send_cfg_pipe(send_cfg_pipe), .send_cfg(send_cfg),
    .keep_cfg_pipe(keep_cfg_pipe), .keep_cfg(keep_cfg),
    .ack_soon(ack_soon), .ack_soon_ep(next_ack.ep[EP_W-1:0]),
    .ack_valid(ack_valid), .ack_ep(ack.ep[EP_W-1:0]), .ack_pipe(ack.pipe[PIPE_W-1:0]),
    .ack_psn(ack.psn), .ack_syndrome(ack.syndrome), .ack_frame(ack.frame), .ack_done(ack_done),
    .ack_verdict(ack_verdict),
    .freeze(1'b0), .freeze_ep('0), .cut_rd_ep('0), .cut_psn('0), .cut_ok(cut_ok), .upset(upset),
    .cut_send(1'b0), .cut_send_ep('0), .cut_send_pipe('0), .cut_number('0), .cut_sent(cut_sent),
    .job_room(jobs <= 5'd4), .job_maybe(job_maybe), .job_valid(job_valid), .job(job), .job_number(job_number_q),
    .min_valid(min_valid), .min_pipe(min_pipe), .min_psn(min.psn),
    .err_valid(err_valid), .err_pipe(err_pipe),
    .fault_valid(fault_valid), .fault_kind(fault.kind), .fault_ep(fault.ep), .fault_psn(fault.psn),
    .fault_got(fault.got), .fault_wanted(fault.wanted), .stat_event(pulses.stat_event),
    .ret_valid(rec_valid), .ret_rec(rec));
  assign min.pipe   = 8'(min_pipe);
  assign fault.pipe = 8'(err_pipe);

  inc_bench_watch #(.STREAM(0), .W($bits(rec))) u_rec (
    .clk(clk), .rst(rst), .handle(handle), .valid(rec_valid), .data(rec));
  inc_bench_watch #(.STREAM(1), .W($bits(min))) u_min (
    .clk(clk), .rst(rst), .handle(handle), .valid(min_valid), .data(min));
  inc_bench_watch #(.STREAM(2), .W($bits(fault))) u_fault (
    .clk(clk), .rst(rst), .handle(handle), .valid(err_valid || fault_valid), .data(fault));
  inc_bench_watch #(.STREAM(3), .W($bits(pulses))) u_pulses (
    .clk(clk), .rst(rst), .handle(handle), .valid(pulses != '0), .data(pulses));
  inc_bench_watch #(.STREAM(4), .W($bits(job))) u_job (
    .clk(clk), .rst(rst), .handle(handle), .valid(job_valid), .data(job));

  inc_fifo #(.DATA_W($bits(job)), .DEPTH(16)) u_jobs (
    .clk(clk), .rst(rst), .s_valid(job_valid), .s_ready(queue_ready), .s_data(job),
    .m_valid(sent_valid), .m_ready(sent_ready), .m_data(sent), .count(jobs));
  inc_bench_sink #(.STREAM(5), .W($bits(sent))) u_sent (
    .clk(clk), .rst(rst), .handle(handle), .valid(sent_valid), .ready(sent_ready), .data(sent));

  always_ff @(posedge clk) begin
    if (!rst) assert (!job_valid || (queue_ready && job_maybe));
  end

  wire unused_ok = &{1'b0, rd_state, cut_ok, upset, cut_sent};

endmodule

`default_nettype wire
