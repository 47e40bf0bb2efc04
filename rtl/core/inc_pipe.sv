// Pipe: the slots of every pipe and the windows over them; sequences everything that arrives.
//
// Two sequencers share the state. PK takes one frame at a time: decide (CheckDuplicate) on the
// state left by the frame before, stream the payload into the hidden copy of its slot
// (AggregateData), commit when its end-of-frame verdict is known: a frame that turns out bad
// leaves no trace. OP does, in the clocks in which PK does not commit: advance, release, recycle,
// error, ACK out, bind, table writes. So at most one of them changes state in a clock, and the
// record port is one. A Mode-II pipe has no events but commits, bind and table writes: what its
// frames make leave is given to Forward.
//
// Streams:       lk_* frames after lookup, pay_* their payload, eof_* their final wire verdict,
//                in order; agg_* beats to AggregateData; ack_* ACK frames to Retransmission
//                (Mode-III) or MinimumAck (ack_mode2); fwd_* commands to Forward; job_* ACKs to
//                send.
//                cut_* to and from CutThrough: see there.
// Latency:       PK: 1 clock to read the slot (the clock of the commit before, if there is no
//                pause), 1 to decide, in which the first beat is added already; the others as they
//                come; commit with the end of the frame, a clock after the decision at the
//                earliest.
// Throughput:    a data frame takes its beats, at least 2 clocks. An ACK takes 1: it is handed to a
//                place of its own, and the frame behind it goes on while it is answered there; 2 if
//                that frame is an ACK, too.
// Back-pressure: only its own work delays a frame; nothing that leaves the engine can (ACKs wait
//                in their records, results in their slots, bypass frames and Mode-II results that
//                do not fit are dropped and counted).
// Interlocks:    a frame waits until nothing that changes its verdict is under way for its own
//                endpoint or pipe (advance scan, recycle, error, bind), and these wait while such
//                a frame is inside. A Mode-II slot is not written while a frame of it waits to be
//                read (fwd_chk_*).
// Reset:         no pipe bound. Slots are unknown until bound (valid walk).
// Parameters:    ENDPOINTS, PIPES powers of two; BLOCKS blocks of 256 bytes in the pool (power of
//                two); FAN_IN 2..64 most ins of a pipe; DATA_W 64..2048; MODE2, MODE3,
//                CUT_THROUGH, FLOAT 0 or 1: left out or built in.
// Source:        protocol.md 4, 5, 6, 9; docs/architecture.md "Events of Mode-III".
`default_nettype none

module inc_pipe #(
  parameter int DATA_W    = 512,
  parameter int ENDPOINTS = 64,
  parameter int PIPES     = 16,
  parameter int BLOCKS    = 512,
  parameter int FAN_IN    = 64,
  parameter int MODE2     = 1,
  parameter int MODE3     = 1,
  parameter int FLOAT     = 0,
  parameter int CUT_THROUGH = 0,
  parameter int EP_W      = $clog2(ENDPOINTS),
  parameter int PIPE_W    = $clog2(PIPES),
  parameter int BLK_W     = $clog2(BLOCKS),
  parameter int ADDR_W    = $clog2(BLOCKS * 2048 / DATA_W)
) (
  input  wire                          clk,
  input  wire                          rst,

  // frames
  input  wire                          lk_valid,
  output wire                          lk_ready,
  input  inc_pkg::lookup_t        lk,
  input  wire                          lk_idle,
  output wire                          tbl_hold,        // begin nothing new: a table waits
  output wire                          tbl_hold_keep,   // and keep no timers: its turn comes
  input  wire                          pay_valid,
  output wire                          pay_ready,
  input  wire [DATA_W-1:0]             pay_data,
  input  wire                          pay_last,
  input  wire                          eof_valid,
  output wire                          eof_ready,
  input  wire [7:0]                    eof_verdict,

  // bypass decisions
  input  wire                          byp_head_valid,
  input  wire                          byp_head_fits,
  output wire                          byp_dec_valid,
  output wire                          byp_dec_bypass,

  // AggregateData
  output wire                          agg_claim,       // there may be a beat
  output wire                          agg_valid,
  output wire                          agg_start,
  output wire                          agg_bank,
  output wire [ADDR_W-1:0]             agg_addr,
  output wire [DATA_W-1:0]             agg_data,
  output wire [3:0]                    agg_dtype,
  output wire [3:0]                    agg_op,
  output wire                          agg_last,
  output wire [3:0]                    agg_id,          // of the frame
  input  wire                          agg_float_busy,

  // reads of the copies of a reproducible pipe
  output wire                          fold_valid,
  input  wire                          fold_ready,
  output wire                          fold_bank,
  output wire [ADDR_W-1:0]             fold_addr,
  input  wire [DATA_W-1:0]             fold_data,       // the clock after

  // ReceiveAck / Retransmission; MinimumAck
  output wire                          ack_soon,        // an ACK is offered from the next clock on
  output wire [EP_W-1:0]               ack_soon_ep,
  output wire                          ack_valid,
  output wire                          ack_mode2,
  output wire [EP_W-1:0]               ack_ep,
  output wire [PIPE_W-1:0]             ack_pipe,
  output wire [23:0]                   ack_psn,
  output wire [7:0]                    ack_syndrome,
  output wire [23:0]                   ack_msn,
  output wire [1:0]                    ack_rule,
  output wire                          ack_leaf,
  output wire [31:0]                   ack_frame,
  input  wire                          ack_done,        // its verdict is told by who took it
  output wire [PIPES-1:0]              live,            // bound, and its valid walk is over
  output wire [PIPES-1:0]              mode2,
  output wire [PIPES-1:0]              pipe_error,
  output wire [PIPES-1:0]              pipe_drained,    // may be written; seen when OP is idle
  input  wire [PIPE_W-1:0]             next_pipe,       // combinational read of nextSend
  output wire [23:0]                   next_send,
  input  wire                          min_valid,
  input  wire [PIPE_W-1:0]             min_pipe,
  input  wire [23:0]                   min_psn,
  input  wire                          err_valid,
  input  wire [PIPE_W-1:0]             err_pipe,

  // Forward
  input  wire                          fwd_room,
  output wire                          fwd_valid,
  output wire                          fwd_slow,        // its sums are floating point
  output inc_pkg::fwd_t                fwd,
  output wire [BLK_W-1:0]              fwd_chk_block,
  input  wire                          fwd_chk_busy,
  input  wire                          fwd_drained,

  // CutThrough
  output wire                          cut_decide,      // a data frame is being decided on
  output wire                          cut_result,      // the clock behind
  output wire                          cut_leaves,      // it completes what is next to leave
  output inc_pkg::lookup_t             cut_frame,
  output wire                          cut_mode2,
  output wire                          cut_pays,
  output inc_pkg::slot_meta_t          cut_meta,        // with cut_decide, as cut_ack_req
  output wire                          cut_ack_req,
  output wire                          cut_end,
  output wire                          cut_good,
  output wire                          cut_release,     // a slot is released
  output wire [PIPE_W-1:0]             cut_release_pipe,
  output wire                          cut_jobs_idle,   // no job is granted and unread
  input  wire                          cut_busy,
  input  wire                          cut_owed,
  input  wire [PIPE_W-1:0]             cut_pipe,

  // ACKs to send
  output wire                          job_valid,
  input  wire                          job_ready,
  output inc_pkg::txjob_t              job,             // a clock after it is taken
  input  wire [31:0]                   job_number,
  input  wire                          job_granted,
  input  wire                          job_done,

  // slot state for the sender
  input  wire                          tx_slot_en,
  output wire                          tx_slot_ready,
  input  wire [BLK_W-1:0]              tx_slot_block,
  output inc_pkg::slot_meta_t          tx_slot_meta,
  output wire                          tx_slot_flip,

  // table control
  input  wire                          tbl_valid,       // held until tbl_done
  input  wire                          tbl_write,
  input  wire [3:0]                    tbl_id,
  input  wire [11:0]                   tbl_index,
  input  inc_spec_pkg::ep_cfg_t   tbl_ep,
  input  inc_spec_pkg::pipe_cfg_t tbl_pipe,
  input  wire                          tbl_quiesced,    // of pipe_ctl
  input  wire [11:0]                   tbl_list_ep,     // of out_list, in_list; for the record
  input  wire                          tx_idle,
  output wire                          tbl_fire,        // the clock in which a write takes effect
  output wire                          tbl_done,        // answer: refused or done
  output wire                          tbl_busy,        // refused: not drained
  output inc_spec_pkg::ep_rx_t         tbl_ep_rx,
  output inc_spec_pkg::pipe_state_t    tbl_pipe_state,
  output wire [PIPE_W-1:0]             cfg_pipe,        // asynchronous pipe_cfg read
  input  inc_spec_pkg::pipe_cfg_t cfg,

  // what happened
  output wire                          stat_frame,
  output wire [7:0]                    stat_verdict,
  output logic [inc_spec_pkg::EVENT_COUNT-1:0] stat_event,
  output wire                          fault_valid,     // what put a pipe in error
  output logic [7:0]                   fault_kind,
  output wire [11:0]                   fault_ep,
  output wire [7:0]                    fault_pipe,
  output wire [23:0]                   fault_psn,
  output logic [31:0]                  fault_got,
  output logic [31:0]                  fault_wanted,
  output wire                          ret_valid,
  output inc_spec_pkg::record_t        ret_rec
);

  typedef enum logic [1:0] {PK_IDLE, PK_DECIDE, PK_STREAM, PK_FOLD} pk_e;

  // ================================================================== state of the pipes
  logic [PIPES-1:0]    error_q, bound_q, binding_q, err_pend_q, quiesced_q, mode2_q;
  logic [PIPES-1:0]    drained_q;
  wire                 ps_wr;
  logic [PIPE_W-1:0]   ps_wr_pipe;
  inc_pkg::pipe_word_t ps_wr_data, pk_ps, op_ps, next_ps;
  logic [PIPE_W-1:0]   op_pipe;
  localparam int PS_W = inc_pkg::PIPE_WORD_W;
  wire [3*PS_W-1:0]    ps_rdata;
  assign {next_ps, op_ps, pk_ps} = ps_rdata;
  assign live       = bound_q & ~binding_q;
  assign pipe_error = error_q;
  assign pipe_drained = drained_q;
  assign mode2      = mode2_q;
  assign next_send  = next_ps.next_send;

  pk_e              pk_q;
  inc_pkg::lookup_t c_q;              // the frame inside
  inc_pkg::slot_meta_t c_meta;
  logic [31:0]      frame_q;          // its number on s_axis_rx
  wire [EP_W-1:0]   c_ep   = c_q.ep[EP_W-1:0];
  wire [PIPE_W-1:0] c_pipe = c_q.pipe[PIPE_W-1:0];
  wire              pk_busy = pk_q != PK_IDLE;
  wire              c_mode2 = MODE2 != 0 && (c_q.mode2 || MODE3 == 0);

  inc_lutram #(.DATA_W(PS_W), .DEPTH(PIPES), .R(3)) u_pipes (
    .clk(clk), .wr_en(ps_wr), .wr_addr(ps_wr_pipe), .wr_data(ps_wr_data),
    .rd_addr({next_pipe, op_pipe, c_pipe}), .rd_data(ps_rdata));

  // ================================================================== forward declarations
  logic              op_imm, op_scan, op_rel, op_rcy, op_err, op_ack, op_bind, op_bdone, op_tbl;
  wire               init_ep   = tbl_fire && tbl_id == inc_spec_pkg::TABLE_EP_CFG;
  wire               init_pipe = tbl_fire && tbl_id == inc_spec_pkg::TABLE_PIPE_CFG;
  wire               write_ctl = tbl_fire && tbl_id == inc_spec_pkg::TABLE_PIPE_CTL;
  wire               write_list = tbl_fire && (tbl_id == inc_spec_pkg::TABLE_OUT_LIST
                                               || tbl_id == inc_spec_pkg::TABLE_IN_LIST);
  // The pipe of the command that waits; without one, each in turn, for pipe_drained.
  logic [PIPE_W-1:0] tbl_p;
  logic              tbl_seen_q;      // tbl_p is the command's
  wire [EP_W-1:0]    tbl_e     = tbl_index[EP_W-1:0];
  wire               fin;             // PK commits in this clock
  wire               hand;            // PK hands its ACK on
  wire               f_take;          // and its contribution is taken
  wire               f_take3;         // by a Mode-III pipe
  logic [EP_W-1:0]   op_ep;
  logic              in_order_q, start_q, full_q;
  logic [BLK_W-1:0]  c_blk_q;

  // ================================================================== slots
  wire                 load, sc_en;
  wire [BLK_W-1:0]     lk_blk = lk.block[BLK_W-1:0];
  wire                 a_valid, s_valid, s_last, s_ack_req;
  wire [22:0]          a_tag, s_tag;
  wire [FAN_IN-1:0]    a_bitmap, s_bitmap;
  inc_pkg::slot_meta_t a_meta;
  wire [BLK_W-1:0]     sc_block;
  wire                 flip;
  logic [FAN_IN-1:0]   new_bitmap_q, c_bit_q, c_all_q;
  logic [22:0]         c_tag_q;
  inc_pkg::slot_meta_t new_meta_q, old_meta_q;
  logic                old_valid_q;
  logic [22:0]         old_tag_q;
  logic [FAN_IN-1:0]   old_bitmap_q;
  wire [BLK_W-1:0]     bind_block;
  wire                 add_nothing, keep_flip;
  inc_slot_state #(.BLOCKS(BLOCKS), .FAN_IN(FAN_IN)) u_slots (
    .clk(clk), .rst(rst),
    .wr_en(f_take || op_bind), .wr_clear(op_bind), .wr_block(op_bind ? bind_block : c_blk_q),
    .wr_tag(c_tag_q), .wr_bitmap(new_bitmap_q), .wr_flip(flip == keep_flip), .wr_meta(new_meta_q),
    .rd_en(load), .rd_block(lk_blk), .rd_valid(a_valid), .rd_tag(a_tag), .rd_bitmap(a_bitmap),
    .rd_meta(a_meta), .flip_block(c_blk_q), .flip(flip),
    .sc_en(sc_en), .sc_block(sc_block), .sc_valid(s_valid), .sc_tag(s_tag), .sc_bitmap(s_bitmap),
    .sc_last(s_last), .sc_ack_req(s_ack_req),
    .tx_en(tx_slot_en), .tx_ready(tx_slot_ready), .tx_block(tx_slot_block),
    .tx_meta(tx_slot_meta), .tx_flip(tx_slot_flip));

  // ================================================================== SendAck
  logic            sa_set, sa_force, sa_nak_wr, sa_nak;
  logic [EP_W-1:0] sa_ep;
  logic [2:0]      sa_kind;
  wire  [2:0]      sa_new_kind, op_kind, pk_kind;
  wire             op_nak_sent, pk_nak_sent;
  wire             ao_valid, ao_idle;
  wire [EP_W-1:0]  ao_ep;
  inc_send_ack #(.ENDPOINTS(ENDPOINTS)) u_send_ack (
    .clk(clk), .rst(rst),
    .set_valid(sa_set), .set_ep(sa_ep), .set_kind(sa_kind), .set_force(sa_force),
    .new_kind(sa_new_kind), .nak_wr(sa_nak_wr), .nak_value(sa_nak),
    .clr_valid(op_ack), .clr_ep(op_ep),
    .init_valid(init_ep), .init_ep(tbl_e),
    .rd_a_ep(c_ep), .rd_a_nak_sent(pk_nak_sent), .rd_a_kind(pk_kind),
    .rd_b_ep(op_ep), .rd_b_nak_sent(op_nak_sent), .rd_b_kind(op_kind),
    .sel_valid(ao_valid), .sel_ep(ao_ep), .sel_next(op_ack), .idle(ao_idle));

  // ================================================================== RecycleBuffer
  wire [PIPES-1:0]  rcy_pend;
  wire [PIPE_W-1:0] rcy_pipe;
  wire [23:0]       rcy_psn;
  wire              jobs_idle;
  logic             rcy_take;
  inc_recycle_buffer #(.PIPES(PIPES)) u_recycle (
    .clk(clk), .rst(rst),
    .min_valid(min_valid), .min_pipe(min_pipe), .min_psn(min_psn),
    .job_granted(job_granted), .job_done(job_done),
    .init_valid(init_pipe), .init_pipe(tbl_p), .init_psn(tbl_pipe.psn0),
    .pub_pipe(rcy_pipe), .pub_psn(rcy_psn), .pend(rcy_pend), .jobs_idle(jobs_idle),
    .take_valid(rcy_take), .take_pipe(rcy_pipe));

  // ================================================================== advance and release
  wire              imm, req_rel, req_imm, req_scan, adv_idle, lk_adv_busy, adv, adv_ack;
  wire              sc_cfg_want;
  wire [PIPE_W-1:0] sc_cfg_pipe, op_in_pipe, adv_pipe, rel_pipe;
  wire [EP_W-1:0]   adv_ep;
  wire [4:0]        adv_n_log2, rel_n_log2;
  wire [23:0]       pk_epsn, pk_msn, op_epsn, op_msn, adv_epsn, adv_msn, rel_psn;
  wire [6:0]        rel_fan_in;
  wire [EP_W-1:0]   lk_ep   = lk.ep[EP_W-1:0];
  wire [PIPE_W-1:0] lk_pipe = lk.pipe[PIPE_W-1:0];
  inc_advance #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES), .BLOCKS(BLOCKS),
                .FAN_IN(FAN_IN)) u_advance (
    .clk(clk), .rst(rst),
    .init(init_ep), .init_ep(tbl_e), .init_cfg(tbl_ep),
    .take(f_take3), .take_in_order(in_order_q), .take_start(start_q), .take_full(full_q),
    .take_ep(c_ep), .take_pipe(c_pipe), .take_psn(c_q.psn), .take_blk(c_blk_q),
    .take_last(inc_spec_pkg::opcode_is_last({4'd0, new_meta_q.opcode})),
    .take_ack_req(new_meta_q.ack_req), .take_n_log2(c_q.n_log2), .take_fan_in(c_q.fan_in),
    .take_every(c_q.ack_every),
    .pk_epsn(pk_epsn), .pk_msn(pk_msn), .op_ep(op_ep), .op_epsn(op_epsn), .op_msn(op_msn),
    .op_in_pipe(op_in_pipe), .op_kind(op_kind), .lk_ep(lk_ep), .lk_busy(lk_adv_busy),
    .imm(imm), .req_release(req_rel), .req_imm(req_imm), .req_scan(req_scan), .idle(adv_idle),
    .op_release(op_rel), .op_imm(op_imm), .op_scan(op_scan),
    .cfg_want(sc_cfg_want), .cfg_pipe(sc_cfg_pipe), .cfg(cfg),
    .sc_en(sc_en), .sc_block(sc_block), .sc_valid(s_valid), .sc_tag(s_tag), .sc_bitmap(s_bitmap),
    .sc_last(s_last), .sc_ack_req(s_ack_req),
    .adv(adv), .adv_ep(adv_ep), .adv_pipe(adv_pipe), .adv_n_log2(adv_n_log2),
    .adv_epsn(adv_epsn), .adv_msn(adv_msn), .adv_ack(adv_ack),
    .rel_pipe(rel_pipe), .rel_psn(rel_psn), .rel_fan_in(rel_fan_in), .rel_n_log2(rel_n_log2));

  // ================================================================== PK: one frame at a time
  inc_pkg::slot_meta_t lk_meta;
  always_comb begin
    lk_meta        = lk.meta;
    lk_meta.offset = lk_meta.offset - lk.in_va;
  end
  wire bind_busy, bind_last;
  wire [PIPE_W-1:0] bind_pipe;
  wire [23:0]       bind_slot;
  wire lk_data       = lk.ok && lk.is_data;
  wire lk_takes_pipe = lk.ok && (lk.is_data || lk.is_cnp);
  wire lk_recent;                     // its slot's payload is still being written
  wire lk_overtakes;                  // beats of other types before it take longer
  // What has left of a Mode-III pipe is entered before the pipe can go to error.
  wire lk_owed  = CUT_THROUGH != 0 && lk_data && (cut_busy || cut_owed) && cut_pipe == lk_pipe
                  && !lk.mode2;
  wire lk_clash = lk_takes_pipe
                  && (rcy_pend[lk_pipe] || err_pend_q[lk_pipe] || lk_owed
                      || (bind_busy && bind_last && bind_pipe == lk_pipe)
                      || (lk_data && (lk_adv_busy || lk_recent || lk_overtakes
                                      || (fin && c_q.is_data && in_order_q && c_ep == lk_ep))));
  wire   pk_free  = (pk_q == PK_IDLE || fin || hand) && !lk_clash;
  assign load     = lk_valid && pk_free;
  assign lk_ready = pk_free;
  assign tbl_hold = tbl_valid && !bind_busy;
  // What is still to be sent may wait long for a slow output: the timers go on meanwhile.
  assign tbl_hold_keep = tbl_hold && jobs_idle && fwd_drained;

  // Slots whose sums are not in memory yet. The beats of a frame of n follow each other, so those
  // of the next one are far enough behind if it is taken add - n clocks after its end or later,
  // add clocks being from a beat to the read that sees its sum.
  localparam int HIST = (FLOAT != 0 ? 8 : 4) - 2;
  localparam int KEY_W = BLK_W;       // a slot is known by its first block
  // Type and operator of an unpinned pipe are those of its window: a frame to one waits as if it
  // took the least, and is waited for as if it took the most.
  wire [3:0]            c_add  = !c_q.pinned ? (FLOAT != 0 ? 4'd8 : 4'd4)
                                 : inc_pkg::sum_distance(c_q.dtype, c_q.op, 1'b0, FLOAT != 0);
  wire                  lk_float = FLOAT != 0 && lk.pinned && inc_pkg::is_float(lk.dtype);
  wire [3:0]            lk_add = !lk.pinned ? 4'd3
                                 : inc_pkg::sum_distance(lk.dtype, lk.op, 1'b0, FLOAT != 0);
  logic [KEY_W*HIST-1:0] hist_key_q;
  logic [HIST-1:0]      hist_q, hist_hit;
  logic                 few_q;        // beats of the frame inside: fewer than its sums take clocks
  always_comb begin
    for (int i = 0; i < HIST; i++)
      hist_hit[i] = hist_q[i] && hist_key_q[KEY_W*i +: KEY_W] == lk_blk;
  end
  assign lk_recent = hist_hit != '0
                     || (fin && few_q && c_blk_q == lk_blk);
  // Nor may a beat overtake those of a type that takes longer.
  assign lk_overtakes = (fin && lk_add < c_add) || (agg_float_busy && !lk_float);

  // ------------------------------------------------------------------ decide
  wire        c_copy = c_mode2 && c_q.fan_in == 7'd1;
  wire        c_bad_pipe = !bound_q[c_pipe] || binding_q[c_pipe];
  wire [7:0]  d_verdict;
  wire        d_compare, d_start, d_replay, d_in_order, d_behind;
  // Whether the slot is the frame's is known late: both cases stand by.
  wire [FAN_IN-1:0] d_joined = a_bitmap | c_bit_q;
  wire [FAN_IN-1:0] d_bitmap = d_start ? c_bit_q : d_joined;
  wire        d_full  = d_start ? c_bit_q == c_all_q : d_joined == c_all_q;
  wire        a_full  = a_bitmap == c_all_q;
  // The control signal's window: what may start a slot, and what must be a signal (protocol.md 10).
  wire        c_pinned   = c_q.pinned || c_copy;
  wire [23:0] d_since    = c_q.psn - pk_ps.win_start;
  wire [23:0] d_until    = pk_ps.control_psn - c_q.psn;
  wire        d_control  = !c_pinned && d_until == 24'd0;
  wire        d_may_start = c_pinned || (!d_since[23] && !d_until[23]);
  wire        d_lanes    = c_pinned || d_control
                           || (c_meta.plen[2:0] & inc_pkg::lane_mask(pk_ps.dtype)) == 3'd0;
  wire [23:0] d_ahead = c_q.psn - pk_ps.next_send;            // Mode-II: >= 0: C moves
  inc_check_duplicate u_check (
    .mode2(c_mode2), .copy(c_copy), .psn(c_q.psn),
    .first(c_mode2 ? pk_ps.next_send : pk_ps.psn_start), .epsn(pk_epsn), .n_log2(c_q.n_log2),
    .pipe_error(error_q[c_pipe]), .binding(c_bad_pipe),
    .slot_valid(a_valid), .slot_tag(a_tag), .slot_bit((a_bitmap & c_bit_q) != '0),
    .slot_full(a_full), .may_start(d_may_start),
    .whole_lanes(d_lanes),
    .verdict(d_verdict), .compare(d_compare), .start(d_start), .replay(d_replay),
    .in_order(d_in_order), .behind(d_behind));

  // Mode-II: what would leave needs room, and a slot of which a frame waits to be read is not
  // written.
  wire d_ok      = d_verdict == inc_spec_pkg::VERDICT_OK;
  wire d_forward = c_mode2 && (c_q.is_cnp || d_replay || (d_ok && (c_copy || d_full)));
  wire d_refuse  = c_mode2 && ((d_forward && !fwd_room)
                               || (d_ok && d_start && !c_q.is_cnp && fwd_chk_busy));
  assign fwd_chk_block = c_blk_q;

  inc_pkg::slot_meta_t d_meta;
  always_comb begin
    d_meta = a_meta;
    if (d_start) begin
      d_meta       = c_meta;
      d_meta.op    = pk_ps.op;
      d_meta.dtype = pk_ps.dtype;
    end else begin
      d_meta.se      = a_meta.se | c_meta.se;
      d_meta.ce      = a_meta.ce | c_meta.ce;
      d_meta.ack_req = a_meta.ack_req | c_meta.ack_req;
    end
  end

  logic [7:0]        v_q;             // verdict but for the comparison and the end of the frame
  logic              v_engine_q;      // it is the pipe's own verdict
  logic              compare_q, behind_q, refuse_q, replay_q, forward_q, was_full_q;
  logic              ahead_q, next_q; // next_q: the next to be released
  logic              fresh_q;         // first clock behind the decision
  logic [4:0]        equal_q;         // opcode, length, ImmDt, offset, DMA length
  logic [ADDR_W-1:0] addr_q;
  logic [15:0]       left_q;
  logic              control_q;       // it is, or should be, a control signal that is taken
  wire               ctl_done, ctl_differs;
  wire mismatch = control_q ? ctl_done && ctl_differs : compare_q && equal_q != '1;
  wire [7:0] v  = mismatch ? inc_spec_pkg::VERDICT_MISMATCH
                  : refuse_q ? inc_spec_pkg::VERDICT_TX_FULL : v_q;
  logic v_ok_q;                       // v_q is ok
  wire  v_ok    = v_ok_q && !mismatch && !refuse_q;
  wire  take    = v_engine_q && c_q.is_data && v_ok;

  // ------------------------------------------------------------------ stream and commit
  logic             ak_valid_q;       // an ACK that was handed on
  logic             ak_mode2_q;
  inc_pkg::lookup_t ak_q;
  logic [31:0]      ak_frame_q;
  logic             recheck_q;        // that ACK may have taken the room to forward
  // The first beat is added while the frame is decided on: what it writes is not to be seen unless
  // the frame is taken.
  wire   decide   = pk_q == PK_DECIDE;
  wire   stream   = pk_q == PK_STREAM;
  wire   last     = left_q <= 16'd1;
  // How a frame ended is read a clock ahead.
  logic       e_valid_q, e_ok_q;
  logic [7:0] e_verdict_q;
  wire   eof_ok   = e_ok_q;
  wire   to_ack   = c_q.is_ack && eof_ok && v_ok_q;
  wire   known    = stream && e_valid_q && byp_head_valid;    // how the frame ended
  wire   end_ok   = known && !to_ack && !ak_valid_q && !recheck_q && !imm
                    && (!control_q || ctl_done);
  // An ACK waits for its answer in a place of its own. Behind it a frame is decided and streamed,
  // and committed only once the place is empty: what frames do comes in their order.
  assign hand         = known && to_ack && (!ak_valid_q || ack_done);
  assign ack_soon     = hand;
  assign ack_soon_ep  = c_ep;
  assign ack_valid    = ak_valid_q;
  assign ack_mode2    = ak_mode2_q;
  assign ack_ep       = ak_q.ep[EP_W-1:0];
  assign ack_pipe     = ak_q.pipe[PIPE_W-1:0];
  assign ack_psn      = ak_q.psn;
  assign ack_syndrome = ak_q.syndrome;
  assign ack_msn      = ak_q.msn;
  assign ack_rule     = ak_q.ack_rule;
  assign ack_leaf     = ak_q.leaf;
  assign ack_frame    = ak_frame_q;
  // Of a reproducible pipe every in has a copy of its own, which is written only if the frame is
  // taken; the last contribution has them folded before it is committed.
  wire   c_apart  = c_q.reproducible && c_q.fan_in != 7'd1;
  logic  apart_q, folded_q, fold_q;  // fold_q: it is due, seen a clock later
  wire   fold_due = apart_q && eof_ok && !folded_q && !refuse_q && (fresh_q || fold_q);
  wire   fold_go  = end_ok && fold_due && !fresh_q && left_q == 16'd1 && pay_valid;
  wire   fold_end, fold_add, fold_from;
  wire [ADDR_W-1:0] fold_to;
  // The last beat waits for the end of the frame only where the two are needed together.
  wire   whole        = control_q || apart_q;
  assign pay_ready    = (decide && left_q != 16'd0 && !c_apart && (!last || c_pinned))
                        || (stream && left_q != 16'd0
                            && (!last || !whole || (end_ok && !(fold_due && fresh_q))));
  wire   beat         = pay_valid && pay_ready;
  assign fin          = end_ok && last && (left_q == 16'd0 || pay_valid) && !fold_due;
  assign eof_ready    = !e_valid_q || fin || hand;

  // A further control signal has been compared: its slot stays as it is.
  assign add_nothing = control_q && !start_q;
  assign agg_claim = fold_add || (pay_valid && pk_busy);
  assign agg_valid = fold_add || (beat && (decide || (take && !add_nothing)));
  assign agg_start = !fold_add && (decide ? d_start : start_q || apart_q);
  assign agg_bank  = fold_add ? fold_from : flip;
  assign agg_addr  = fold_add ? fold_to : addr_q;
  assign agg_data  = fold_add ? fold_data : pay_data;
  assign agg_dtype = decide ? d_meta.dtype : new_meta_q.dtype;
  assign agg_op    = decide ? d_meta.op : new_meta_q.op;
  assign agg_last  = last;
  assign agg_id    = frame_q[3:0];

  // ------------------------------------------------------------------ a result that leaves at once
  inc_pkg::slot_meta_t cut_slot;
  assign cut_decide  = CUT_THROUGH != 0 && decide && c_q.is_data && !ak_valid_q;
  assign cut_result  = stream && fresh_q;
  assign cut_frame   = c_q;
  assign cut_mode2   = c_mode2;
  assign cut_pays    = c_q.pay_beats != 16'd0;
  // A frame that leaves starts its slot or agrees with it: only what is gathered comes from there.
  always_comb begin
    cut_slot         = c_meta;
    cut_slot.se      = d_meta.se;
    cut_slot.ce      = d_meta.ce;
    cut_slot.ack_req = d_meta.ack_req;
  end
  assign cut_meta    = cut_slot;
  assign cut_ack_req = !c_mode2 || d_meta.ack_req;
  assign cut_leaves  = v_ok && !control_q
                       && !apart_q && !error_q[c_pipe] && !e_valid_q && !ak_valid_q
                       && !inc_spec_pkg::opcode_has_reth({4'd0, c_meta.opcode})
                       && (c_mode2 ? forward_q && !replay_q
                                   : full_q && in_order_q && next_q && adv_idle);
  assign cut_end     = fin;
  assign cut_good    = f_take;
  assign cut_release = op_rel;
  assign cut_release_pipe = rel_pipe;
  assign cut_jobs_idle    = jobs_idle;

  wire [ADDR_W-1:0] c_first  = ADDR_W'({c_blk_q, 11'd0} >> $clog2(DATA_W));
  wire [4:0]        c_shift  = 5'(c_q.mtu_log2 - 4'd8) + c_q.n_log2;    // blocks of a copy
  wire [BLK_W-1:0]  c_copy_blocks = BLK_W'(1) << c_shift;
  wire [BLK_W-1:0]  c_own_blocks  = BLK_W'(c_q.in_index) << c_shift;
  wire [ADDR_W-1:0] c_stride = ADDR_W'({c_copy_blocks, 11'd0} >> $clog2(DATA_W));
  inc_fold #(.ADDR_W(ADDR_W)) u_fold (
    .clk(clk), .rst(rst), .start(fold_go), .first(c_first), .stride(c_stride),
    .beats(c_q.pay_beats), .passes(c_q.fan_in - 7'd1), .bank(!flip), .done(fold_end),
    .rd_valid(fold_valid), .rd_ready(fold_ready), .rd_bank(fold_bank), .rd_addr(fold_addr),
    .add_valid(fold_add), .add_bank(fold_from), .add_addr(fold_to));
  // The copies are in the hidden bank; F - 1 passes leave the result there or in the other.
  assign keep_flip = add_nothing || (apart_q && !(full_q && c_q.fan_in[0]));

  logic [7:0] f_verdict;
  wire [7:0]  f_verdict_raw = !eof_ok ? e_verdict_q : v;
  wire        is_byp = inc_spec_pkg::verdict_is_bypass(f_verdict_raw);
  always_comb begin
    f_verdict = f_verdict_raw;
    if (is_byp && !byp_head_fits) f_verdict = inc_spec_pkg::VERDICT_BYPASS_FULL;
  end
  assign byp_dec_valid  = fin || hand;
  assign byp_dec_bypass = is_byp && byp_head_fits;

  wire   f_engine   = fin && eof_ok && v_engine_q;   // a data frame or CNP that reached its pipe
  wire   f_ok       = f_engine && v_ok;
  assign f_take     = f_engine && take;
  assign f_take3    = f_take && !c_mode2;
  wire   f_mismatch = f_engine && mismatch;
  wire   f_full     = f_take && full_q;
  wire   f_count    = f_take && c_mode2 && !c_copy;
  wire   f_window   = f_full && control_q;

  wire [7:0]  ctl_kind;
  wire [31:0] ctl_got, ctl_wanted;
  wire [23:0] ctl_packets;
  wire [3:0]  ctl_op, ctl_dtype;
  inc_control #(.DATA_W(DATA_W), .PIPES(PIPES), .FLOAT(FLOAT)) u_control (
    .clk(clk), .begin_frame(load), .active(stream && control_q), .first(start_q), .pipe(c_pipe),
    .opcode(c_meta.opcode), .plen(c_meta.plen), .imm(c_meta.imm), .slot_imm(old_meta_q.imm),
    .coll(c_q.coll), .root(c_q.root), .reproducible(c_q.reproducible), .mtu_log2(c_q.mtu_log2),
    .one_in(c_q.fan_in == 7'd1), .pay_valid(pay_valid), .pay_beat(beat), .pay_last(last),
    .pay_data(pay_data), .keep(f_take && control_q && start_q),
    .done(ctl_done), .differs(ctl_differs), .kind(ctl_kind), .got(ctl_got), .wanted(ctl_wanted),
    .packets(ctl_packets), .op(ctl_op), .dtype(ctl_dtype));

  // ------------------------------------------------------------------ what leaves of Mode-II
  assign fwd_slow  = FLOAT != 0 && c_q.is_data && inc_pkg::is_float(agg_dtype);
  assign fwd_valid = MODE2 != 0 && f_engine && forward_q && !mismatch && !refuse_q;
  always_comb begin
    fwd         = '0;
    fwd.kind    = c_q.is_cnp ? inc_pkg::TX_CNP : inc_pkg::TX_DATA;
    fwd.dest    = inc_pkg::FWD_OUTS;
    if (c_q.is_cnp) begin
      fwd.dest = c_q.ack_rule == inc_spec_pkg::ACK_RULE_REFLECT ? inc_pkg::FWD_EP
                                                                : inc_pkg::FWD_INS;
    end else if (replay_q && c_q.to_asker) begin
      fwd.dest = inc_pkg::FWD_EP;
    end
    fwd.ep      = 12'(c_ep);
    fwd.pipe    = 8'(c_pipe);
    fwd.cut     = cut_busy;
    fwd.psn     = c_q.is_cnp ? 24'd0 : c_q.psn;
    fwd.ack_req = replay_q || new_meta_q.ack_req;
    fwd.block   = 16'(c_blk_q);
  end

  // ================================================================== OP: everything else
  // recycle and error: one candidate pipe each
  wire [PIPES-1:0] rcy_1h, err_1h;
  wire             rcy_any, err_any;
  wire [PIPE_W-1:0] err_idx;
  // Both are chosen a clock ahead, and wait while a frame of their pipe is inside.
  wire              rcy_found;
  wire [PIPE_W-1:0] rcy_idx;
  logic             rcy_valid_q;
  logic [PIPE_W-1:0] rcy_pipe_q;
  assign rcy_pipe = rcy_pipe_q;
  assign rcy_any  = rcy_valid_q && !(pk_busy && c_q.is_data && c_pipe == rcy_pipe_q)
                    && !(cut_owed && cut_pipe == rcy_pipe_q);
  inc_rr_arb #(.N(PIPES)) u_rcy_arb (
    .clk(clk), .rst(rst), .req(rcy_pend), .advance(rcy_found && !rcy_valid_q),
    .grant_valid(rcy_found), .grant(rcy_1h), .grant_idx(rcy_idx));
  wire               err_found;
  wire  [PIPE_W-1:0] err_next;
  logic              err_valid_q;
  logic [PIPE_W-1:0] err_pipe_q;
  assign err_idx = err_pipe_q;
  assign err_any = err_valid_q && !(pk_busy && c_q.is_data && c_pipe == err_pipe_q)
                   && !(cut_owed && cut_pipe == err_pipe_q);
  inc_rr_arb #(.N(PIPES)) u_err_arb (
    .clk(clk), .rst(rst), .req(err_pend_q), .advance(err_found && !err_valid_q),
    .grant_valid(err_found), .grant(err_1h), .grant_idx(err_next));
  wire [23:0] rcy_move = rcy_psn - op_ps.psn_start;
  wire        rcy_real = !rcy_move[23] && rcy_move != 24'd0;

  // table access
  // Seen a clock ahead: what is quiet stays so while a command waits.
  logic quiet_q;
  wire quiet       = tbl_seen_q && tbl_valid && lk_idle && !pk_busy && !ak_valid_q && !bind_busy
                     && adv_idle && ao_idle && tx_idle && jobs_idle && fwd_drained && !cut_owed
                     && rcy_pend == '0 && !rcy_valid_q && !err_valid_q && err_pend_q == '0;
  wire drained     = !bound_q[tbl_p] || error_q[tbl_p]
                     || (op_ps.pending == 24'd0
                         && (op_ps.mode2 ? quiesced_q[tbl_p] : op_ps.psn_start == op_ps.next_send));
  logic tbl_refuse;                   // seen with quiet

  // who goes, in this order; never in a clock in which PK commits
  always_comb begin
    op_rel = 1'b0; op_imm = 1'b0; op_rcy = 1'b0; op_err = 1'b0; op_scan = 1'b0;
    op_ack = 1'b0; op_bind = 1'b0; op_bdone = 1'b0; op_tbl = 1'b0; rcy_take = 1'b0;
    if (!fin) begin
      if (req_rel)                           op_rel = 1'b1;
      else if (req_imm)                      op_imm = 1'b1;
      else if (rcy_any) begin
        rcy_take = 1'b1;
        op_rcy   = rcy_real;
      end else if (err_any)                  op_err = 1'b1;
      else if (req_scan)                     op_scan = 1'b1;
      else if (ao_valid && job_ready && !sc_cfg_want) op_ack = 1'b1;
      else if (bind_busy && !bind_last)      op_bind = 1'b1;
      else if (bind_busy && !(pk_busy && (c_q.is_data || c_q.is_cnp) && c_pipe == bind_pipe))
                                             op_bdone = 1'b1;
      else if (quiet_q)                      op_tbl = 1'b1;
    end
  end

  always_comb begin
    if (req_imm)                 op_ep = adv_ep;
    else if (quiet_q)            op_ep = tbl_e;
    else if (req_scan)           op_ep = adv_ep;
    else                         op_ep = ao_ep;
    if (req_rel)                     op_pipe = rel_pipe;
    else if (req_imm)                op_pipe = adv_pipe;
    else if (rcy_any)                op_pipe = rcy_pipe;
    else if (err_any)                op_pipe = err_idx;
    else if (req_scan)               op_pipe = adv_pipe;
    else if (bind_busy)              op_pipe = bind_pipe;
    else                             op_pipe = tbl_p;
  end
  wire look = !tbl_valid && !tbl_seen_q && !req_rel && !req_imm && !rcy_any && !err_any && !req_scan
              && !bind_busy;
  assign cfg_pipe = quiet_q ? tbl_p : sc_cfg_want ? sc_cfg_pipe : op_in_pipe;

  // ACK to send
  assign job_valid = ao_valid && !fin && !req_rel && !req_imm && !rcy_any && !err_any && !req_scan
                     && !sc_cfg_want;
  wire [23:0] ao_psn = op_kind == inc_spec_pkg::ACK_KIND_ACK ? op_epsn - 24'd1 : op_epsn;
  logic [EP_W-1:0] job_ep_q;
  logic [23:0]     job_epsn_q, job_msn_q;
  logic [2:0]      job_kind_q;
  logic [4:0]      job_rnr_q;
  always_ff @(posedge clk) begin
    job_ep_q   <= ao_ep;
    job_epsn_q <= op_epsn;
    job_msn_q  <= op_msn;
    job_kind_q <= op_kind;
    job_rnr_q  <= cfg.rnr_code;
  end
  always_comb begin
    job        = '0;
    job.kind   = inc_pkg::TX_ACK;
    job.ep     = 12'(job_ep_q);
    job.psn    = job_kind_q == inc_spec_pkg::ACK_KIND_ACK ? job_epsn_q - 24'd1 : job_epsn_q;
    job.msn    = job_msn_q;
    case (job_kind_q)
      inc_spec_pkg::ACK_KIND_NAK:   job.syndrome = inc_spec_pkg::SYNDROME_NAK_SEQUENCE;
      inc_spec_pkg::ACK_KIND_RNR:   job.syndrome = inc_spec_pkg::SYNDROME_RNR | 8'(job_rnr_q);
      inc_spec_pkg::ACK_KIND_FATAL: job.syndrome = inc_spec_pkg::SYNDROME_NAK_OPERATION;
      default:                      job.syndrome = inc_spec_pkg::SYNDROME_ACK;
    endcase
  end

  inc_valid_walk #(.PIPES(PIPES), .BLOCKS(BLOCKS)) u_walk (
    .clk(clk), .rst(rst), .start(init_pipe && tbl_pipe.valid), .start_pipe(tbl_p),
    .start_cfg(tbl_pipe), .step(op_bind), .done(op_bdone), .busy(bind_busy), .last(bind_last),
    .pipe(bind_pipe), .slot(bind_slot), .block(bind_block));

  assign tbl_done  = op_tbl;
  assign tbl_busy  = tbl_refuse;
  assign tbl_fire  = op_tbl && tbl_write && !tbl_refuse;
  always_comb begin
    tbl_ep_rx          = '0;
    tbl_ep_rx.epsn     = op_epsn;
    tbl_ep_rx.msn      = op_msn;
    tbl_ep_rx.nak_sent = op_nak_sent;
    tbl_ep_rx.ack_kind = op_kind;
    tbl_pipe_state             = '0;
    tbl_pipe_state.psn_start   = op_ps.psn_start;
    tbl_pipe_state.next_send   = op_ps.next_send;
    tbl_pipe_state.binding     = binding_q[tbl_p];
    tbl_pipe_state.pipe_error  = error_q[tbl_p];
    tbl_pipe_state.bound       = bound_q[tbl_p];
    tbl_pipe_state.control_psn = op_ps.control_psn;
    tbl_pipe_state.incomplete  = op_ps.mode2 ? op_ps.pending[15:0] : 16'd0;
    tbl_pipe_state.quiesced    = quiesced_q[tbl_p];
    tbl_pipe_state.op          = op_ps.op;
    tbl_pipe_state.dtype       = op_ps.dtype;
  end

  // ================================================================== writes shared by PK and OP
  always_comb begin
    // acknowledgement records and nakSent
    sa_set = 1'b0; sa_force = 1'b0; sa_nak_wr = 1'b0; sa_nak = 1'b0;
    sa_ep = c_ep; sa_kind = inc_spec_pkg::ACK_KIND_ACK;
    if (f_engine && !c_mode2) begin
      case (v)
        inc_spec_pkg::VERDICT_PIPE_ERROR, inc_spec_pkg::VERDICT_MISMATCH: begin
          sa_set  = in_order_q;
          sa_kind = inc_spec_pkg::ACK_KIND_FATAL;
        end
        inc_spec_pkg::VERDICT_NO_SLOTS: begin
          sa_set  = behind_q || in_order_q;
          sa_kind = behind_q ? inc_spec_pkg::ACK_KIND_ACK : inc_spec_pkg::ACK_KIND_RNR;
          sa_nak_wr = !behind_q && in_order_q;
          sa_nak    = 1'b1;
        end
        inc_spec_pkg::VERDICT_BEHIND, inc_spec_pkg::VERDICT_DUPLICATE: sa_set = 1'b1;
        inc_spec_pkg::VERDICT_BEYOND, inc_spec_pkg::VERDICT_NO_WINDOW: begin
          sa_set    = in_order_q || !pk_nak_sent;
          sa_kind   = in_order_q ? inc_spec_pkg::ACK_KIND_RNR : inc_spec_pkg::ACK_KIND_NAK;
          sa_nak_wr = 1'b1;
          sa_nak    = 1'b1;
        end
        inc_spec_pkg::VERDICT_OK: begin
          sa_set    = !in_order_q && !pk_nak_sent;
          sa_kind   = inc_spec_pkg::ACK_KIND_NAK;
          sa_nak_wr = sa_set;
          sa_nak    = 1'b1;
        end
        default: ;
      endcase
    end else if (adv) begin
      sa_ep     = op_ep;
      sa_set    = adv_ack;
      sa_force  = 1'b1;
      sa_nak_wr = 1'b1;
      sa_nak    = 1'b0;
    end
  end

  // the pipe's words
  assign ps_wr = f_count || f_window || adv || op_rel || (rcy_take && !rcy_move[23]) || init_pipe;
  always_comb begin
    ps_wr_pipe = op_pipe;
    ps_wr_data = op_ps;
    if (fin) begin
      ps_wr_pipe = c_pipe;
      ps_wr_data = pk_ps;
      if (c_mode2) begin
        if (full_q && ahead_q) ps_wr_data.next_send = c_q.psn + 24'd1;
        if (full_q)                     ps_wr_data.pending = pk_ps.pending - 24'd1;
        else if (start_q && was_full_q) ps_wr_data.pending = pk_ps.pending + 24'd1;
      end
      if (control_q && full_q) begin
        ps_wr_data.win_start   = c_q.psn + 24'd1;
        ps_wr_data.control_psn = c_q.psn + 24'd1 + ctl_packets;
        ps_wr_data.op          = ctl_op;
        ps_wr_data.dtype       = ctl_dtype;
      end
    end else if (adv) begin
      ps_wr_data.pending   = op_ps.pending + 24'd1;
    end else if (op_rel) begin
      ps_wr_data.next_send = op_ps.next_send + 24'd1;
      ps_wr_data.pending   = op_ps.pending - 24'(rel_fan_in);
    end else if (rcy_take) begin
      ps_wr_data.psn_start = rcy_psn;
    end else if (init_pipe) begin
      ps_wr_data             = '0;
      ps_wr_data.mode2       = MODE2 != 0 && (tbl_pipe.mode == 2'd2 || MODE3 == 0);
      ps_wr_data.psn_start   = ps_wr_data.mode2 ? 24'd0 : tbl_pipe.psn0;
      ps_wr_data.next_send   = tbl_pipe.psn0;
      ps_wr_data.win_start   = tbl_pipe.psn0;
      ps_wr_data.control_psn = tbl_pipe.pinned ? 24'd0 : tbl_pipe.psn0;
      ps_wr_data.op          = tbl_pipe.op;
      ps_wr_data.dtype       = tbl_pipe.dtype;
      ps_wr_data.n_log2      = tbl_pipe.n_log2;
    end
  end

  always_ff @(posedge clk) begin
    // ---------------------------------------------------------------- PK
    fresh_q <= decide;
    fold_q  <= take && full_q && c_q.pay_beats != 16'd0;
    if (eof_ready) begin
      e_valid_q   <= eof_valid;
      e_ok_q      <= eof_verdict == inc_spec_pkg::VERDICT_OK;
      e_verdict_q <= eof_verdict;
    end
    case (pk_q)
      PK_DECIDE: begin
        pk_q         <= PK_STREAM;
        recheck_q    <= MODE2 != 0 && ak_valid_q;
        v_engine_q   <= 1'b1;
        v_q          <= d_verdict;
        v_ok_q       <= d_ok;
        few_q        <= c_q.pay_beats < 16'(c_add);
        compare_q    <= d_compare && c_q.is_data;
        control_q    <= d_control && d_ok && c_q.is_data;
        apart_q      <= c_apart && !d_control;
        if (c_apart && !d_control)
          addr_q <= addr_q + ADDR_W'({c_own_blocks, 11'd0} >> $clog2(DATA_W));
        refuse_q     <= d_refuse;
        forward_q    <= d_forward;
        replay_q     <= d_replay && c_q.is_data;
        start_q      <= d_start;
        full_q       <= d_full && !c_copy;
        was_full_q   <= !a_valid || a_full;
        ahead_q      <= !d_ahead[23];
        next_q       <= d_ahead == 24'd0;
        in_order_q   <= d_in_order;
        behind_q     <= d_behind;
        equal_q      <= {a_meta.opcode == c_meta.opcode, a_meta.plen == c_meta.plen,
                         a_meta.imm == c_meta.imm, a_meta.offset == c_meta.offset,
                         a_meta.dma_len == c_meta.dma_len};
        new_bitmap_q <= d_bitmap;
        new_meta_q   <= d_meta;
        old_valid_q  <= a_valid;
        old_tag_q    <= a_tag;
        old_bitmap_q <= a_bitmap;
        old_meta_q   <= a_meta;
        if (c_q.is_cnp) begin
          v_ok_q <= !error_q[c_pipe] && !c_bad_pipe;
          if (error_q[c_pipe])  v_q <= inc_spec_pkg::VERDICT_PIPE_ERROR;
          else if (c_bad_pipe)  v_q <= inc_spec_pkg::VERDICT_NO_SLOTS;
          else                  v_q <= inc_spec_pkg::VERDICT_OK;
          forward_q <= !error_q[c_pipe] && !c_bad_pipe;
          refuse_q  <= !error_q[c_pipe] && !c_bad_pipe && !fwd_room;
        end
      end
      PK_FOLD: if (fold_end) begin
        pk_q     <= PK_STREAM;
        folded_q <= 1'b1;
      end
      PK_STREAM: begin
        if (recheck_q && !ak_valid_q) begin
          recheck_q <= 1'b0;
          if (forward_q && !fwd_room) refuse_q <= 1'b1;
        end
        if (fold_go) pk_q <= PK_FOLD;
        if (fin || hand) begin
          pk_q    <= PK_IDLE;
          frame_q <= frame_q + 32'd1;
        end
      end
      default: ;
    endcase
    if (beat) begin
      addr_q <= addr_q + ADDR_W'(1);
      left_q <= left_q - 16'd1;
    end
    // The next frame is taken while idle or in the clock of the commit before it. What does not go
    // to a pipe needs no decision.
    if (load) begin
      pk_q    <= lk_takes_pipe ? PK_DECIDE : PK_STREAM;
      folded_q <= 1'b0;
      recheck_q <= 1'b0;
      c_q     <= lk;
      c_blk_q <= lk_blk;
      c_meta  <= lk_meta;
      c_tag_q <= 23'(lk.psn >> lk.n_log2);
      c_bit_q <= FAN_IN'(1) << lk.in_index;
      c_all_q <= ~({FAN_IN{1'b1}} << lk.fan_in);
      addr_q  <= ADDR_W'({lk_blk, 11'd0} >> $clog2(DATA_W));
      left_q  <= lk.pay_beats;
      if (!lk_takes_pipe) begin
        v_engine_q <= 1'b0;
        v_q        <= lk.verdict;
        v_ok_q     <= lk.ok;
        compare_q  <= 1'b0;
        control_q  <= 1'b0;
        apart_q    <= 1'b0;
        refuse_q   <= 1'b0;
      end
    end

    if (ack_done) ak_valid_q <= 1'b0;
    if (hand) begin
      ak_valid_q <= 1'b1;
      ak_mode2_q <= c_mode2;
      ak_q       <= c_q;
      ak_frame_q <= frame_q;
    end

    for (int i = 0; i < HIST; i++) begin
      hist_q[i] <= i + 1 < HIST && hist_q[(i + 1) % HIST];
      hist_key_q[KEY_W*i +: KEY_W] <= hist_key_q[KEY_W*((i + 1) % HIST) +: KEY_W];
      if (f_take && c_q.pay_beats != 16'd0 && c_q.pay_beats + 16'(i + 2) == 16'(c_add)) begin
        hist_q[i] <= 1'b1;
        hist_key_q[KEY_W*i +: KEY_W] <= c_blk_q;
      end
    end

    if (f_mismatch) error_q[c_pipe] <= 1'b1;

    // ---------------------------------------------------------------- OP
    if (rcy_take) rcy_valid_q <= 1'b0;
    if (!rcy_valid_q) begin
      rcy_valid_q <= rcy_found;
      rcy_pipe_q  <= rcy_idx;
    end
    if (op_err) err_valid_q <= 1'b0;
    if (!err_valid_q) begin
      err_valid_q <= err_found;
      err_pipe_q  <= err_next;
    end
    if (op_err) begin
      error_q[err_idx]    <= 1'b1;
      err_pend_q[err_idx] <= 1'b0;
    end
    if (err_valid && !error_q[err_pipe]) err_pend_q[err_pipe] <= 1'b1;
    if (op_bdone) binding_q[bind_pipe] <= 1'b0;
    if (write_ctl) quiesced_q[tbl_p] <= tbl_quiesced;
    tbl_seen_q <= tbl_valid && !tbl_done;
    quiet_q    <= quiet && !tbl_done;
    tbl_refuse <= tbl_write && tbl_id == inc_spec_pkg::TABLE_PIPE_CFG && !drained;
    if (tbl_valid) begin
      tbl_p <= tbl_index[PIPE_W-1:0];
    end else if (look) begin
      drained_q[tbl_p] <= drained;
      tbl_p            <= tbl_p + 1'b1;
    end
    if (init_pipe) begin
      bound_q[tbl_p]    <= tbl_pipe.valid;
      binding_q[tbl_p]  <= tbl_pipe.valid;
      error_q[tbl_p]    <= 1'b0;
      quiesced_q[tbl_p] <= 1'b0;
      mode2_q[tbl_p]    <= ps_wr_data.mode2;
    end

    if (rst) begin
      pk_q        <= PK_IDLE;
      e_valid_q   <= 1'b0;
      frame_q     <= '0;
      ak_valid_q  <= 1'b0;
      recheck_q   <= 1'b0;
      hist_q      <= '0;
      rcy_valid_q <= 1'b0;
      err_valid_q <= 1'b0;
      error_q     <= '0;
      err_pend_q  <= '0;
      bound_q     <= '0;
      binding_q   <= '0;
      quiesced_q  <= '0;
      mode2_q     <= '0;
      drained_q   <= '1;
      tbl_p       <= '0;
      tbl_seen_q  <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst && op_rel) assert (rel_psn == op_ps.next_send);
    if (!rst && beat) assert (pay_last == last);
    if (!rst && fwd_valid) assert (fwd_room);
    if (!rst && ack_done) assert (ak_valid_q && !fin);
    if (!rst && hand) assert (left_q == 16'd0 && !byp_dec_bypass);
`endif
  end

  // ================================================================== what happened
  assign stat_frame    = fin;
  assign stat_verdict  = f_verdict;
  always_comb begin
    stat_event = '0;
    stat_event[inc_spec_pkg::EVENT_RX_DATA]       = f_take;
    if (op_ack) begin
      case (op_kind)
        inc_spec_pkg::ACK_KIND_NAK:   stat_event[inc_spec_pkg::EVENT_TX_NAK]   = 1'b1;
        inc_spec_pkg::ACK_KIND_RNR:   stat_event[inc_spec_pkg::EVENT_TX_RNR]   = 1'b1;
        inc_spec_pkg::ACK_KIND_FATAL: stat_event[inc_spec_pkg::EVENT_TX_FATAL] = 1'b1;
        default:                      stat_event[inc_spec_pkg::EVENT_TX_ACK]   = 1'b1;
      endcase
    end
    stat_event[inc_spec_pkg::EVENT_RX_CNP]        = f_ok && c_q.is_cnp;
    stat_event[inc_spec_pkg::EVENT_REPLAY]        = fwd_valid && replay_q;
    stat_event[inc_spec_pkg::EVENT_WINDOW_OPEN]   = f_window;
    stat_event[inc_spec_pkg::EVENT_ADVANCE]       = adv;
    stat_event[inc_spec_pkg::EVENT_RELEASE]       = op_rel;
    stat_event[inc_spec_pkg::EVENT_RECYCLE]       = op_rcy;
    stat_event[inc_spec_pkg::EVENT_SLOT_START]    = f_take && start_q && !c_copy;
    stat_event[inc_spec_pkg::EVENT_SLOT_COMPLETE] = f_full;
    stat_event[inc_spec_pkg::EVENT_PIPE_ERROR]    = f_mismatch || op_err;
    stat_event[inc_spec_pkg::EVENT_BIND_DONE]     = op_bdone;
    stat_event[inc_spec_pkg::EVENT_TABLE_WRITE]   = tbl_fire;
    stat_event[inc_spec_pkg::EVENT_TABLE_REFUSED] = op_tbl && tbl_refuse;
  end

  assign fault_valid = f_mismatch;
  assign fault_ep    = 12'(c_ep);
  assign fault_pipe  = 8'(c_pipe);
  assign fault_psn   = c_q.psn;
  always_comb begin
    fault_kind   = inc_spec_pkg::ERROR_KIND_MISMATCH_DMA_LENGTH;
    fault_got    = c_meta.dma_len;
    fault_wanted = old_meta_q.dma_len;
    if (control_q) begin
      fault_kind   = ctl_kind;
      fault_got    = ctl_got;
      fault_wanted = ctl_wanted;
    end else if (!equal_q[4]) begin
      fault_kind   = inc_spec_pkg::ERROR_KIND_MISMATCH_OPCODE;
      fault_got    = 32'(c_meta.opcode);
      fault_wanted = 32'(old_meta_q.opcode);
    end else if (!equal_q[3]) begin
      fault_kind   = inc_spec_pkg::ERROR_KIND_MISMATCH_LENGTH;
      fault_got    = 32'(c_meta.plen);
      fault_wanted = 32'(old_meta_q.plen);
    end else if (!equal_q[2]) begin
      fault_kind   = inc_spec_pkg::ERROR_KIND_MISMATCH_IMM;
      fault_got    = c_meta.imm;
      fault_wanted = old_meta_q.imm;
    end else if (!equal_q[1]) begin
      fault_kind   = inc_spec_pkg::ERROR_KIND_MISMATCH_OFFSET;
      fault_got    = c_meta.offset[31:0];
      fault_wanted = old_meta_q.offset[31:0];
    end
  end

  // Who takes ACKs writes their records.
  assign ret_valid  = fin || adv || op_rel || op_rcy || op_err || op_ack
                      || op_bind || op_bdone || init_ep || init_pipe || write_ctl
                      || write_list;

  // the values after the event
  logic [7:0]        r_cause, r_verdict;
  logic [31:0]       r_frame;
  logic [PIPE_W-1:0] r_pipe;
  logic [EP_W-1:0]   r_ep;
  logic              r_has_pipe, r_has_ep, g_rx, g_tx, g_pipe, g_slot, r_valid, r_new, r_nak;
  logic [23:0]       r_psn, r_slot, r_epsn, r_msn;
  logic [2:0]        r_kind;
  always_comb begin
    r_cause = inc_spec_pkg::CAUSE_TABLE_WRITE; r_verdict = inc_spec_pkg::VERDICT_OK;
    r_frame = '0; r_pipe = op_pipe; r_ep = op_ep; r_psn = '0; r_slot = '0;
    g_rx = 1'b0; g_tx = 1'b0; g_pipe = 1'b0; g_slot = 1'b0;
    r_has_pipe = 1'b0; r_has_ep = 1'b0; r_new = 1'b0;
    r_epsn = fin ? pk_epsn : op_epsn;
    r_msn  = fin ? pk_msn : op_msn;
    r_nak  = sa_nak_wr ? sa_nak : fin ? pk_nak_sent : op_nak_sent;
    r_kind = sa_set ? sa_new_kind : fin ? pk_kind : op_kind;
    if (fin) begin
      r_cause   = !f_engine ? inc_spec_pkg::CAUSE_DROP
                  : c_q.is_cnp ? inc_spec_pkg::CAUSE_CNP : inc_spec_pkg::CAUSE_DATA;
      r_verdict = f_verdict;
      r_frame   = frame_q;
      r_pipe = c_pipe; r_ep = c_ep;
      r_has_pipe = f_engine; r_has_ep = f_engine;
      if (f_engine && c_q.is_data) begin
        r_psn  = c_q.psn;
        r_slot = inc_pkg::slot_of(c_q.psn, c_q.n_log2);
        g_rx   = 1'b1;
        g_pipe = 1'b1;
        g_slot = !c_copy && (v == inc_spec_pkg::VERDICT_OK || v == inc_spec_pkg::VERDICT_DUPLICATE
                             || v == inc_spec_pkg::VERDICT_MISMATCH);
        r_new  = v == inc_spec_pkg::VERDICT_OK;
      end
    end else if (adv) begin
      r_cause = inc_spec_pkg::CAUSE_ADVANCE;
      r_pipe = adv_pipe; g_rx = 1'b1; r_has_pipe = 1'b1; r_has_ep = 1'b1;
      r_psn  = op_epsn; r_slot = inc_pkg::slot_of(op_epsn, adv_n_log2);
      r_epsn = adv_epsn; r_msn = adv_msn;
    end else if (op_rel) begin
      r_cause = inc_spec_pkg::CAUSE_RELEASE;
      g_pipe = 1'b1; r_has_pipe = 1'b1;
      r_psn  = rel_psn; r_slot = inc_pkg::slot_of(rel_psn, rel_n_log2);
    end else if (op_rcy) begin
      r_cause = inc_spec_pkg::CAUSE_RECYCLE;
      g_pipe = 1'b1; r_has_pipe = 1'b1;
      r_psn  = rcy_psn; r_slot = inc_pkg::slot_of(rcy_psn, op_ps.n_log2);
    end else if (op_err) begin
      r_cause = inc_spec_pkg::CAUSE_ERROR;
      g_pipe = 1'b1; r_has_pipe = 1'b1;
    end else if (op_ack) begin
      r_cause = inc_spec_pkg::CAUSE_ACK_OUT;
      r_frame = job_number;
      r_pipe = op_in_pipe; g_rx = 1'b1; r_has_pipe = 1'b1; r_has_ep = 1'b1;
      r_psn  = ao_psn; r_slot = inc_pkg::slot_of(ao_psn, cfg.n_log2);
      r_kind = inc_spec_pkg::ACK_KIND_NONE;
    end else if (op_bind) begin
      r_cause = inc_spec_pkg::CAUSE_BIND_STEP;
      r_pipe = bind_pipe; g_pipe = 1'b1; g_slot = 1'b1; r_has_pipe = 1'b1;
      r_slot = bind_slot;
    end else if (op_bdone) begin
      r_cause = inc_spec_pkg::CAUSE_BIND_DONE;
      r_pipe = bind_pipe; g_pipe = 1'b1; r_has_pipe = 1'b1;
    end else if (tbl_id == inc_spec_pkg::TABLE_EP_CFG) begin
      g_rx = 1'b1; g_tx = 1'b1; r_has_ep = 1'b1;
      r_epsn = tbl_ep.psn0; r_msn = '0; r_nak = 1'b0; r_kind = inc_spec_pkg::ACK_KIND_NONE;
    end else if (write_list) begin
      r_has_ep = 1'b1;
      r_slot   = 24'(tbl_id);
      r_psn    = 24'(tbl_index);
    end else begin
      r_pipe = tbl_p; g_pipe = 1'b1; r_has_pipe = 1'b1;
      if (tbl_id == inc_spec_pkg::TABLE_PIPE_CTL) begin
        r_slot = 24'(inc_spec_pkg::TABLE_PIPE_CTL);
        r_psn  = 24'(tbl_quiesced);
      end
    end
    r_valid = op_bind ? 1'b0 : r_new || old_valid_q;
  end

  inc_pkg::pipe_word_t r_ps;
  assign r_ps = ps_wr ? ps_wr_data : fin ? pk_ps : op_ps;
  inc_pipe_record #(.FAN_IN(FAN_IN)) u_record (
    .cause(r_cause), .verdict(r_verdict), .frame(r_frame), .pipe(8'(r_pipe)),
    .ep(write_list ? tbl_list_ep : 12'(r_ep)),
    .has_pipe(r_has_pipe), .has_ep(r_has_ep), .psn(r_psn), .slot(r_slot),
    .g_rx(g_rx), .g_tx(g_tx), .g_pipe(g_pipe), .g_slot(g_slot),
    .epsn(r_epsn), .msn(r_msn), .nak_sent(r_nak), .ack_kind(r_kind), .psn0(tbl_ep.psn0),
    .psn_start(r_ps.psn_start), .next_send(r_ps.next_send), .control_psn(r_ps.control_psn),
    .pipe_error(!init_pipe && (error_q[r_pipe] || f_mismatch || op_err)),
    .slot_valid(r_valid), .tag(op_bind ? 23'd0 : r_new ? c_tag_q : old_tag_q),
    .bitmap(op_bind ? '0 : r_new ? new_bitmap_q : old_bitmap_q), .rec(ret_rec));

  initial begin
    if ($bits(pk_ps) != inc_pkg::PIPE_WORD_W)
      $error("inc_pkg::PIPE_WORD_W is not $bits of pipe_word_t");
  end

  wire unused_ok = &{1'b0, old_meta_q, tbl_ep, tbl_pipe, rcy_1h, err_1h, cfg, lk, c_q, c_meta,
                     tbl_index, next_ps, ak_q, pk_ps, op_ps, r_ps, d_ahead, d_since, rcy_move,
                     adv_n_log2, old_valid_q, CUT_THROUGH != 0};

endmodule

`default_nettype wire
