// inc_pipe between streams, with the pipe table of the lookup and every job read a clock after it is given.
// Streams: 0 beats to AggregateData; 1 records; 2 ends of frames; 3 faults; 4 ACKs for Retransmission;
// 5 ACKs to send, 7 each as it is taken; sources 8 frames, 9 payload, 10 ends of frames, 11 room for bypass, 12 table writes,
// 13 answers to ACKs, 14 minima of walks, 15 errors of outs. No frame is offered while a write waits.
`default_nettype none

module inc_bench_pipe (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;
  localparam int EP_W   = $clog2(ENDPOINTS);
  localparam int PIPE_W = $clog2(PIPES);
  localparam int ADDR_W = $clog2(BEATS);

  inc_pkg::lookup_t      lk;
  pay_t                  pay;
  verdict_t              eof, answer;
  room_t                 room;
  table_write_t          tbl;
  pipe_psn_t             min, err;
  beat_t                 agg;
  inc_spec_pkg::record_t rec;
  frame_end_t            fin, stat;
  fault_t                fault;
  ack_req_t              ack;
  inc_pkg::txjob_t       job;
  pulse_t                taken;
  wire lk_valid, lk_ready, pay_valid, pay_ready, eof_valid, eof_ready, room_valid, tbl_valid, tbl_done,
       answer_valid, min_valid, err_valid, agg_valid, rec_valid, fin_valid, stat_valid, fault_valid, ack_valid,
       job_valid, job_ready, tbl_fire;

  inc_bench_source #(.STREAM(8), .W($bits(lk))) u_lk (
    .clk(clk), .rst(rst), .handle(handle), .valid(lk_valid), .ready(lk_ready && !tbl_valid), .data(lk));
  inc_bench_source #(.STREAM(9), .W($bits(pay))) u_pay (
    .clk(clk), .rst(rst), .handle(handle), .valid(pay_valid), .ready(pay_ready), .data(pay));
  inc_bench_source #(.STREAM(10), .W($bits(eof))) u_eof (
    .clk(clk), .rst(rst), .handle(handle), .valid(eof_valid), .ready(eof_ready), .data(eof));
  inc_bench_source #(.STREAM(11), .W($bits(room))) u_room (
    .clk(clk), .rst(rst), .handle(handle), .valid(room_valid), .ready(fin_valid), .data(room));
  inc_bench_source #(.STREAM(12), .W($bits(tbl))) u_tbl (
    .clk(clk), .rst(rst), .handle(handle), .valid(tbl_valid), .ready(tbl_done), .data(tbl));
  inc_bench_source #(.STREAM(13), .W($bits(answer))) u_answer (
    .clk(clk), .rst(rst), .handle(handle), .valid(answer_valid), .ready(ack_valid), .data(answer));
  inc_bench_source #(.STREAM(14), .W($bits(min))) u_min (
    .clk(clk), .rst(rst), .handle(handle), .valid(min_valid), .ready(1'b1), .data(min));
  inc_bench_source #(.STREAM(15), .W($bits(err))) u_err (
    .clk(clk), .rst(rst), .handle(handle), .valid(err_valid), .ready(1'b1), .data(err));

  inc_spec_pkg::pipe_cfg_t cfgs_q [PIPES];
  logic [PIPE_W-1:0]       cfg_pipe;
  logic [31:0]             number_q;
  logic                    done_q;
  logic [1:0]              turn_q;
  wire                     granted = job_valid && job_ready;
  always_ff @(posedge clk) begin
    if (tbl_fire && tbl.id == inc_spec_pkg::TABLE_PIPE_CFG) cfgs_q[tbl.index[PIPE_W-1:0]] <= tbl.pipe;
    number_q <= rst ? '0 : number_q + 32'(granted);
    done_q   <= !rst && granted;
    turn_q   <= rst ? '0 : turn_q + 2'd1;
  end

  logic [EP_W-1:0]   ack_ep;
  logic [PIPE_W-1:0] ack_pipe;
  logic [ADDR_W-1:0] agg_addr;
  assign ack.ep   = 12'(ack_ep);
  assign ack.pipe = 8'(ack_pipe);
  assign agg.addr = 16'(agg_addr);
  assign agg.compare = 1'b0;
  assign taken.nothing = 1'b0;
  wire  [7:0]        end_verdict;
  wire               answered = ack_valid && answer_valid;
  assign stat.verdict = answered ? answer.verdict : end_verdict;
  assign fin.verdict = stat.verdict;
  assign stat.bypass = 1'b0;

  /* verilator lint_off PINCONNECTEMPTY */
  inc_pipe #(.DATA_W(DATA_W), .ENDPOINTS(ENDPOINTS), .PIPES(PIPES), .BLOCKS(BLOCKS), .FLOAT(1)) u_dut (
    .clk(clk), .rst(rst),
    .lk_valid(lk_valid && !tbl_valid), .lk_ready(lk_ready), .lk(lk), .lk_idle(1'b1), .tbl_hold(), .tbl_hold_keep(),
    .pay_valid(pay_valid), .pay_ready(pay_ready), .pay_data(pay.data), .pay_last(pay.last),
    .eof_valid(eof_valid), .eof_ready(eof_ready), .eof_verdict(eof.verdict),
    .byp_head_valid(room_valid), .byp_head_fits(room.fits), .byp_dec_valid(fin_valid),
    .byp_dec_bypass(fin.bypass),
    .agg_claim(), .agg_valid(agg_valid), .agg_start(agg.start), .agg_bank(agg.bank), .agg_addr(agg_addr),
    .agg_data(agg.data), .agg_dtype(agg.dtype), .agg_op(agg.op), .agg_last(agg.last), .agg_id(),
    .agg_float_busy(1'b0),
    .fold_valid(), .fold_ready(1'b1), .fold_bank(), .fold_addr(), .fold_data('0),
    .ack_soon(), .ack_soon_ep(), .ack_valid(ack_valid), .ack_mode2(), .ack_ep(ack_ep), .ack_pipe(ack_pipe), .ack_psn(ack.psn),
    .ack_syndrome(ack.syndrome), .ack_msn(), .ack_rule(), .ack_leaf(), .ack_frame(ack.frame), .ack_done(answered),
    .live(), .mode2(), .pipe_error(), .pipe_drained(), .next_pipe('0), .next_send(),
    .min_valid(min_valid), .min_pipe(min.pipe[PIPE_W-1:0]), .min_psn(min.psn),
    .err_valid(err_valid), .err_pipe(err.pipe[PIPE_W-1:0]),
    .fwd_room(1'b1), .fwd_valid(), .fwd_slow(), .fwd(), .fwd_chk_block(), .fwd_chk_busy(1'b0), .fwd_drained(1'b1),
    .cut_decide(), .cut_result(), .cut_leaves(), .cut_frame(), .cut_mode2(), .cut_pays(), .cut_meta(), .cut_ack_req(),
    .cut_end(), .cut_good(), .cut_release(), .cut_release_pipe(), .cut_jobs_idle(), .cut_busy(1'b0), .cut_owed(1'b0),
    .cut_pipe('0),
    .job_valid(job_valid), .job_ready(job_ready), .job(job), .job_number(number_q),
    .job_granted(granted), .job_done(done_q),
    .tx_slot_en(turn_q == 2'd0), .tx_slot_ready(), .tx_slot_block('0), .tx_slot_meta(), .tx_slot_flip(),
    .tbl_valid(tbl_valid), .tbl_write(1'b1), .tbl_id(tbl.id), .tbl_index(tbl.index), .tbl_ep(tbl.ep),
    .tbl_pipe(tbl.pipe), .tbl_quiesced(1'b0), .tbl_list_ep('0), .tx_idle(1'b1), .tbl_fire(tbl_fire), .tbl_done(tbl_done), .tbl_busy(),
    .tbl_ep_rx(), .tbl_pipe_state(), .cfg_pipe(cfg_pipe), .cfg(cfgs_q[cfg_pipe]),
    .stat_frame(stat_valid), .stat_verdict(end_verdict), .stat_event(),
    .fault_valid(fault_valid), .fault_kind(fault.kind), .fault_ep(fault.ep), .fault_pipe(fault.pipe),
    .fault_psn(fault.psn), .fault_got(fault.got), .fault_wanted(fault.wanted),
    .ret_valid(rec_valid), .ret_rec(rec));
  /* verilator lint_on PINCONNECTEMPTY */

  inc_bench_watch #(.STREAM(0), .W($bits(agg))) u_agg (
    .clk(clk), .rst(rst), .handle(handle), .valid(agg_valid), .data(agg));
  inc_bench_watch #(.STREAM(1), .W($bits(rec))) u_rec (
    .clk(clk), .rst(rst), .handle(handle), .valid(rec_valid), .data(rec));
  inc_bench_watch #(.STREAM(2), .W($bits(fin))) u_fin (
    .clk(clk), .rst(rst), .handle(handle), .valid(fin_valid), .data(fin));
  inc_bench_watch #(.STREAM(3), .W($bits(fault))) u_fault (
    .clk(clk), .rst(rst), .handle(handle), .valid(fault_valid), .data(fault));
  inc_bench_watch #(.STREAM(4), .W($bits(ack))) u_ack (
    .clk(clk), .rst(rst), .handle(handle), .valid(answered), .data(ack));
  inc_bench_watch #(.STREAM(6), .W($bits(stat))) u_stat (
    .clk(clk), .rst(rst), .handle(handle), .valid(stat_valid || answered), .data(stat));
  // A job is taken in one clock and there in the next.
  inc_bench_sink #(.STREAM(7), .W($bits(taken)), .LAW(0)) u_take (
    .clk(clk), .rst(rst), .handle(handle), .valid(job_valid), .ready(job_ready), .data(taken));
  inc_bench_watch #(.STREAM(5), .W($bits(job))) u_job (
    .clk(clk), .rst(rst), .handle(handle), .valid(done_q), .data(job));

endmodule

`default_nettype wire
