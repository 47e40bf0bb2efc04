// Pipe: the slots of every pipe and the windows over them; sequences everything that arrives.
//
// Two sequencers share the state. PK takes one frame at a time: decide (CheckDuplicate) on the
// state left by the frame before, stream the payload into the hidden copy of its slot
// (AggregateData), commit when its end-of-frame verdict is known: a frame that turns out bad
// leaves no trace. OP does, in the clocks in which PK does not commit: advance, release, recycle,
// error, ACK out, bind, table writes. So at most one of them changes state in a clock, and the
// record port is one.
//
// Streams:       lk_* frames after lookup, pay_* their payload, eof_* their final wire verdict,
//                in order; agg_* beats to AggregateData; ack_* ACK frames to Retransmission;
//                job_* ACKs to send.
// Latency:       PK: 1 clock to read the slot (the clock of the commit before, if there is no
//                pause), 1 to decide, then one clock per beat; commit with the last beat.
// Throughput:    a data frame takes its beats + 1 clocks, at least 2; an ACK takes 2.
// Back-pressure: only its own work delays a frame; nothing that leaves the engine can (ACKs wait
//                in their records, results in their slots, bypass frames that do not fit are
//                dropped and counted).
// Interlocks:    a frame waits until nothing that changes its verdict is under way for its own
//                endpoint or pipe (advance scan, recycle, error, bind), and these wait while such
//                a frame is inside.
// Reset:         no pipe bound. Slots are unknown until bound (valid walk).
// Parameters:    ENDPOINTS, PIPES powers of two; BLOCKS blocks of 256 bytes in the pool (power of
//                two); FAN_IN 2..64 most ins of a pipe; DATA_W 64..2048; MODE2, MODE3,
//                CUT_THROUGH 0 or 1: left out or built in.
// Source:        protocol.md 4, 6, 9; docs/architecture.md "Events of Mode-III".
`default_nettype none

module inc_pipe #(
  parameter int DATA_W    = 512,
  parameter int ENDPOINTS = 64,
  parameter int PIPES     = 16,
  parameter int BLOCKS    = 512,
  parameter int FAN_IN    = 64,
  parameter int MODE2     = 0,
  parameter int MODE3     = 1,
  parameter int CUT_THROUGH = 0,
  parameter int EP_W      = $clog2(ENDPOINTS),
  parameter int PIPE_W    = $clog2(PIPES),
  parameter int BLK_W     = $clog2(BLOCKS),
  parameter int BPB       = 2048 / DATA_W,
  parameter int ADDR_W    = $clog2(BLOCKS * BPB)
) (
  input  wire                          clk,
  input  wire                          rst,

  // frames
  input  wire                          lk_valid,
  output wire                          lk_ready,
  input  inc_pkg::lookup_t        lk,
  input  wire                          lk_idle,
  output wire                          lk_hold,
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
  output wire                          agg_valid,
  output wire                          agg_start,
  output wire                          agg_bank,
  output wire [ADDR_W-1:0]             agg_addr,
  output wire [DATA_W-1:0]             agg_data,

  // ReceiveAck / Retransmission
  output wire                          ack_soon,        // an ACK is offered from the next clock on
  output wire                          ack_valid,
  output wire [EP_W-1:0]               ack_ep,
  output wire [PIPE_W-1:0]             ack_pipe,
  output wire [23:0]                   ack_psn,
  output wire [7:0]                    ack_syndrome,
  output wire [31:0]                   ack_frame,
  input  wire                          ack_done,
  input  wire [7:0]                    ack_verdict,
  output wire [PIPES-1:0]              live,
  output wire [PIPES-1:0]              pipe_error,
  output wire [24*PIPES-1:0]           next_send,
  input  wire                          min_valid,
  input  wire [PIPE_W-1:0]             min_pipe,
  input  wire [23:0]                   min_psn,
  input  wire                          err_valid,
  input  wire [PIPE_W-1:0]             err_pipe,

  // ACKs to send
  output wire                          job_valid,
  input  wire                          job_ready,
  output inc_pkg::txjob_t              job,
  input  wire [31:0]                   job_number,
  input  wire                          job_granted,
  input  wire                          job_done,

  // slot state for the sender
  input  wire                          tx_slot_en,
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

  typedef struct packed {
    logic                valid;
    logic [23:0]         tag;
    logic [FAN_IN-1:0]   bitmap;
    logic [6:0]          degree;
    logic                flip;
    logic [inc_pkg::SLOT_META_W-1:0] meta;    // slot_meta_t (native yosys: no nested types)
  } slot_t;

  typedef enum logic [1:0] {PK_IDLE, PK_DECIDE, PK_STREAM} pk_e;
  typedef enum logic [1:0] {SC_IDLE, SC_READ, SC_TAKE, SC_FIRE} sc_e;

  // ================================================================== state
  logic [24*PIPES-1:0] psn_start_q, next_send_q;
  logic [5*PIPES-1:0]  rec_n_log2_q;  // for the records only
  logic [PIPES-1:0]    error_q, bound_q, binding_q, err_pend_q;
  logic [24*PIPES-1:0] ahead_q;       // sum over the ins of (ePSN - nextSend): 0 when drained
  logic [ENDPOINTS-1:0] ooo_q;        // something is kept beyond ePSN, up to hi
  logic [ENDPOINTS-1:0] scan_q;       // an advance may be possible
  assign live       = bound_q & ~binding_q;
  assign pipe_error = error_q;
  assign next_send  = next_send_q;

  pk_e              pk_q;
  inc_pkg::lookup_t c_q;              // the frame inside
  logic [31:0]      frame_q;          // its number on s_axis_rx
  wire [EP_W-1:0]   c_ep   = c_q.ep[EP_W-1:0];
  wire [PIPE_W-1:0] c_pipe = c_q.pipe[PIPE_W-1:0];
  wire              pk_busy = pk_q != PK_IDLE;

  // ================================================================== forward declarations
  logic              op_adv, op_rel, op_rcy, op_err, op_ack, op_bind, op_bdone, op_tbl, op_scan_end;
  logic              imm_valid_q;
  logic [EP_W-1:0]   imm_ep_q;
  sc_e               sc_q;
  logic [EP_W-1:0]   sc_ep_q;
  logic              bind_q;
  logic [PIPE_W-1:0] bind_pipe_q;
  logic [23:0]       bind_idx_q;
  logic [4:0]        bind_n_log2_q;
  logic [3:0]        bind_mtu_log2_q;
  logic [15:0]       bind_base_q;
  wire               bind_last;
  wire [PIPES-1:0]   rcy_pend;
  wire               fin;             // PK commits in this clock
  wire               f_take;          // and its contribution is taken
  logic              in_order_q;

  // ================================================================== ePSN, MSN, ackCount
  localparam int RX_W = 24 + 24 + 16;
  logic            rx_wr;
  logic [EP_W-1:0] rx_wr_ep;
  logic [23:0]     rx_wr_epsn, rx_wr_msn;
  logic [15:0]     rx_wr_cnt;
  logic [EP_W-1:0] op_ep;
  wire [23:0]      pk_epsn, pk_msn, op_epsn, op_msn, sc_epsn;
  wire [15:0]      op_cnt;
  wire [63:0]      rx_rest;           // parts of the read ports that are not used
  inc_lutram #(.DATA_W(RX_W), .DEPTH(ENDPOINTS), .R(3)) u_rx (
    .clk(clk), .wr_en(rx_wr), .wr_addr(rx_wr_ep), .wr_data({rx_wr_epsn, rx_wr_msn, rx_wr_cnt}),
    .rd_addr({sc_ep_q, op_ep, c_ep}),
    .rd_data({sc_epsn, rx_rest[39:0], op_epsn, op_msn, op_cnt, pk_epsn, pk_msn, rx_rest[55:40]}));
  assign rx_rest[63:56] = 8'd0;

  // where an endpoint's data belongs, for the events that start from an endpoint
  wire [7:0] sc_in_pipe, op_in_pipe;
  wire [5:0] sc_in_index, op_in_index;
  inc_lutram #(.DATA_W(14), .DEPTH(ENDPOINTS), .R(2)) u_in (
    .clk(clk), .wr_en(tbl_fire && tbl_id == inc_spec_pkg::TABLE_EP_CFG),
    .wr_addr(tbl_index[EP_W-1:0]), .wr_data({tbl_ep.in_pipe, tbl_ep.in_index}),
    .rd_addr({sc_ep_q, op_ep}),
    .rd_data({sc_in_pipe, sc_in_index, op_in_pipe, op_in_index}));

  // highest PSN kept beyond a gap
  wire [23:0] pk_hi, op_hi;
  wire        hi_wr;
  inc_lutram #(.DATA_W(24), .DEPTH(ENDPOINTS), .R(2)) u_hi (
    .clk(clk), .wr_en(hi_wr), .wr_addr(c_ep), .wr_data(c_q.psn),
    .rd_addr({op_ep, c_ep}), .rd_data({op_hi, pk_hi}));

  // ================================================================== slots
  logic              slot_wr;
  logic [BLK_W-1:0]  slot_wr_blk;
  slot_t             slot_wr_data;
  wire [23:0]        lk_idx  = inc_pkg::slot_of(lk.psn, lk.n_log2);
  wire [BLK_W-1:0]   lk_blk  = lk.base_block[BLK_W-1:0] + BLK_W'(lk_idx << (lk.mtu_log2 - 4'd8));
  logic [BLK_W-1:0]  c_blk_q;
  logic [BLK_W-1:0]  sc_blk;
  wire               load;
  wire               sc_rd;
  slot_t             slot_a, slot_b, sc_slot_q, slot_new_q, slot_old_q;
  // forwarding: the next frame may read the slot in the clock in which this one commits
  inc_ram_1r1w #(.DATA_W($bits(slot_wr_data)), .DEPTH(BLOCKS), .FORWARD(1)) u_slot_a (
    .clk(clk), .wr_en(slot_wr), .wr_addr(slot_wr_blk), .wr_data(slot_wr_data),
    .rd_en(load), .rd_addr(lk_blk), .rd_data(slot_a));
  inc_ram_1r1w #(.DATA_W($bits(slot_wr_data)), .DEPTH(BLOCKS)) u_slot_b (
    .clk(clk), .wr_en(slot_wr), .wr_addr(slot_wr_blk), .wr_data(slot_wr_data),
    .rd_en(tx_slot_en || sc_rd), .rd_addr(tx_slot_en ? tx_slot_block : sc_blk),
    .rd_data(slot_b));
  inc_pkg::slot_meta_t c_meta, a_meta, d_meta, new_meta, old_meta, sc_meta;
  assign c_meta       = c_q.meta;
  assign a_meta       = slot_a.meta;
  assign new_meta     = slot_new_q.meta;
  assign old_meta     = slot_old_q.meta;
  assign sc_meta      = sc_slot_q.meta;
  assign tx_slot_meta = slot_b.meta;
  assign tx_slot_flip = slot_b.flip;

  // how many ins have advanced past the slot
  logic             passed_wr;
  logic [BLK_W-1:0] passed_blk;
  logic [6:0]       passed_wr_data;
  logic [BLK_W-1:0] adv_blk;
  wire  [6:0]       passed;
  inc_lutram #(.DATA_W(7), .DEPTH(BLOCKS)) u_passed (
    .clk(clk), .wr_en(passed_wr), .wr_addr(passed_blk), .wr_data(passed_wr_data),
    .rd_addr(adv_blk), .rd_data(passed));

  // ================================================================== SendAck
  logic            sa_set, sa_force, sa_nak_wr, sa_nak;
  logic [EP_W-1:0] sa_ep;
  logic [2:0]      sa_kind;
  wire  [2:0]      sa_new_kind, op_kind, pk_kind;
  wire             op_nak_sent, pk_nak_sent;
  wire             ao_valid;
  wire [EP_W-1:0]  ao_ep;
  wire             init_ep = tbl_fire && tbl_id == inc_spec_pkg::TABLE_EP_CFG;
  wire             init_pipe = tbl_fire && tbl_id == inc_spec_pkg::TABLE_PIPE_CFG;
  inc_send_ack #(.ENDPOINTS(ENDPOINTS)) u_send_ack (
    .clk(clk), .rst(rst),
    .set_valid(sa_set), .set_ep(sa_ep), .set_kind(sa_kind), .set_force(sa_force),
    .new_kind(sa_new_kind),
    .nak_wr(sa_nak_wr), .nak_ep(sa_ep), .nak_value(sa_nak),
    .clr_valid(op_ack), .clr_ep(op_ep),
    .init_valid(init_ep), .init_ep(tbl_index[EP_W-1:0]),
    .rd_a_ep(c_ep), .rd_a_nak_sent(pk_nak_sent), .rd_a_kind(pk_kind),
    .rd_b_ep(op_ep), .rd_b_nak_sent(op_nak_sent), .rd_b_kind(op_kind),
    .sel_valid(ao_valid), .sel_ep(ao_ep), .sel_next(op_ack));

  // ================================================================== RecycleBuffer
  wire [PIPE_W-1:0] rcy_pipe;
  wire [23:0]       rcy_psn;
  wire              jobs_idle;
  logic             rcy_take;
  inc_recycle_buffer #(.PIPES(PIPES)) u_recycle (
    .clk(clk), .rst(rst),
    .min_valid(min_valid), .min_pipe(min_pipe), .min_psn(min_psn),
    .job_granted(job_granted), .job_done(job_done),
    .init_valid(init_pipe), .init_pipe(tbl_index[PIPE_W-1:0]), .init_psn(tbl_pipe.psn0),
    .pub_pipe(rcy_pipe), .pub_psn(rcy_psn), .pend(rcy_pend), .jobs_idle(jobs_idle),
    .take_valid(rcy_take), .take_pipe(rcy_pipe));

  // ================================================================== PK: one frame at a time
  wire lk_takes_pipe = lk.verdict == inc_spec_pkg::VERDICT_OK && lk.is_data;
  wire [EP_W-1:0]   lk_ep   = lk.ep[EP_W-1:0];
  wire [PIPE_W-1:0] lk_pipe = lk.pipe[PIPE_W-1:0];
  wire lk_clash = lk_takes_pipe
                  && (scan_q[lk_ep] || (imm_valid_q && imm_ep_q == lk_ep)
                      || rcy_pend[lk_pipe] || err_pend_q[lk_pipe]
                      || (bind_q && bind_last && bind_pipe_q == lk_pipe)
                      || (fin && f_take && in_order_q && c_ep == lk_ep)
                      || (fin && lk.pay_beats == 16'd1 && c_blk_q == lk_blk));
  wire   pk_free  = (pk_q == PK_IDLE || fin) && !lk_clash;
  assign load     = lk_valid && pk_free;
  assign lk_ready = pk_free;
  assign ack_soon = load && lk.is_ack;
  assign lk_hold  = tbl_valid;

  // decide
  wire        c_bit = slot_a.bitmap[c_q.in_index[$clog2(FAN_IN)-1:0]];
  wire        meta_equal = a_meta.opcode == c_meta.opcode && a_meta.plen == c_meta.plen
                           && a_meta.imm == c_meta.imm;
  wire [7:0]  d_verdict;
  wire        d_start, d_in_order, d_behind;
  inc_check_duplicate u_check (
    .psn(c_q.psn), .psn_start(psn_start_q[24*c_pipe +: 24]), .epsn(pk_epsn), .n_log2(c_q.n_log2),
    .pipe_error(error_q[c_pipe]), .binding(!bound_q[c_pipe] || binding_q[c_pipe]),
    .slot_valid(slot_a.valid), .slot_tag(slot_a.tag), .slot_bit(c_bit), .meta_equal(meta_equal),
    .verdict(d_verdict), .start(d_start), .in_order(d_in_order), .behind(d_behind));

  slot_t d_slot;
  always_comb begin
    d_slot = slot_a;
    d_meta = a_meta;
    d_slot.flip = !slot_a.flip;
    if (d_start) begin
      d_slot.valid  = 1'b1;
      d_slot.tag    = c_q.psn >> c_q.n_log2;
      d_slot.bitmap = FAN_IN'(1) << c_q.in_index;
      d_slot.degree = 7'd1;
      d_meta        = c_meta;
    end else begin
      d_slot.bitmap       = slot_a.bitmap | (FAN_IN'(1) << c_q.in_index);
      d_slot.degree       = slot_a.degree + 7'd1;
      d_meta.se           = a_meta.se | c_meta.se;
      d_meta.ce           = a_meta.ce | c_meta.ce;
      d_meta.ack_req      = a_meta.ack_req | c_meta.ack_req;
    end
    d_slot.meta = d_meta;
  end

  logic [7:0]        v_q;             // verdict but for the end of the frame
  logic              v_engine_q;      // it is the pipe's own verdict
  logic              start_q, behind_q;
  logic [ADDR_W-1:0] addr_q;
  logic [15:0]       left_q;
  logic              take_q;          // payload goes into the slot

  wire stream   = pk_q == PK_STREAM;
  wire last     = left_q <= 16'd1;
  wire eof_ok   = eof_verdict == inc_spec_pkg::VERDICT_OK;
  wire to_ack   = c_q.is_ack && eof_ok && v_q == inc_spec_pkg::VERDICT_OK;
  wire can_fin  = stream && eof_valid && byp_head_valid && !imm_valid_q;
  wire end_ok   = can_fin && (!to_ack || ack_done);
  assign ack_valid    = can_fin && to_ack && left_q == 16'd0;
  assign ack_ep       = c_ep;
  assign ack_pipe     = c_pipe;
  assign ack_psn      = c_q.psn;
  assign ack_syndrome = c_q.syndrome;
  assign ack_frame    = frame_q;
  assign pay_ready    = stream && left_q != 16'd0 && (!last || end_ok);
  wire   beat         = pay_valid && pay_ready;
  assign fin          = end_ok && last && (left_q == 16'd0 || pay_valid);
  assign eof_ready    = fin;

  assign agg_valid = beat && take_q;
  assign agg_start = start_q;
  assign agg_bank  = slot_old_q.flip;
  assign agg_addr  = addr_q;
  assign agg_data  = pay_data;

  logic [7:0] f_verdict;
  wire [7:0]  f_verdict_raw = !eof_ok ? eof_verdict : to_ack ? ack_verdict : v_q;
  wire        is_byp = inc_spec_pkg::verdict_is_bypass(f_verdict_raw);
  always_comb begin
    f_verdict = f_verdict_raw;
    if (is_byp && !byp_head_fits) f_verdict = inc_spec_pkg::VERDICT_BYPASS_FULL;
  end
  assign byp_dec_valid  = fin;
  assign byp_dec_bypass = is_byp && byp_head_fits;

  wire f_engine = fin && eof_ok && v_engine_q;           // a data frame that reached its pipe
  assign f_take = f_engine && v_q == inc_spec_pkg::VERDICT_OK;
  wire f_mismatch = f_engine && v_q == inc_spec_pkg::VERDICT_MISMATCH;
  wire hi_ahead_sign;
  wire [23:0] hi_ahead = c_q.psn - pk_hi;
  assign hi_ahead_sign = hi_ahead[23];
  assign hi_wr = f_take && !in_order_q && (!ooo_q[c_ep] || !hi_ahead_sign);

  // ================================================================== OP: everything else
  // advance, right after the commit of an in-order frame
  logic [23:0]       imm_psn_q;
  logic [PIPE_W-1:0] imm_pipe_q;
  logic [BLK_W-1:0]  imm_blk_q;
  logic [4:0]        imm_n_log2_q;
  logic              imm_last_q, imm_ackreq_q, imm_full_q;
  logic [6:0]        imm_fan_in_q;
  logic [15:0]       imm_every_q;
  // release, right after the advance that completes it
  logic              rel_q;
  logic [PIPE_W-1:0] rel_pipe_q;
  logic [23:0]       rel_psn_q;
  logic [6:0]        rel_fan_in_q;
  logic [4:0]        rel_n_log2_q;

  // scan: may an in with kept frames advance further?
  wire                 sc_arb_valid;
  wire [ENDPOINTS-1:0] sc_arb_onehot;
  wire [EP_W-1:0]      sc_arb_idx;
  logic [BLK_W-1:0]    sc_blk_q;
  inc_spec_pkg::pipe_cfg_t sc_cfg_q;
  wire sc_load = sc_q == SC_IDLE && sc_arb_valid;
  inc_rr_arb #(.N(ENDPOINTS)) u_sc_arb (
    .clk(clk), .rst(rst), .req(scan_q), .advance(sc_load),
    .grant_valid(sc_arb_valid), .grant(sc_arb_onehot), .grant_idx(sc_arb_idx));
  wire [23:0] sc_slot_idx = inc_pkg::slot_of(sc_epsn, cfg.n_log2);
  assign sc_blk = cfg.base_block[BLK_W-1:0] + BLK_W'(sc_slot_idx << (cfg.mtu_log2 - 4'd8));
  assign sc_rd  = sc_q == SC_READ && !tx_slot_en;
  wire sc_hit   = sc_slot_q.valid && sc_slot_q.tag == (sc_epsn >> sc_cfg_q.n_log2)
                  && sc_slot_q.bitmap[sc_in_index[$clog2(FAN_IN)-1:0]];
  // The slot changed under the scan: written since it was read, or in the clock of the read.
  wire sc_stale = f_take && c_blk_q == (sc_rd ? sc_blk : sc_blk_q);

  // recycle and error: one candidate pipe each
  wire [PIPES-1:0] pk_pipe_mask = pk_busy && c_q.is_data ? PIPES'(1) << c_pipe : '0;
  wire [PIPES-1:0] rcy_1h, err_1h;
  wire             rcy_any, err_any;
  wire [PIPE_W-1:0] err_idx;
  inc_rr_arb #(.N(PIPES)) u_rcy_arb (
    .clk(clk), .rst(rst), .req(rcy_pend & ~pk_pipe_mask), .advance(rcy_take),
    .grant_valid(rcy_any), .grant(rcy_1h), .grant_idx(rcy_pipe));
  inc_rr_arb #(.N(PIPES)) u_err_arb (
    .clk(clk), .rst(rst), .req(err_pend_q & ~pk_pipe_mask), .advance(op_err),
    .grant_valid(err_any), .grant(err_1h), .grant_idx(err_idx));
  wire [23:0] rcy_move = rcy_psn - psn_start_q[24*rcy_pipe +: 24];
  wire        rcy_real = !rcy_move[23] && rcy_move != 24'd0;

  // table access
  wire [PIPE_W-1:0] tbl_p   = tbl_index[PIPE_W-1:0];
  wire quiet       = tbl_valid && lk_idle && !pk_busy && !imm_valid_q && !rel_q && !bind_q
                     && !ao_valid       // an ACK about to be sent needs op_ep for itself
                     && scan_q == '0 && sc_q == SC_IDLE && tx_idle && jobs_idle
                     && rcy_pend == '0 && err_pend_q == '0;
  wire drained     = !bound_q[tbl_p] || error_q[tbl_p]
                     || (psn_start_q[24*tbl_p +: 24] == next_send_q[24*tbl_p +: 24]
                         && ahead_q[24*tbl_p +: 24] == 24'd0);
  wire tbl_refuse  = tbl_write && tbl_id == inc_spec_pkg::TABLE_PIPE_CFG && !drained;

  // who goes, in this order; never in a clock in which PK commits
  always_comb begin
    op_rel = 1'b0; op_adv = 1'b0; op_rcy = 1'b0; op_err = 1'b0; op_scan_end = 1'b0;
    op_ack = 1'b0; op_bind = 1'b0; op_bdone = 1'b0; op_tbl = 1'b0; rcy_take = 1'b0;
    if (!fin) begin
      if (rel_q)                             op_rel = 1'b1;
      else if (imm_valid_q)                  op_adv = 1'b1;
      else if (rcy_any) begin
        rcy_take = 1'b1;
        op_rcy   = rcy_real;
      end else if (err_any)                  op_err = 1'b1;
      else if (sc_q == SC_FIRE) begin
        op_adv      = sc_hit;
        op_scan_end = !sc_hit;
      end
      else if (ao_valid && job_ready && sc_q != SC_READ) op_ack = 1'b1;
      else if (bind_q && !bind_last)         op_bind = 1'b1;
      else if (bind_q && !(pk_busy && c_q.is_data && c_pipe == bind_pipe_q))
                                             op_bdone = 1'b1;
      else if (quiet)                        op_tbl = 1'b1;
    end
  end
  wire adv_scan = op_adv && !imm_valid_q;

  // the operands of an advance
  wire [PIPE_W-1:0] adv_pipe  = imm_valid_q ? imm_pipe_q : sc_in_pipe[PIPE_W-1:0];
  wire              adv_last  = imm_valid_q ? imm_last_q
                            : inc_spec_pkg::opcode_is_last({4'd0, sc_meta.opcode});
  wire              adv_areq  = imm_valid_q ? imm_ackreq_q : sc_meta.ack_req;
  wire [6:0]        adv_fan   = imm_valid_q ? imm_fan_in_q : sc_cfg_q.fan_in;
  wire [15:0]       adv_every = imm_valid_q ? imm_every_q : sc_cfg_q.ack_every;
  wire [4:0]        adv_nlog  = imm_valid_q ? imm_n_log2_q : sc_cfg_q.n_log2;
  wire              adv_full  = imm_valid_q ? imm_full_q : sc_slot_q.degree == sc_cfg_q.fan_in;
  wire [6:0]        adv_passed = passed + 7'd1;
  wire              adv_rel   = adv_full && adv_passed == adv_fan;
  wire [23:0]       adv_epsn  = op_epsn + 24'd1;
  wire [23:0]       adv_kept  = op_hi - adv_epsn;           // >= 0: more is kept beyond
  wire [16:0]       adv_cnt   = {1'b0, op_cnt} + 17'd1;
  wire              adv_ack   = op_kind != inc_spec_pkg::ACK_KIND_NONE
                                || adv_cnt >= {1'b0, adv_every} || adv_areq;
  assign adv_blk = imm_valid_q ? imm_blk_q : sc_blk_q;

  always_comb begin
    if (imm_valid_q)             op_ep = imm_ep_q;
    else if (tbl_valid && quiet) op_ep = tbl_index[EP_W-1:0];
    else if (sc_q == SC_FIRE)    op_ep = sc_ep_q;
    else                         op_ep = ao_ep;
  end
  assign cfg_pipe = (tbl_valid && quiet) ? tbl_p
                  : (sc_q == SC_READ)    ? sc_in_pipe[PIPE_W-1:0] : op_in_pipe[PIPE_W-1:0];

  // ACK to send
  assign job_valid = ao_valid && !fin && !rel_q && !imm_valid_q && !rcy_any && !err_any
                     && sc_q != SC_FIRE && sc_q != SC_READ;
  wire [23:0] ao_psn = op_kind == inc_spec_pkg::ACK_KIND_ACK ? op_epsn - 24'd1 : op_epsn;
  always_comb begin
    job        = '0;
    job.kind   = inc_pkg::TX_ACK;
    job.ep     = 12'(ao_ep);
    job.psn    = ao_psn;
    job.msn    = op_msn;
    case (op_kind)
      inc_spec_pkg::ACK_KIND_NAK:   job.syndrome = inc_spec_pkg::SYNDROME_NAK_SEQUENCE;
      inc_spec_pkg::ACK_KIND_RNR:   job.syndrome = inc_spec_pkg::SYNDROME_RNR | 8'(cfg.rnr_code);
      inc_spec_pkg::ACK_KIND_FATAL: job.syndrome = inc_spec_pkg::SYNDROME_NAK_OPERATION;
      default:                      job.syndrome = inc_spec_pkg::SYNDROME_ACK;
    endcase
  end

  // bind walk
  assign bind_last = bind_idx_q == (24'd1 << bind_n_log2_q);
  wire [BLK_W-1:0] bind_blk = bind_base_q[BLK_W-1:0]
                              + BLK_W'(bind_idx_q << (bind_mtu_log2_q - 4'd8));

  assign tbl_done  = op_tbl;
  assign tbl_busy  = tbl_refuse;
  assign tbl_fire  = op_tbl && tbl_write && !tbl_refuse;
  always_comb begin
    tbl_ep_rx          = '0;
    tbl_ep_rx.epsn     = op_epsn;
    tbl_ep_rx.msn      = op_msn;
    tbl_ep_rx.nak_sent = op_nak_sent;
    tbl_ep_rx.ack_kind = op_kind;
    tbl_pipe_state            = '0;
    tbl_pipe_state.psn_start  = psn_start_q[24*tbl_p +: 24];
    tbl_pipe_state.next_send  = next_send_q[24*tbl_p +: 24];
    tbl_pipe_state.binding    = binding_q[tbl_p];
    tbl_pipe_state.pipe_error = error_q[tbl_p];
    tbl_pipe_state.bound      = bound_q[tbl_p];
  end

  // ================================================================== writes shared by PK and OP
  always_comb begin
    // acknowledgement records and nakSent
    sa_set = 1'b0; sa_force = 1'b0; sa_nak_wr = 1'b0; sa_nak = 1'b0;
    sa_ep = c_ep; sa_kind = inc_spec_pkg::ACK_KIND_ACK;
    if (f_engine) begin
      case (v_q)
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
        inc_spec_pkg::VERDICT_BEYOND: begin
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
    end else if (op_adv) begin
      sa_ep     = op_ep;
      sa_set    = adv_ack;
      sa_force  = 1'b1;
      sa_nak_wr = 1'b1;
      sa_nak    = 1'b0;
    end

    // ePSN, MSN, ackCount
    rx_wr = 1'b0; rx_wr_ep = op_ep; rx_wr_epsn = adv_epsn;
    rx_wr_msn = op_msn + 24'(adv_last);
    rx_wr_cnt = adv_ack ? 16'd0 : adv_cnt[15:0];
    if (op_adv) rx_wr = 1'b1;
    if (init_ep) begin
      rx_wr = 1'b1; rx_wr_ep = tbl_index[EP_W-1:0]; rx_wr_epsn = tbl_ep.psn0;
      rx_wr_msn = 24'd0; rx_wr_cnt = 16'd0;
    end

    // slots
    slot_wr = f_take; slot_wr_blk = c_blk_q; slot_wr_data = slot_new_q;
    if (op_bind) begin
      slot_wr = 1'b1; slot_wr_blk = bind_blk; slot_wr_data = '0;
    end
    passed_wr = 1'b0; passed_blk = c_blk_q; passed_wr_data = 7'd0;
    if (f_take && start_q) passed_wr = 1'b1;
    if (op_adv) begin
      passed_wr = 1'b1; passed_blk = adv_blk; passed_wr_data = adv_passed;
    end
  end

  always_ff @(posedge clk) begin
    // ---------------------------------------------------------------- PK
    case (pk_q)
      PK_DECIDE: begin
        pk_q       <= PK_STREAM;
        v_engine_q <= 1'b1;
        v_q        <= d_verdict;
        take_q     <= d_verdict == inc_spec_pkg::VERDICT_OK;
        start_q    <= d_start;
        in_order_q <= d_in_order;
        behind_q   <= d_behind;
        slot_new_q <= d_slot;
        slot_old_q <= slot_a;
        addr_q     <= ADDR_W'(c_blk_q) * ADDR_W'(BPB);
        left_q     <= c_q.pay_beats;
      end
      PK_STREAM: begin
        if (beat) begin
          addr_q <= addr_q + ADDR_W'(1);
          left_q <= left_q - 16'd1;
        end
        if (fin) begin
          pk_q    <= PK_IDLE;
          frame_q <= frame_q + 32'd1;
        end
      end
      default: ;
    endcase
    // The next frame is taken while idle or in the clock of the commit before it. What does not go
    // to a pipe needs no decision.
    if (load) begin
      pk_q    <= lk_takes_pipe ? PK_DECIDE : PK_STREAM;
      c_q     <= lk;
      c_blk_q <= lk_blk;
      if (!lk_takes_pipe) begin
        v_engine_q <= 1'b0;
        v_q        <= lk.verdict;
        take_q     <= 1'b0;
        left_q     <= lk.pay_beats;
      end
    end

    if (f_mismatch) error_q[c_pipe] <= 1'b1;
    if (f_take && !in_order_q) ooo_q[c_ep] <= 1'b1;
    if (f_take && in_order_q) begin
      imm_valid_q  <= 1'b1;
      imm_ep_q     <= c_ep;
      imm_pipe_q   <= c_pipe;
      imm_psn_q    <= c_q.psn;
      imm_blk_q    <= c_blk_q;
      imm_n_log2_q <= c_q.n_log2;
      imm_last_q   <= inc_spec_pkg::opcode_is_last({4'd0, new_meta.opcode});
      imm_ackreq_q <= new_meta.ack_req;
      imm_full_q   <= slot_new_q.degree == c_q.fan_in;
      imm_fan_in_q <= c_q.fan_in;
      imm_every_q  <= c_q.ack_every;
    end

    // ---------------------------------------------------------------- OP
    if (op_adv) begin
      if (imm_valid_q) imm_valid_q <= 1'b0;
      ahead_q[24*adv_pipe +: 24] <= ahead_q[24*adv_pipe +: 24] + 24'd1;
      scan_q[op_ep] <= ooo_q[op_ep] && !adv_kept[23];
      if (adv_kept[23]) ooo_q[op_ep] <= 1'b0;
      if (adv_rel) begin
        rel_q        <= 1'b1;
        rel_pipe_q   <= adv_pipe;
        rel_psn_q    <= op_epsn;
        rel_fan_in_q <= adv_fan;
        rel_n_log2_q <= adv_nlog;
      end
    end
    if (op_rel) begin
      rel_q <= 1'b0;
      next_send_q[24*rel_pipe_q +: 24] <= next_send_q[24*rel_pipe_q +: 24] + 24'd1;
      ahead_q[24*rel_pipe_q +: 24]     <= ahead_q[24*rel_pipe_q +: 24] - 24'(rel_fan_in_q);
    end
    if (op_rcy) psn_start_q[24*rcy_pipe +: 24] <= rcy_psn;
    if (op_err) begin
      error_q[err_idx]    <= 1'b1;
      err_pend_q[err_idx] <= 1'b0;
    end
    if (err_valid && !error_q[err_pipe]) err_pend_q[err_pipe] <= 1'b1;
    if (op_scan_end) scan_q[sc_ep_q] <= 1'b0;

    // ---------------------------------------------------------------- scan
    case (sc_q)
      SC_IDLE: if (sc_load) begin
        sc_q    <= SC_READ;
        sc_ep_q <= sc_arb_idx;
      end
      SC_READ: if (sc_rd) begin
        sc_q     <= SC_TAKE;
        sc_blk_q <= sc_blk;
        sc_cfg_q <= cfg;
      end
      SC_TAKE: begin
        sc_slot_q <= slot_b;
        sc_q      <= SC_FIRE;
      end
      default: if (adv_scan || op_scan_end) sc_q <= SC_IDLE;
    endcase
    if (sc_stale && (sc_q == SC_TAKE || sc_q == SC_FIRE || sc_rd)) sc_q <= SC_READ;

    // ---------------------------------------------------------------- bind and tables
    if (op_bind) bind_idx_q <= bind_idx_q + 24'd1;
    if (op_bdone) begin
      bind_q                 <= 1'b0;
      binding_q[bind_pipe_q] <= 1'b0;
    end
    if (init_pipe) begin
      bound_q[tbl_p]    <= tbl_pipe.valid;
      binding_q[tbl_p]  <= tbl_pipe.valid;
      error_q[tbl_p]    <= 1'b0;
      psn_start_q[24*tbl_p +: 24] <= tbl_pipe.psn0;
      next_send_q[24*tbl_p +: 24] <= tbl_pipe.psn0;
      ahead_q[24*tbl_p +: 24]     <= 24'd0;
      rec_n_log2_q[5*tbl_p +: 5]  <= tbl_pipe.n_log2;
      bind_q          <= tbl_pipe.valid;
      bind_pipe_q     <= tbl_p;
      bind_idx_q      <= 24'd0;
      bind_n_log2_q   <= tbl_pipe.n_log2;
      bind_mtu_log2_q <= tbl_pipe.mtu_log2;
      bind_base_q     <= tbl_pipe.base_block;
    end
    if (init_ep) begin
      ooo_q[tbl_index[EP_W-1:0]]  <= 1'b0;
      scan_q[tbl_index[EP_W-1:0]] <= 1'b0;
    end

    if (rst) begin
      pk_q        <= PK_IDLE;
      frame_q     <= '0;
      imm_valid_q <= 1'b0;
      rel_q       <= 1'b0;
      sc_q        <= SC_IDLE;
      bind_q      <= 1'b0;
      ooo_q       <= '0;
      scan_q      <= '0;
      error_q     <= '0;
      err_pend_q  <= '0;
      bound_q     <= '0;
      binding_q   <= '0;
    end
`ifdef INC_ASSERT
    if (!rst && op_rel) assert (rel_psn_q == next_send_q[24*rel_pipe_q +: 24]);
    if (!rst && beat) assert (pay_last == last);
    if (!rst && op_adv && imm_valid_q) assert (op_epsn == imm_psn_q);
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
    stat_event[inc_spec_pkg::EVENT_ADVANCE]       = op_adv;
    stat_event[inc_spec_pkg::EVENT_RELEASE]       = op_rel;
    stat_event[inc_spec_pkg::EVENT_RECYCLE]       = op_rcy;
    stat_event[inc_spec_pkg::EVENT_SLOT_START]    = f_take && start_q;
    stat_event[inc_spec_pkg::EVENT_SLOT_COMPLETE] = f_take && slot_new_q.degree == c_q.fan_in;
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
    if (old_meta.opcode != c_meta.opcode) begin
      fault_kind   = inc_spec_pkg::ERROR_KIND_MISMATCH_OPCODE;
      fault_got    = 32'(c_meta.opcode);
      fault_wanted = 32'(old_meta.opcode);
    end else if (old_meta.plen != c_meta.plen) begin
      fault_kind   = inc_spec_pkg::ERROR_KIND_MISMATCH_LENGTH;
      fault_got    = 32'(c_meta.plen);
      fault_wanted = 32'(old_meta.plen);
    end else begin
      fault_kind   = inc_spec_pkg::ERROR_KIND_MISMATCH_IMM;
      fault_got    = c_meta.imm;
      fault_wanted = old_meta.imm;
    end
  end

  wire   to_ack_fin = fin && to_ack;                      // Retransmission writes this record
  assign ret_valid  = (fin && !to_ack_fin) || op_adv || op_rel || op_rcy || op_err || op_ack
                      || op_bind || op_bdone || init_ep || init_pipe;

  logic [PIPE_W-1:0] r_pipe;
  logic [EP_W-1:0]   r_ep;
  logic              g_rx, g_tx, g_pipe, g_slot;
  slot_t             r_slot;
  logic [23:0]       a_epsn, a_msn, a_start, a_next;
  logic              a_nak;
  logic [2:0]        a_kind;
  always_comb begin
    ret_rec = '0;
    r_pipe = c_pipe; r_ep = c_ep; r_slot = '0;
    g_rx = 1'b0; g_tx = 1'b0; g_pipe = 1'b0; g_slot = 1'b0;
    ret_rec.verdict = 32'(inc_spec_pkg::VERDICT_OK);
    if (fin) begin
      ret_rec.cause   = f_engine ? 32'(inc_spec_pkg::CAUSE_DATA) : 32'(inc_spec_pkg::CAUSE_DROP);
      ret_rec.verdict = 32'(f_verdict);
      ret_rec.frame   = frame_q;
      if (f_engine) begin
        ret_rec.psn  = 32'(c_q.psn);
        ret_rec.slot = 32'(inc_pkg::slot_of(c_q.psn, c_q.n_log2));
        g_rx   = 1'b1;
        g_pipe = 1'b1;
        g_slot = v_q == inc_spec_pkg::VERDICT_OK || v_q == inc_spec_pkg::VERDICT_DUPLICATE
                 || v_q == inc_spec_pkg::VERDICT_MISMATCH;
        r_slot = v_q == inc_spec_pkg::VERDICT_OK ? slot_new_q : slot_old_q;
      end
    end else if (op_adv) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_ADVANCE);
      r_pipe = adv_pipe; r_ep = op_ep; g_rx = 1'b1;
      ret_rec.psn  = 32'(op_epsn);
      ret_rec.slot = 32'(inc_pkg::slot_of(op_epsn, adv_nlog));
    end else if (op_rel) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_RELEASE);
      r_pipe = rel_pipe_q; g_pipe = 1'b1;
      ret_rec.psn  = 32'(rel_psn_q);
      ret_rec.slot = 32'(inc_pkg::slot_of(rel_psn_q, rel_n_log2_q));
    end else if (op_rcy) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_RECYCLE);
      r_pipe = rcy_pipe; g_pipe = 1'b1;
      ret_rec.psn  = 32'(rcy_psn);
      ret_rec.slot = 32'(inc_pkg::slot_of(rcy_psn, rec_n_log2_q[5*rcy_pipe +: 5]));
    end else if (op_err) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_ERROR);
      r_pipe = err_idx; g_pipe = 1'b1;
    end else if (op_ack) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_ACK_OUT);
      ret_rec.frame = job_number;
      r_pipe = op_in_pipe[PIPE_W-1:0]; r_ep = op_ep; g_rx = 1'b1;
      ret_rec.psn  = 32'(ao_psn);
      ret_rec.slot = 32'(inc_pkg::slot_of(ao_psn, cfg.n_log2));
    end else if (op_bind) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_BIND_STEP);
      r_pipe = bind_pipe_q; g_pipe = 1'b1; g_slot = 1'b1;
      ret_rec.slot = 32'(bind_idx_q);
    end else if (op_bdone) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_BIND_DONE);
      r_pipe = bind_pipe_q; g_pipe = 1'b1;
    end else begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_TABLE_WRITE);
      if (tbl_id == inc_spec_pkg::TABLE_EP_CFG) begin
        r_ep = tbl_index[EP_W-1:0]; g_rx = 1'b1; g_tx = 1'b1;
      end else begin
        r_pipe = tbl_p; g_pipe = 1'b1;
      end
    end

    // the values after the event
    a_epsn = rx_wr ? rx_wr_epsn : fin ? pk_epsn : op_epsn;
    a_msn  = rx_wr ? rx_wr_msn : fin ? pk_msn : op_msn;
    a_nak  = !init_ep && (sa_nak_wr ? sa_nak : fin ? pk_nak_sent : op_nak_sent);
    a_kind = (init_ep || op_ack) ? inc_spec_pkg::ACK_KIND_NONE
             : sa_set ? sa_new_kind : fin ? pk_kind : op_kind;
    a_start = init_pipe ? tbl_pipe.psn0 : op_rcy ? rcy_psn : psn_start_q[24*r_pipe +: 24];
    a_next  = init_pipe ? tbl_pipe.psn0 : op_rel ? rel_psn_q + 24'd1
                        : next_send_q[24*r_pipe +: 24];
    if (g_rx) begin
      ret_rec.endpoint = 32'(r_ep);
      ret_rec.epsn     = 32'(a_epsn);
      ret_rec.msn      = 32'(a_msn);
      ret_rec.nak_sent = 32'(a_nak);
      ret_rec.ack_kind = 32'(a_kind);
    end
    if (g_tx) begin
      ret_rec.last_acked = 32'(24'(tbl_ep.psn0 - 24'd1));
      ret_rec.cursor     = 32'(tbl_ep.psn0);
      ret_rec.sent_max   = 32'(24'(tbl_ep.psn0 - 24'd1));
    end
    if (g_pipe) begin
      ret_rec.psn_start  = 32'(a_start);
      ret_rec.next_send  = 32'(a_next);
      ret_rec.pipe_error = 32'(!init_pipe && (error_q[r_pipe] || f_mismatch || op_err));
    end
    if (g_slot) begin
      ret_rec.slot_valid = 32'(r_slot.valid);
      ret_rec.tag        = 32'(r_slot.tag);
      ret_rec.bitmap     = 64'(r_slot.bitmap);
      ret_rec.degree     = 32'(r_slot.degree);
    end
    if (g_rx && (f_engine || op_adv || op_ack)) ret_rec.pipe_id = 32'(r_pipe);
    if (g_pipe) ret_rec.pipe_id = 32'(r_pipe);
    ret_rec.groups = {28'd0, g_slot, g_pipe, g_tx, g_rx};
  end

  wire unused_ok = &{1'b0, new_meta, old_meta, sc_meta, tbl_ep, tbl_pipe,
                     bind_base_q, sc_slot_q, r_slot, rcy_1h, err_1h, sc_arb_onehot, op_in_index,
                     sc_in_pipe, op_in_pipe, cfg, sc_cfg_q, rx_rest, lk, c_q, hi_ahead, adv_kept,
                     tbl_index, imm_psn_q};

endmodule

`default_nettype wire
