// inc_minimum_ack and inc_forward as they work together: ACKs and commands in, jobs out.
// Streams: 0 records of ACKs; 1 commands of ACKs; 2 records of forwards; 3 block_busy; 4 jobs; sources
// 8 levels, 9 ACKs, 10 pipe_cfg writes, 11 out_list writes, 12 endpoint initialisations, 13 in_list
// writes, 14 commands of data and CNPs, 15 blocks to ask for, 16 jobs read, 17 drains.
// Tables are written while nothing is under way, as inc_core does.
`default_nettype none

module inc_bench_hand_on (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;
  localparam int EP_W   = $clog2(ENDPOINTS);
  localparam int PIPE_W = $clog2(PIPES);
  localparam int BLK_W  = $clog2(BLOCKS);

  hand_level_t level, level_q;
  hand_ack_t   ack, next_ack;
  pipe_write_t pipe_wr;
  out_write_t  out_wr, in_wr, list_wr;
  ep_psn_t     init;
  block_busy_t ask, told;
  pulse_t      read, drain;
  hand_stat_t  stat;
  inc_pkg::fwd_t         cmd, ack_cmd;
  inc_pkg::txjob_t       job;
  inc_spec_pkg::record_t rec, fw_rec;
  inc_spec_pkg::ep_tx_t  rd_state;
  logic [31:0] job_number_q;
  logic [7:0]  unread_q;
  wire [7:0]   ack_verdict;
  wire level_valid, pipe_wr_valid, out_wr_valid, in_wr_valid, init_valid, cmd_valid, ask_valid;
  wire next_ack_valid, ack_done, ack_cmd_valid, room, read_valid, drain_valid, drained;
  wire job_valid, job_ready, rec_valid, fw_rec_valid, rd_mine, stat_forward, idle, cut_done;
  logic ack_valid;
  wire  ack_soon = next_ack_valid && (!ack_valid || ack_done);
  wire  tables   = !ack_valid && !next_ack_valid;
  wire  cmd_go   = cmd_valid && room && !ack_cmd_valid;
  wire  list_out = out_wr_valid && tables;
  wire  list_in  = in_wr_valid && tables && !out_wr_valid;
  assign list_wr = out_wr_valid ? out_wr : in_wr;

  inc_bench_source #(.STREAM(8), .W($bits(level))) u_level (
    .clk(clk), .rst(rst), .handle(handle), .valid(level_valid), .ready(tables), .data(level));
  inc_bench_source #(.STREAM(9), .W($bits(ack))) u_ack (
    .clk(clk), .rst(rst), .handle(handle), .valid(next_ack_valid), .ready(ack_soon),
    .data(next_ack));
  inc_bench_source #(.STREAM(10), .W($bits(pipe_wr))) u_pipe_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(pipe_wr_valid), .ready(tables), .data(pipe_wr));
  inc_bench_source #(.STREAM(11), .W($bits(out_wr))) u_out_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(out_wr_valid), .ready(tables), .data(out_wr));
  inc_bench_source #(.STREAM(12), .W($bits(init))) u_init (
    .clk(clk), .rst(rst), .handle(handle), .valid(init_valid), .ready(tables), .data(init));
  inc_bench_source #(.STREAM(13), .W($bits(in_wr))) u_in_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(in_wr_valid), .ready(list_in), .data(in_wr));
  inc_bench_source #(.STREAM(14), .W($bits(cmd))) u_cmd (
    .clk(clk), .rst(rst), .handle(handle), .valid(cmd_valid), .ready(cmd_go), .data(cmd));
  inc_bench_source #(.STREAM(15), .W($bits(ask))) u_ask (
    .clk(clk), .rst(rst), .handle(handle), .valid(ask_valid), .ready(1'b1), .data(ask));
  inc_bench_source #(.STREAM(16), .W($bits(read))) u_read (
    .clk(clk), .rst(rst), .handle(handle), .valid(read_valid), .ready(unread_q != 8'd0),
    .data(read));
  inc_bench_source #(.STREAM(17), .W($bits(drain))) u_drain (
    .clk(clk), .rst(rst), .handle(handle), .valid(drain_valid), .ready(drained), .data(drain));

  wire granted = job_valid && job_ready;
  wire done    = read_valid && unread_q != 8'd0;

  always_ff @(posedge clk) begin
    if (level_valid && tables) level_q <= level;
    if (ack_done) ack_valid <= 1'b0;
    if (ack_soon) begin
      ack_valid <= 1'b1;
      ack       <= next_ack;
    end
    if (granted) job_number_q <= job_number_q + 32'd1;
    unread_q <= unread_q + 8'(granted) - 8'(done);
    if (rst) begin
      level_q      <= '0;
      ack_valid    <= 1'b0;
      job_number_q <= '0;
      unread_q     <= '0;
    end
  end

  inc_minimum_ack #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_minimum (
    .clk(clk), .rst(rst),
    .init_ep(init_valid && tables), .init_ep_index(init.ep[EP_W-1:0]), .init_ep_psn(init.psn),
    .pipe_wr(pipe_wr_valid && tables), .pipe_index(pipe_wr.index[PIPE_W-1:0]),
    .pipe_data(pipe_wr.cfg), .out_wr(list_out), .list_index(list_wr.index[EP_W-1:0]),
    .list_ep(list_wr.ep),
    .rd_wait(1'b0), .rd_index('0), .rd_state(rd_state), .rd_mine(rd_mine),
    .live(level_q.live), .pipe_error(level_q.pipe_error),
    .ack_soon(ack_soon), .ack_soon_ep(next_ack.ep[EP_W-1:0]),
    .ack_valid(ack_valid), .ack_ep(ack.ep[EP_W-1:0]), .ack_pipe(ack.pipe[PIPE_W-1:0]),
    .ack_rule(ack.rule), .ack_leaf(ack.leaf), .ack_psn(ack.psn),
    .ack_syndrome(ack.syndrome), .ack_msn(ack.msn), .ack_frame(ack.frame),
    .ack_done(ack_done), .ack_verdict(ack_verdict),
    .fwd_room(room), .fwd_valid(ack_cmd_valid), .fwd(ack_cmd),
    .stat_event(stat.stat_event), .ret_valid(rec_valid), .ret_rec(rec));

  inc_forward #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES), .BLOCKS(BLOCKS), .DEPTH(8),
                .DATA_DEPTH(4)) u_forward (
    .clk(clk), .rst(rst),
    .pipe_wr(pipe_wr_valid && tables), .pipe_index(pipe_wr.index[PIPE_W-1:0]),
    .pipe_data(pipe_wr.cfg), .out_wr(list_out), .in_wr(list_in),
    .list_index(list_wr.index[EP_W-1:0]), .list_ep(list_wr.ep),
    .room(room), .cmd_valid(ack_cmd_valid || cmd_go), .cmd(ack_cmd_valid ? ack_cmd : cmd), .cmd_slow(1'b0),
    .chk_block(ask.block[BLK_W-1:0]), .block_busy(told.busy),
    .idle(idle), .cut_number('0), .cut_done(cut_done),
    .drain(drain_valid), .drained(drained),
    .job_valid(job_valid), .job_ready(job_ready), .job(job), .job_number(job_number_q),
    .job_granted(granted), .job_done(done),
    .stat_forward(stat_forward), .ret_valid(fw_rec_valid), .ret_rec(fw_rec));
  assign told.block = ask.block;

  hand_record_t ack_told;
  assign ack_told.rec        = rec;
  assign ack_told.stat_event = stat.stat_event;
  inc_bench_watch #(.STREAM(0), .W($bits(ack_told))) u_rec (
    .clk(clk), .rst(rst), .handle(handle), .valid(rec_valid), .data(ack_told));
  inc_bench_watch #(.STREAM(1), .W($bits(ack_cmd))) u_ack_cmd (
    .clk(clk), .rst(rst), .handle(handle), .valid(ack_cmd_valid), .data(ack_cmd));
  inc_bench_watch #(.STREAM(2), .W($bits(fw_rec))) u_fw_rec (
    .clk(clk), .rst(rst), .handle(handle), .valid(fw_rec_valid), .data(fw_rec));
  inc_bench_watch #(.STREAM(3), .W($bits(told))) u_told (
    .clk(clk), .rst(rst), .handle(handle), .valid(ask_valid), .data(told));
  inc_bench_sink #(.STREAM(4), .W($bits(job))) u_job (
    .clk(clk), .rst(rst), .handle(handle), .valid(job_valid), .ready(job_ready), .data(job));

  wire unused_ok = &{1'b0, rd_state, rd_mine, stat_forward, idle, cut_done, ack_verdict, read, drain};

endmodule

`default_nettype wire
