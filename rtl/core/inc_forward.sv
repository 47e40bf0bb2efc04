// Forward: Mode-II frames that were decided on and wait to leave, in the order of the decisions.
//
// A command is one decision; it becomes one job for every destination, read from the out_list or
// in_list of its pipe. The record `forward` is written when a job gets its turn, so golden, which
// decides at once and sends later, needs no more than one FIFO.
//
// Streams:       cmd_* commands, never held: give one only while room is 1. job_* out (txjob_t).
// Latency:       command to its first job offered: 2 clocks; SLOW more if cmd_slow, because its
//                sums are not in memory yet, and for what comes in behind it meanwhile.
// Throughput:    one job per clock.
// Back-pressure: none to the commands: room, from registers, says whether one may come in this
//                clock. job_ready low keeps the job.
// block_busy:    chk_block is the slot of a data command that is not read to its end yet (payload
//                and meta of such a slot must stay as they are). Combinational from chk_block and
//                registers: a command given in one clock is seen in the next.
// cut:           a command whose first frame has left already: its first job is entered, not given
//                (record number cut_number, cut_done). idle: no command is inside.
// drained:       while drain is 1: every command given before it rose has become jobs, so the
//                entry and the lists of its pipe may be written.
// Retirement:    ret_* one record per job granted.
// Reset:         empty.
// Parameters:    ENDPOINTS 2..4096, PIPES 2..256, powers of two; BLOCKS of 256 bytes; DEPTH
//                commands that may wait, power of two; DATA_DEPTH data commands among them;
//                SLOW clocks from the last beat of a sum to where it may be read.
// Source:        protocol.md 5 (Mode-II); docs/protocol.md.
`default_nettype none

module inc_forward #(
  parameter int ENDPOINTS  = 64,
  parameter int PIPES      = 16,
  parameter int BLOCKS     = 512,
  parameter int DEPTH      = 32,
  parameter int DATA_DEPTH = 16,
  parameter int SLOW       = 8,
  parameter int EP_W       = $clog2(ENDPOINTS),
  parameter int PIPE_W     = $clog2(PIPES),
  parameter int BLK_W      = $clog2(BLOCKS)
) (
  input  wire                     clk,
  input  wire                     rst,

  // table writes
  input  wire                     pipe_wr,
  input  wire [PIPE_W-1:0]        pipe_index,
  input  inc_spec_pkg::pipe_cfg_t pipe_data,
  input  wire                     out_wr,
  input  wire                     in_wr,
  input  wire [EP_W-1:0]          list_index,
  input  wire [11:0]              list_ep,

  // decisions
  output wire                     room,
  input  wire                     cmd_valid,
  input  inc_pkg::fwd_t           cmd,
  input  wire                     cmd_slow,
  input  wire [BLK_W-1:0]         chk_block,
  output wire                     block_busy,
  output wire                     idle,
  input  wire [31:0]              cut_number,
  output wire                     cut_done,
  input  wire                     drain,
  output wire                     drained,

  // frames to send
  output wire                     job_valid,
  input  wire                     job_ready,
  output inc_pkg::txjob_t         job,
  input  wire [31:0]              job_number,
  input  wire                     job_granted,    // any job, of any source
  input  wire                     job_done,       // a job's payload has been read; in order

  output wire                     stat_forward,
  output wire                     ret_valid,
  output inc_spec_pkg::record_t   ret_rec
);

  localparam int CNT_W = $clog2(DEPTH + 1);
  localparam int DAT_W = $clog2(DATA_DEPTH);
  localparam int JOB_W = 8;             // bits of the counters: more than what can be on its way
  localparam int CFG_W = 12 + 7 + 12 + 7 + 5;

  // ------------------------------------------------------------------ waiting commands
  // Each with the place and the length of its list.
  wire [11:0] c_out_base, c_in_base;
  wire [6:0]  c_outs, c_ins;
  wire [4:0]  c_n_log2;
  inc_lutram #(.DATA_W(CFG_W), .DEPTH(PIPES), .R(1)) u_cfg (
    .clk(clk), .wr_en(pipe_wr), .wr_addr(pipe_index),
    .wr_data({pipe_data.out_base, pipe_data.fan_out, pipe_data.in_base, pipe_data.fan_in,
              pipe_data.n_log2}),
    .rd_addr(cmd.pipe[PIPE_W-1:0]),
    .rd_data({c_out_base, c_outs, c_in_base, c_ins, c_n_log2}));
  wire        c_is_outs = cmd.dest == inc_pkg::FWD_OUTS;
  wire [11:0] c_base    = c_is_outs ? c_out_base : c_in_base;
  wire [6:0]  c_count   = cmd.dest == inc_pkg::FWD_EP ? 7'd1 : c_is_outs ? c_outs : c_ins;

  wire                h_valid, h_take, fifo_ready;
  inc_pkg::fwd_t      h;
  wire [EP_W-1:0]     h_base;
  wire [6:0]          h_count;
  wire [4:0]          h_n_log2;
  wire [CNT_W-1:0]    waiting;
  inc_fifo #(.DATA_W(EP_W + 7 + 5 + $bits(cmd)), .DEPTH(DEPTH)) u_cmds (
    .clk(clk), .rst(rst), .s_valid(cmd_valid), .s_ready(fifo_ready),
    .s_data({c_base[EP_W-1:0], c_count, c_n_log2, cmd}),
    .m_valid(h_valid), .m_ready(h_take), .m_data({h_base, h_count, h_n_log2, h}),
    .count(waiting));

  // How many of them may become jobs: a slow one, and what follows it closely, SLOW clocks later.
  logic [CNT_W-1:0] ripe_q;
  logic [SLOW-1:0]  unripe_q;
  wire  later   = cmd_valid && (cmd_slow || unripe_q != '0);
  wire  ripen   = unripe_q[SLOW-1] || (cmd_valid && !later);

  // ------------------------------------------------------------------ expanding one command
  logic              e_valid_q;         // a destination is to be read
  inc_pkg::fwd_t     e_q;
  logic [4:0]        e_n_log2_q;
  logic [EP_W-1:0]   e_index_q;
  logic [6:0]        e_left_q;          // destinations behind this one
  logic              j_valid_q;         // the job that is offered
  inc_pkg::fwd_t     j_q;
  logic [4:0]        j_n_log2_q;
  logic              j_last_q;
  logic              e_cut_q, j_cut_q;

  wire j_go   = j_valid_q && (j_cut_q || job_ready);
  wire e_go   = e_valid_q && (!j_valid_q || j_go);
  wire e_last = e_left_q == 7'd0;
  assign h_take = h_valid && ripe_q != '0 && (!e_valid_q || (e_go && e_last));

  wire [11:0] out_ep, in_ep;
  inc_ram_1r1w #(.DATA_W(12), .DEPTH(ENDPOINTS)) u_out_list (
    .clk(clk), .wr_en(out_wr), .wr_addr(list_index), .wr_data(list_ep),
    .rd_en(e_go), .rd_addr(e_index_q), .rd_data(out_ep));
  inc_ram_1r1w #(.DATA_W(12), .DEPTH(ENDPOINTS)) u_in_list (
    .clk(clk), .wr_en(in_wr), .wr_addr(list_index), .wr_data(list_ep),
    .rd_en(e_go), .rd_addr(e_index_q), .rd_data(in_ep));

  assign job_valid = j_valid_q && !j_cut_q;
  assign cut_done  = j_valid_q && j_cut_q;
  always_comb begin
    job          = '0;
    job.kind     = j_q.kind;
    job.psn      = j_q.psn;
    job.ack_req  = j_q.ack_req;
    job.syndrome = j_q.syndrome;
    job.msn      = j_q.msn;
    job.block    = j_q.block;
    case (j_q.dest)
      inc_pkg::FWD_OUTS: job.ep = out_ep;
      inc_pkg::FWD_INS:  job.ep = in_ep;
      default:           job.ep = j_q.ep;
    endcase
  end

  // ------------------------------------------------------------------ slots that must stay
  // Data commands in order: given, turned into jobs (their last job has a number), read.
  logic [DATA_DEPTH-1:0]       d_busy_q;
  logic [BLK_W*DATA_DEPTH-1:0] d_block_q;
  logic [DATA_DEPTH-1:0]       d_sent_q;        // all its jobs are granted
  logic [DAT_W-1:0]            d_wr_q, d_sent_at_q, d_rd_q;
  logic [JOB_W-1:0]            granted_q, done_q;
  wire [JOB_W-1:0] granted_d = granted_q + JOB_W'(job_granted);
  wire d_push = cmd_valid && cmd.kind == inc_pkg::TX_DATA;
  wire d_sent = j_go && j_last_q && j_q.kind == inc_pkg::TX_DATA;
  // The oldest, looked at a clock ahead: its jobs have their numbers, the last is this one.
  logic                        old_sent_q;
  logic [JOB_W-1:0]            old_fence_q;
  wire [JOB_W-1:0] old_fence;
  wire [JOB_W-1:0] d_ahead = done_q - old_fence_q;      // serial: >= 0: read
  wire d_pop  = old_sent_q && !d_ahead[JOB_W-1];
  inc_lutram #(.DATA_W(JOB_W), .DEPTH(DATA_DEPTH), .R(1)) u_fence (
    .clk(clk), .wr_en(d_sent), .wr_addr(d_sent_at_q), .wr_data(granted_d),
    .rd_addr(d_rd_q), .rd_data(old_fence));

  logic [DATA_DEPTH-1:0] hit;
  always_comb begin
    for (int i = 0; i < DATA_DEPTH; i++) begin
      hit[i] = d_busy_q[i] && d_block_q[BLK_W*i +: BLK_W] == chk_block;
    end
  end
  assign block_busy = hit != '0;

  // ------------------------------------------------------------------ pipes that must stay
  logic [JOB_W-1:0] given_q, ended_q, mark_q;   // commands
  logic             marked_q;
  wire              end_go = j_go && j_last_q;
  wire [JOB_W-1:0]  passed = ended_q - mark_q;  // serial: >= 0: all up to the mark are jobs
  assign idle    = given_q == ended_q;
  assign drained = marked_q && !passed[JOB_W-1];

  // ------------------------------------------------------------------ room
  logic data_room_q;                            // the next data command has a place
  wire [DAT_W-1:0] d_next = d_wr_q + DAT_W'(1);
  assign room = fifo_ready && data_room_q;

  always_ff @(posedge clk) begin
    data_room_q <= !d_busy_q[d_push ? d_next : d_wr_q];

    if (j_go) j_valid_q <= 1'b0;
    if (e_go) begin
      j_valid_q  <= 1'b1;
      j_q        <= e_q;
      j_n_log2_q <= e_n_log2_q;
      j_last_q   <= e_last;
      j_cut_q    <= e_cut_q;
      e_cut_q    <= 1'b0;
      e_index_q  <= e_index_q + EP_W'(1);
      e_left_q   <= e_left_q - 7'd1;
      if (e_last) e_valid_q <= 1'b0;
    end
    if (h_take) begin
      e_valid_q  <= 1'b1;
      e_q        <= h;
      e_n_log2_q <= h_n_log2;
      e_cut_q    <= h.cut;
      e_index_q  <= h_base;
      e_left_q   <= h_count - 7'd1;
    end

    unripe_q <= {unripe_q[SLOW-2:0], later};
    ripe_q   <= ripe_q + CNT_W'(ripen) - CNT_W'(h_take);

    granted_q <= granted_d;
    done_q    <= done_q + JOB_W'(job_done);
    old_sent_q  <= d_sent_q[d_rd_q] && d_busy_q[d_rd_q] && !d_pop;
    old_fence_q <= old_fence;
    if (d_pop) begin
      d_busy_q[d_rd_q] <= 1'b0;
      d_rd_q           <= d_rd_q + DAT_W'(1);
    end
    if (d_sent) begin
      d_sent_q[d_sent_at_q] <= 1'b1;
      d_sent_at_q <= d_sent_at_q + DAT_W'(1);
    end
    if (d_push) begin
      d_busy_q[d_wr_q] <= 1'b1;
      d_sent_q[d_wr_q] <= 1'b0;
      d_block_q[BLK_W*d_wr_q +: BLK_W] <= cmd.block[BLK_W-1:0];
      d_wr_q <= d_next;
    end

    if (cmd_valid) given_q <= given_q + JOB_W'(1);
    if (end_go)    ended_q <= ended_q + JOB_W'(1);
    marked_q <= drain;
    if (!marked_q) mark_q <= given_q + JOB_W'(cmd_valid);

    if (rst) begin
      data_room_q <= 1'b0;
      ripe_q      <= '0;
      unripe_q    <= '0;
      e_valid_q   <= 1'b0;
      j_valid_q   <= 1'b0;
      granted_q   <= '0;
      done_q      <= '0;
      old_sent_q  <= 1'b0;
      d_busy_q    <= '0;
      d_wr_q      <= '0;
      d_sent_at_q <= '0;
      d_rd_q      <= '0;
      given_q     <= '0;
      ended_q     <= '0;
      marked_q    <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst) begin
      assert (!cmd_valid || room);
      assert (!(d_push && d_busy_q[d_wr_q]));
      assert (!(j_go && !j_cut_q && !job_granted));
      if (h_take) assert (h_count != 7'd0);
    end
`endif
  end

  // ------------------------------------------------------------------ retirement
  assign stat_forward = j_go;
  assign ret_valid    = j_go;
  always_comb begin
    ret_rec          = '0;
    ret_rec.cause    = 32'(inc_spec_pkg::CAUSE_FORWARD);
    ret_rec.verdict  = 32'(inc_spec_pkg::VERDICT_OK);
    ret_rec.frame    = j_cut_q ? cut_number : job_number;
    ret_rec.pipe_id  = 32'(j_q.pipe);
    ret_rec.endpoint = 32'(job.ep);
    ret_rec.psn      = 32'(j_q.psn);
    ret_rec.slot     = 32'(inc_pkg::slot_of(j_q.psn, j_n_log2_q));
  end

  wire unused_ok = &{1'b0, pipe_data, h, j_q, d_ahead, cmd, waiting, c_base};

endmodule

`default_nettype wire
