// The engine between parser and deparser: lookup, pipes, aggregation, retransmission,
// replication.
//
// Streams:       s_hdr, s_pay, s_eof from inc_parse; m_hdr, m_pay to inc_deparse; byp_* to
//                inc_bypass; tbl_* from inc_csr_block (write or read one table entry, answered by
//                tbl_rsp_*).
// Latency:       see docs/microarchitecture.md. Throughput: one payload beat per clock each way.
// Back-pressure: the TX side never holds the RX side.
// Retirement:    ret_tx_*, ret_cut_*, ret_ack2_*, ret_fw_*, ret_rx_*: what was done, in
//                commit order (in one
//                clock in this order); read by the co-simulation from outside, left without load
//                in synthesis.
// Reset:         tables cleared in ENDPOINTS clocks, during which no frame is taken.
// Parameters:    DATA_W 64..2048; ENDPOINTS 2..4096, PIPES 2..256, powers of two; POOL_KB payload
//                pool, power of two (each of the two copies); FAN_IN 2..64; MODE2, MODE3,
//                FLOAT, CUT_THROUGH 0 or 1: left out or built in.
// Source:        protocol.md 4, 6, 9.
`default_nettype none

module inc_core #(
  parameter int DATA_W      = inc_build_pkg::DATA_W,
  parameter int ENDPOINTS   = inc_build_pkg::ENDPOINTS,
  parameter int PIPES       = inc_build_pkg::PIPES,
  parameter int POOL_KB     = inc_build_pkg::POOL_KB,
  parameter int FAN_IN      = inc_build_pkg::FAN_IN,
  parameter int MODE2       = inc_build_pkg::MODE2,
  parameter int MODE3       = inc_build_pkg::MODE3,
  parameter int FLOAT       = inc_build_pkg::FLOAT,
  parameter int CUT_THROUGH = inc_build_pkg::CUT_THROUGH
) (
  input  wire                   clk,
  input  wire                   rst,
  input  wire [31:0]            cfg_tick_clocks,

  input  wire                   s_hdr_valid,
  output wire                   s_hdr_ready,
  input  inc_pkg::hdr_t    s_hdr,
  input  wire [23:0]            s_early_qpn,     // see inc_lookup_table
  input  wire                   s_pay_valid,
  output wire                   s_pay_ready,
  input  wire [DATA_W-1:0]      s_pay_data,
  input  wire                   s_pay_last,
  input  wire                   s_eof_valid,
  output wire                   s_eof_ready,
  input  wire [7:0]             s_eof_verdict,

  input  wire                   byp_head_valid,
  input  wire                   byp_head_fits,
  output wire                   byp_dec_valid,
  output wire                   byp_dec_bypass,

  output wire                   m_hdr_valid,
  input  wire                   m_hdr_ready,
  output inc_pkg::txhdr_t       m_hdr,
  output inc_pkg::txshape_t     m_shape,
  output wire                   m_pay_valid,
  input  wire                   m_pay_ready,
  output wire [DATA_W-1:0]      m_pay_data,
  output wire                   m_pay_last,
  output wire                   m_end_valid,     // see inc_deparse
  input  wire                   m_end_ready,
  output wire                   m_end_poison,

  input  wire                   tbl_valid,
  output wire                   tbl_ready,
  input  wire                   tbl_write,
  input  wire [3:0]             tbl_id,
  input  wire [11:0]            tbl_index,
  input  wire [1023:0]          tbl_wdata,
  output wire                   tbl_rsp_valid,
  output wire [1:0]             tbl_rsp_error,
  output wire [1023:0]          tbl_rsp_rdata,

  output wire                   stat_frame,
  output wire [7:0]             stat_verdict,
  output wire [inc_spec_pkg::EVENT_COUNT-1:0] stat_event,
  output wire [PIPES-1:0]       status_pipe_error,
  output wire [PIPES-1:0]       status_pipe_drained,

  output wire                   fault_valid,     // cause of an error, for first-error capture
  output wire [7:0]             fault_kind,
  output wire [7:0]             fault_pipe,
  output wire [11:0]            fault_ep,
  output wire [23:0]            fault_psn,
  output wire [31:0]            fault_got,
  output wire [31:0]            fault_wanted
);

  localparam int EP_W   = $clog2(ENDPOINTS);
  localparam int PIPE_W = $clog2(PIPES);
  localparam int BLOCKS = POOL_KB * 1024 / inc_spec_pkg::BLOCK_BYTES;
  localparam int BLK_W  = $clog2(BLOCKS);
  localparam int BEATS  = POOL_KB * 1024 * 8 / DATA_W;
  localparam int ADDR_W = $clog2(BEATS);

  // ------------------------------------------------------------------ table requests
  logic          t_valid_q, t_write_q, t_read_q, t_rsp_q;
  logic [3:0]    t_id_q;
  logic [11:0]   t_index_q;
  logic [1:0]    t_error_q;
  logic [1023:0] t_data_q;
  inc_spec_pkg::ep_cfg_t     t_ep;
  inc_spec_pkg::pipe_cfg_t   t_pipe;
  inc_spec_pkg::out_list_t   t_out;
  inc_spec_pkg::ep_rx_t      t_ep_rx;
  inc_spec_pkg::ep_tx_t      t_ep_tx;
  inc_spec_pkg::pipe_state_t t_pipe_state;
  inc_spec_pkg::pipe_cfg_t   t_pipe_q;
  inc_spec_pkg::ep_rx_t      t_ep_rx_q;
  inc_spec_pkg::pipe_state_t t_pipe_state_q;
  inc_spec_pkg::ep_cfg_t     ep_rd;
  inc_spec_pkg::pipe_cfg_t   op_cfg;
  inc_spec_pkg::ep_tx_t      t_ep_tx2;
  wire           t_ep_tx2_used;
  wire [11:0]    t_list;
  wire t_fire, t_done, t_busy, tables_ready;
  assign t_ep   = t_data_q[inc_spec_pkg::EP_CFG_W-1:0];
  assign t_pipe = t_data_q[inc_spec_pkg::PIPE_CFG_W-1:0];
  assign t_out  = t_data_q[inc_spec_pkg::OUT_LIST_W-1:0];
  wire t_is_ep   = t_id_q == inc_spec_pkg::TABLE_EP_CFG;
  wire t_is_pipe = t_id_q == inc_spec_pkg::TABLE_PIPE_CFG;
  wire t_is_out  = t_id_q == inc_spec_pkg::TABLE_OUT_LIST;
  wire t_is_in   = t_id_q == inc_spec_pkg::TABLE_IN_LIST;
  wire t_go      = t_valid_q && tables_ready;
  assign tbl_ready     = !t_valid_q && !t_read_q && !t_rsp_q;
  assign tbl_rsp_valid = t_rsp_q;
  assign tbl_rsp_error = t_error_q;
  assign tbl_rsp_rdata = t_data_q;

  wire [inc_spec_pkg::PIPE_ERROR_W-1:0] t_error_rd, t_pipe_error;

  // A read is answered one clock after its turn: what is in block RAM has come then.
  wire t_rd = t_done && !t_write_q;
  inc_ram_1r1w #(.DATA_W(12), .DEPTH(2 * ENDPOINTS)) u_lists (
    .clk(clk), .wr_en(t_fire && (t_is_out || t_is_in)), .wr_addr({t_is_in, t_index_q[EP_W-1:0]}),
    .wr_data(t_out.endpoint), .rd_en(t_rd), .rd_addr({t_is_in, t_index_q[EP_W-1:0]}),
    .rd_data(t_list));

  logic [1023:0] t_rdata;
  always_comb begin
    t_rdata = '0;
    case (t_id_q)
      inc_spec_pkg::TABLE_EP_CFG:   t_rdata[inc_spec_pkg::EP_CFG_W-1:0]   = ep_rd;
      inc_spec_pkg::TABLE_PIPE_CFG: t_rdata[inc_spec_pkg::PIPE_CFG_W-1:0] = t_pipe_q;
      inc_spec_pkg::TABLE_OUT_LIST,
      inc_spec_pkg::TABLE_IN_LIST:  t_rdata[inc_spec_pkg::OUT_LIST_W-1:0] = t_list;
      inc_spec_pkg::TABLE_EP_RX:    t_rdata[inc_spec_pkg::EP_RX_W-1:0]    = t_ep_rx_q;
      inc_spec_pkg::TABLE_EP_TX:    t_rdata[inc_spec_pkg::EP_TX_W-1:0]    = t_ep_tx2_used ? t_ep_tx2
                                                                                       : t_ep_tx;
      inc_spec_pkg::TABLE_PIPE_ERROR: t_rdata[inc_spec_pkg::PIPE_ERROR_W-1:0] = t_pipe_error;
      inc_spec_pkg::TABLE_PIPE_CTL: t_rdata[inc_spec_pkg::PIPE_CTL_W-1:0] = t_pipe_state_q.quiesced;
      default: t_rdata[inc_spec_pkg::PIPE_STATE_W-1:0] = t_pipe_state_q;
    endcase
  end

  always_ff @(posedge clk) begin
    t_rsp_q  <= 1'b0;
    t_read_q <= 1'b0;
    if (tbl_valid && tbl_ready) begin
      t_valid_q <= 1'b1;
      t_write_q <= tbl_write;
      t_id_q    <= tbl_id;
      t_index_q <= tbl_index;
      t_data_q  <= tbl_wdata;
    end
    if (t_done) begin
      t_valid_q      <= 1'b0;
      t_rsp_q        <= t_write_q;
      t_read_q       <= !t_write_q;
      t_error_q      <= t_busy ? inc_spec_pkg::TABLE_ERROR_BUSY : inc_spec_pkg::TABLE_ERROR_NONE;
      t_pipe_q       <= op_cfg;
      t_ep_rx_q      <= t_ep_rx;
      t_pipe_state_q <= t_pipe_state;
    end
    if (t_read_q) begin
      t_data_q <= t_rdata;
      t_rsp_q  <= 1'b1;
    end
    if (rst) begin
      t_valid_q <= 1'b0;
      t_read_q  <= 1'b0;
      t_rsp_q   <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ lookup
  wire                     lk_valid, lk_ready, lk_idle, tbl_hold, tbl_hold_keep;
  inc_pkg::lookup_t        lk;
  wire                     ep_rd_en;
  wire [EP_W-1:0]          ep_rd_index;
  wire [PIPE_W-1:0]        op_cfg_pipe, tx_cfg_pipe;
  inc_spec_pkg::pipe_cfg_t tx_cfg, send_cfg, keep_cfg;
  wire [PIPE_W-1:0]        send_cfg_pipe, keep_cfg_pipe;

  // A result that leaves while its last contribution arrives. The first out of the pipe of every
  // data frame is looked up beside its slot, if nothing else is.
  wire                 cut_look = CUT_THROUGH != 0 && lk_valid && lk.is_data;
  wire                 cut_decide, cut_result, cut_leaves, cut_mode2, cut_pays, cut_end, cut_good;
  wire                 cut_ack_req, cut_release, cut_load, cut_go, cut_hold, cut_busy, cut_owed;
  wire                 cut_ok, cut_upset, cut_send, cut_sent, cut_forwarded, cut_poisoned;
  wire [EP_W-1:0]      cut_ep, cut_hold_ep;
  wire [PIPE_W-1:0]    cut_pipe, cut_release_pipe;
  wire                 cut_jobs_idle;
  wire [31:0]          cut_number;
  inc_pkg::lookup_t    cut_frame;
  inc_pkg::slot_meta_t cut_meta;
  wire                 forwards_idle, translate_quiet, replicate_quiet;
  wire                 ret_cut_valid;
  inc_spec_pkg::record_t ret_cut_rec;

  inc_lookup_table #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_lookup (
    .clk(clk), .rst(rst),
    .cfg_ep_wr(t_fire && t_is_ep), .cfg_ep_index(t_index_q[EP_W-1:0]), .cfg_ep_data(t_ep),
    .cfg_pipe_wr(t_fire && t_is_pipe), .cfg_pipe_index(t_index_q[PIPE_W-1:0]),
    .cfg_pipe_data(t_pipe),
    .cfg_out_wr(t_fire && t_is_out), .cfg_out_index(t_index_q[EP_W-1:0]),
    .cfg_out_data(t_out.endpoint),
    .hold(tbl_hold), .idle(lk_idle), .ready_o(tables_ready),
    .s_hdr_valid(s_hdr_valid), .s_hdr_ready(s_hdr_ready), .s_hdr(s_hdr),
    .s_early_qpn(s_early_qpn[EP_W-1:0]),
    .m_lk_valid(lk_valid), .m_lk_ready(lk_ready), .m_lk(lk),
    .tx_rd_en(ep_rd_en || t_rd || cut_look),
    .tx_rd_index(t_done ? t_index_q[EP_W-1:0] : ep_rd_en ? ep_rd_index : lk.lead[EP_W-1:0]),
    .tx_rd_data(ep_rd),
    .op_pipe_index(op_cfg_pipe), .op_pipe_cfg(op_cfg),
    .tx_pipe_index(tx_cfg_pipe), .tx_pipe_cfg(tx_cfg),
    .send_pipe_index(send_cfg_pipe), .send_pipe_cfg(send_cfg),
    .keep_pipe_index(keep_cfg_pipe), .keep_pipe_cfg(keep_cfg));

  // ------------------------------------------------------------------ pipes
  wire                  agg_claim, agg_valid, agg_start, agg_bank, agg_last, agg_float_busy;
  wire [3:0]            agg_dtype, agg_op;
  wire [ADDR_W-1:0]     agg_addr;
  wire [3:0]            agg_id;
  wire [DATA_W-1:0]     agg_data;
  wire                  fold_valid, fold_bank, tx_ready, tx_rd_valid;
  wire [DATA_W-1:0]     tx_rd_data;
  wire [ADDR_W-1:0]     fold_addr;
  wire [EP_W-1:0]       ack_soon_ep;
  wire                  ack_soon, ack_valid, ack_mode2, ack_leaf, ack3_done, ack_done;
  wire [EP_W-1:0]       ack_ep;
  wire [PIPE_W-1:0]     ack_pipe;
  wire [23:0]           ack_psn;
  wire [7:0]            ack_syndrome, ack3_verdict, ack_verdict;
  wire [23:0]           ack_msn;
  wire [1:0]            ack_rule;
  wire [31:0]           ack_frame;
  wire [PIPES-1:0]      live, pipe_error;
  wire [PIPES-1:0]      mode2;
  wire [PIPE_W-1:0]     next_pipe;
  wire [23:0]           next_send;
  wire                  min_valid, err_valid;
  wire [PIPE_W-1:0]     min_pipe, err_pipe;
  wire [23:0]           min_psn;
  wire                  aj_valid, aj_ready, sj_valid, sj_maybe, sj_room;
  inc_pkg::txjob_t      aj, sj;
  logic [31:0]          job_number_q;
  wire                  job_granted, job_done;
  wire                  slot_rd_en, slot_rd_ready, slot_flip;
  wire [BLK_W-1:0]      slot_rd_block;
  inc_pkg::slot_meta_t  slot_meta;
  wire                  tx_idle, fin;
  wire [7:0]            fin_verdict;
  wire                  ret_rx_valid, ret_tx_valid;
  inc_spec_pkg::record_t ret_rx_rec, ret_tx_rec;
  assign status_pipe_error = pipe_error;

  // An error of a contribution and one of an out in the same clock: the contribution's goes first,
  // because it is what makes a sum wrong.
  wire [inc_spec_pkg::EVENT_COUNT-1:0] event_rx, event_tx;
  wire                   ret_fw_valid, ret_ack2_valid;
  inc_spec_pkg::record_t ret_fw_rec, ret_ack2_rec;
  wire [inc_spec_pkg::EVENT_COUNT-1:0] event_ack2;
  wire         stat_forward;
  logic [inc_spec_pkg::EVENT_COUNT-1:0] event_fw;
  always_comb begin
    event_fw = '0;
    event_fw[inc_spec_pkg::EVENT_TX_FORWARD]  = stat_forward;
    event_fw[inc_spec_pkg::EVENT_TX_POISONED] = cut_poisoned;
  end
  wire         frx_valid, ftx_valid;
  wire [7:0]   frx_kind, ftx_kind, frx_pipe;
  wire [11:0]  frx_ep, ftx_ep;
  wire [23:0]  frx_psn, ftx_psn;
  wire [31:0]  frx_got, ftx_got, frx_wanted, ftx_wanted;
  localparam int FAULT_W = 8 + 8 + 12 + 24 + 32 + 32;
  wire [FAULT_W-1:0] frx = {frx_kind, frx_pipe, frx_ep, frx_psn, frx_got, frx_wanted};
  wire [FAULT_W-1:0] ftx = {ftx_kind, 8'(err_pipe), ftx_ep, ftx_psn, ftx_got, ftx_wanted};
  logic               fault_q, held_q;    // held_q: an out's waits for its turn
  logic [FAULT_W-1:0] fault_data_q, held_data_q;
  always_ff @(posedge clk) begin
    fault_q      <= frx_valid || held_q || ftx_valid;
    fault_data_q <= frx_valid ? frx : held_q ? held_data_q : ftx;
    held_q       <= ftx_valid && (frx_valid || held_q);
    held_data_q  <= ftx;
    if (rst) begin
      fault_q <= 1'b0;
      held_q  <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst) assert (!(frx_valid && held_q));  // contributions are two clocks apart
`endif
  end
  assign fault_valid = fault_q;
  assign {fault_kind, fault_pipe, fault_ep, fault_psn, fault_got, fault_wanted} = fault_data_q;

  // The first error of each pipe since it was written: table pipe_error.
  logic [PIPES-1:0]  kept_q;
  logic              t_kept_q;
  wire  [PIPE_W-1:0] fault_index = fault_pipe[PIPE_W-1:0];
  inc_ram_1r1w #(.DATA_W(inc_spec_pkg::PIPE_ERROR_W), .DEPTH(PIPES)) u_errors (
    .clk(clk), .wr_en(fault_q && !kept_q[fault_index]), .wr_addr(fault_index),
    .wr_data({fault_wanted, fault_got, fault_psn, fault_ep, fault_kind}),
    .rd_en(t_done), .rd_addr(t_index_q[PIPE_W-1:0]), .rd_data(t_error_rd));
  assign t_pipe_error = t_kept_q ? t_error_rd : '0;
  always_ff @(posedge clk) begin
    if (fault_q) kept_q[fault_index] <= 1'b1;
    if (t_fire && t_is_pipe) kept_q[t_index_q[PIPE_W-1:0]] <= 1'b0;
    if (t_done) t_kept_q <= kept_q[t_index_q[PIPE_W-1:0]];
    if (rst) kept_q <= '0;
  end

  assign stat_event = event_rx | event_tx | event_fw | event_ack2;

  // What inc_pipe hands on of Mode-II, to inc_forward.
  wire [BLK_W-1:0]  fwd_chk_block;
  inc_pkg::fwd_t    fwd;
  wire              fwd_valid, fwd_slow, fwd_room, fwd_chk_busy, fwd_drained;
  inc_pipe #(.DATA_W(DATA_W), .ENDPOINTS(ENDPOINTS), .PIPES(PIPES), .BLOCKS(BLOCKS),
             .FAN_IN(FAN_IN), .MODE2(MODE2), .MODE3(MODE3), .CUT_THROUGH(CUT_THROUGH),
             .FLOAT(FLOAT)) u_pipe (
    .clk(clk), .rst(rst),
    .lk_valid(lk_valid), .lk_ready(lk_ready), .lk(lk), .lk_idle(lk_idle),
    .tbl_hold(tbl_hold), .tbl_hold_keep(tbl_hold_keep),
    .pay_valid(s_pay_valid), .pay_ready(s_pay_ready), .pay_data(s_pay_data), .pay_last(s_pay_last),
    .eof_valid(s_eof_valid), .eof_ready(s_eof_ready), .eof_verdict(s_eof_verdict),
    .byp_head_valid(byp_head_valid), .byp_head_fits(byp_head_fits),
    .byp_dec_valid(byp_dec_valid), .byp_dec_bypass(byp_dec_bypass),
    .agg_claim(agg_claim), .agg_valid(agg_valid),
    .agg_start(agg_start), .agg_bank(agg_bank), .agg_addr(agg_addr),
    .agg_data(agg_data), .agg_dtype(agg_dtype), .agg_op(agg_op), .agg_last(agg_last),
    .agg_id(agg_id), .agg_float_busy(agg_float_busy),
    .fold_valid(fold_valid), .fold_ready(tx_ready), .fold_bank(fold_bank), .fold_addr(fold_addr),
    .fold_data(tx_rd_data),
    .ack_soon(ack_soon), .ack_soon_ep(ack_soon_ep), .ack_valid(ack_valid),
    .ack_mode2(ack_mode2), .ack_ep(ack_ep),
    .ack_pipe(ack_pipe), .ack_psn(ack_psn), .ack_syndrome(ack_syndrome), .ack_msn(ack_msn),
    .ack_rule(ack_rule), .ack_leaf(ack_leaf), .ack_frame(ack_frame), .ack_done(ack_done),
    .live(live), .mode2(mode2), .pipe_error(pipe_error), .pipe_drained(status_pipe_drained),
    .next_pipe(next_pipe),
    .next_send(next_send),
    .min_valid(min_valid), .min_pipe(min_pipe), .min_psn(min_psn),
    .err_valid(err_valid), .err_pipe(err_pipe),
    .fwd_room(fwd_room), .fwd_valid(fwd_valid), .fwd_slow(fwd_slow), .fwd(fwd),
    .fwd_chk_block(fwd_chk_block),
    .fwd_chk_busy(fwd_chk_busy), .fwd_drained(fwd_drained),
    .cut_decide(cut_decide), .cut_result(cut_result), .cut_leaves(cut_leaves),
    .cut_frame(cut_frame), .cut_mode2(cut_mode2), .cut_pays(cut_pays), .cut_meta(cut_meta),
    .cut_ack_req(cut_ack_req), .cut_end(cut_end), .cut_good(cut_good), .cut_release(cut_release),
    .cut_release_pipe(cut_release_pipe), .cut_jobs_idle(cut_jobs_idle),
    .cut_busy(cut_busy), .cut_owed(cut_owed), .cut_pipe(cut_pipe),
    .job_valid(aj_valid), .job_ready(aj_ready), .job(aj), .job_number(job_number_q),
    .job_granted(job_granted), .job_done(job_done),
    .tx_slot_en(slot_rd_en), .tx_slot_ready(slot_rd_ready), .tx_slot_block(slot_rd_block),
    .tx_slot_meta(slot_meta), .tx_slot_flip(slot_flip),
    .tbl_valid(t_go), .tbl_write(t_write_q), .tbl_id(t_id_q), .tbl_index(t_index_q),
    .tbl_ep(t_ep), .tbl_pipe(t_pipe),
    .tbl_quiesced(t_data_q[0]), .tbl_list_ep(t_out.endpoint), .tx_idle(tx_idle),
    .tbl_fire(t_fire), .tbl_done(t_done), .tbl_busy(t_busy),
    .tbl_ep_rx(t_ep_rx), .tbl_pipe_state(t_pipe_state),
    .cfg_pipe(op_cfg_pipe), .cfg(op_cfg),
    .stat_frame(fin), .stat_verdict(fin_verdict), .stat_event(event_rx),
    .fault_valid(frx_valid), .fault_kind(frx_kind), .fault_ep(frx_ep), .fault_pipe(frx_pipe),
    .fault_psn(frx_psn), .fault_got(frx_got), .fault_wanted(frx_wanted),
    .ret_valid(ret_rx_valid), .ret_rec(ret_rx_rec));

  inc_retransmission #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_retransmission (
    .clk(clk), .rst(rst), .tick_clocks(cfg_tick_clocks),
    .hold(tbl_hold), .hold_keep(tbl_hold_keep), .idle(tx_idle),
    .init_ep(t_fire && t_is_ep), .init_ep_index(t_index_q[EP_W-1:0]), .init_ep_psn(t_ep.psn0),
    .init_ep_out(t_ep.valid && t_ep.out_valid),
    .init_pipe(t_fire && t_is_pipe),
    .out_wr(t_fire && t_is_out), .out_wr_index(t_index_q[EP_W-1:0]), .out_wr_ep(t_out.endpoint),
    .rd_index(t_index_q[EP_W-1:0]), .rd_state(t_ep_tx),
    .live(live & ~mode2), .pipe_error(pipe_error), .next_pipe(next_pipe), .next_send(next_send),
    .cfg_pipe(tx_cfg_pipe), .cfg(tx_cfg), .send_cfg_pipe(send_cfg_pipe), .send_cfg(send_cfg),
    .keep_cfg_pipe(keep_cfg_pipe), .keep_cfg(keep_cfg),
    .ack_soon(ack_soon), .ack_soon_ep(ack_soon_ep),
    .ack_valid(ack_valid && !ack_mode2), .ack_ep(ack_ep), .ack_pipe(ack_pipe), .ack_psn(ack_psn),
    .ack_syndrome(ack_syndrome), .ack_frame(ack_frame), .ack_done(ack3_done),
    .ack_verdict(ack3_verdict),
    .freeze(cut_hold), .freeze_ep(cut_hold_ep), .cut_rd_ep(lk.lead[EP_W-1:0]),
    .cut_psn(cut_frame.psn), .cut_ok(cut_ok), .upset(cut_upset), .cut_send(cut_send),
    .cut_send_ep(cut_ep), .cut_send_pipe(cut_pipe), .cut_number(cut_number), .cut_sent(cut_sent),
    .job_room(sj_room), .job_maybe(sj_maybe),
    .job_valid(sj_valid), .job(sj), .job_number(job_number_q),
    .min_valid(min_valid), .min_pipe(min_pipe), .min_psn(min_psn),
    .err_valid(err_valid), .err_pipe(err_pipe),
    .fault_valid(ftx_valid), .fault_kind(ftx_kind), .fault_ep(ftx_ep), .fault_psn(ftx_psn),
    .fault_got(ftx_got), .fault_wanted(ftx_wanted), .stat_event(event_tx),
    .ret_valid(ret_tx_valid), .ret_rec(ret_tx_rec));

  // ------------------------------------------------------------------ Mode-II: what leaves
  // ACKs at the outs of Mode-II pipes. inc_pipe decides nothing while one is here, so at most one
  // of the two gives a command in a clock.
  wire              ack2_done, ack_fwd_valid;
  wire [7:0]        ack2_verdict;
  inc_pkg::fwd_t    ack_fwd;
  logic             ack_mode2_q, ack_done_q;
  assign ack_done    = ack_mode2 ? ack2_done : ack3_done;
  assign ack_verdict = ack_mode2_q ? ack2_verdict : ack3_verdict;
  always_ff @(posedge clk) ack_mode2_q <= ack_mode2;

  // What became of a frame: told a clock later, when the verdict of an ACK is known. No frame ends
  // in the clock in which an ACK does.
  logic       fin_q;
  logic [7:0] fin_verdict_q;
  always_ff @(posedge clk) begin
    fin_q         <= fin;
    fin_verdict_q <= fin_verdict;
    ack_done_q    <= ack_done;
    if (rst) begin
      fin_q      <= 1'b0;
      ack_done_q <= 1'b0;
    end
  end
  assign stat_frame   = fin_q || ack_done_q;
  assign stat_verdict = ack_done_q ? ack_verdict : fin_verdict_q;
  generate
    if (MODE2 != 0) begin : gen_minimum
      inc_minimum_ack #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_minimum (
        .clk(clk), .rst(rst),
        .init_ep(t_fire && t_is_ep), .init_ep_index(t_index_q[EP_W-1:0]),
        .init_ep_psn(t_ep.psn0),
        .pipe_wr(t_fire && t_is_pipe), .pipe_index(t_index_q[PIPE_W-1:0]), .pipe_data(t_pipe),
        .out_wr(t_fire && t_is_out), .list_index(t_index_q[EP_W-1:0]), .list_ep(t_out.endpoint),
        .rd_wait(t_go), .rd_index(t_index_q[EP_W-1:0]), .rd_state(t_ep_tx2),
        .rd_mine(t_ep_tx2_used),
        .live(live), .pipe_error(pipe_error),
        .ack_soon(ack_soon), .ack_soon_ep(ack_soon_ep),
        .ack_valid(ack_valid && ack_mode2), .ack_ep(ack_ep), .ack_pipe(ack_pipe),
        .ack_rule(ack_rule), .ack_leaf(ack_leaf), .ack_psn(ack_psn),
        .ack_syndrome(ack_syndrome), .ack_msn(ack_msn), .ack_frame(ack_frame),
        .ack_done(ack2_done), .ack_verdict(ack2_verdict),
        .fwd_room(fwd_room), .fwd_valid(ack_fwd_valid), .fwd(ack_fwd),
        .stat_event(event_ack2), .ret_valid(ret_ack2_valid), .ret_rec(ret_ack2_rec));
    end else begin : gen_minimum
      assign ack2_done      = ack_valid;
      assign ack2_verdict   = inc_spec_pkg::VERDICT_ACK_STALE;
      assign ack_fwd_valid  = 1'b0;
      assign ack_fwd        = '0;
      assign t_ep_tx2       = '0;
      assign t_ep_tx2_used  = 1'b0;
      assign event_ack2     = '0;
      assign ret_ack2_valid = 1'b0;
      assign ret_ack2_rec   = '0;
    end
  endgenerate

  wire              fj_valid, fj_ready;
  inc_pkg::txjob_t  fj;
  inc_forward #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES), .BLOCKS(BLOCKS)) u_forward (
    .clk(clk), .rst(rst),
    .pipe_wr(t_fire && t_is_pipe), .pipe_index(t_index_q[PIPE_W-1:0]), .pipe_data(t_pipe),
    .out_wr(t_fire && t_is_out), .in_wr(t_fire && t_is_in), .list_index(t_index_q[EP_W-1:0]),
    .list_ep(t_out.endpoint),
    .room(fwd_room), .cmd_valid(fwd_valid || ack_fwd_valid),
    .cmd(ack_valid && ack_mode2 ? ack_fwd : fwd), .cmd_slow(fwd_valid && fwd_slow),
    .chk_block(fwd_chk_block),
    .block_busy(fwd_chk_busy), .idle(forwards_idle), .cut_number(cut_number),
    .cut_done(cut_forwarded), .drain(t_go), .drained(fwd_drained),
    .job_valid(fj_valid), .job_ready(fj_ready), .job(fj), .job_number(job_number_q),
    .job_granted(job_granted), .job_done(job_done),
    .stat_forward(stat_forward), .ret_valid(ret_fw_valid), .ret_rec(ret_fw_rec));

  // ------------------------------------------------------------------ sending: results, ACKs
  // A result that is offered has its place (job_room): it goes at once, and a clock in which one
  // may come (sj_maybe) is left to it. In the other clocks forwards go, but for the one behind a
  // clock in which an ACK had to wait (aj_turn_q): that is the ACK's. With few jobs waiting one
  // more of each kind may come; a result begins in the clock in which the others may go, so
  // neither can starve the other, but for those that wait whenever a result arrives: they keep the
  // next one from beginning (owe_q).
  // A job stands in the queue a clock after its grant: the fields of an ACK come then.
  localparam int JOBS = 16;
  wire             jf_ready, jf_valid, j_ready;
  wire [4:0]       jf_count;
  logic            jq_valid_q, jq_ack_q;
  inc_pkg::txjob_t jq_q, jf_in, j;
  logic            aj_turn_q, owe_q;
  wire   few         = jf_count <= 5'd4;         // 8 results may be under way, and another job
  assign sj_room     = few && !owe_q && !cut_hold;
  wire   others_may  = few && !sj_maybe && !cut_hold;
  assign aj_ready    = others_may && (aj_turn_q || !fj_valid);
  assign fj_ready    = others_may && !aj_turn_q;
  wire   aj_go       = aj_valid && aj_ready;
  wire   fj_go       = fj_valid && fj_ready;
  assign job_granted = sj_valid || aj_go || fj_go;
  assign jf_in       = jq_ack_q ? aj : jq_q;

  always_ff @(posedge clk) begin
    aj_turn_q <= aj_valid && !aj_go;
    if (sj_maybe && (aj_valid || fj_valid)) owe_q <= 1'b1;
    if (aj_go || fj_go) owe_q <= 1'b0;
    if (!aj_valid && !fj_valid) owe_q <= 1'b0;
    jq_valid_q <= job_granted;
    jq_ack_q   <= aj_go;
    jq_q       <= sj_maybe ? sj : fj;
    if (job_granted || cut_go) job_number_q <= job_number_q + 32'd1;
    if (rst) begin
      aj_turn_q    <= 1'b0;
      owe_q        <= 1'b0;
      jq_valid_q   <= 1'b0;
      job_number_q <= '0;
    end
`ifdef INC_ASSERT
    if (!rst) assert (!(aj_go && fj_go) && !(jq_valid_q && !jf_ready));
    // No frame ends while an ACK is here: which of the two it can be is known before it is given.
    if (!rst) assert (!(ack_fwd_valid && !(ack_valid && ack_mode2)));
    if (!rst) assert (!(fwd_valid && ack_valid && ack_mode2));
    if (!rst) assert (!(job_granted && cut_go));
`endif
  end

  inc_fifo #(.DATA_W($bits(jf_in)), .DEPTH(JOBS)) u_jobs (
    .clk(clk), .rst(rst), .s_valid(jq_valid_q), .s_ready(jf_ready), .s_data(jf_in),
    .m_valid(jf_valid), .m_ready(j_ready), .m_data(j), .count(jf_count));

  wire              rd_valid, rd_ready, rd_bank;
  wire [ADDR_W-1:0] rd_addr;
  wire [15:0]       rd_beats;
  inc_translate_header #(.DATA_W(DATA_W), .ENDPOINTS(ENDPOINTS), .BLOCKS(BLOCKS)) u_translate (
    .clk(clk), .rst(rst),
    .s_job_valid(jf_valid), .s_job_ready(j_ready), .s_job(j),
    .cut_load(cut_load), .cut_go(cut_go), .cut_psn(cut_frame.psn), .cut_ack_req(cut_ack_req),
    .cut_meta(cut_meta), .quiet(translate_quiet),
    .ep_rd_en(ep_rd_en), .ep_rd_index(ep_rd_index), .ep(ep_rd),
    .slot_rd_en(slot_rd_en), .slot_rd_ready(slot_rd_ready),
    .slot_rd_block(slot_rd_block), .slot_meta(slot_meta),
    .slot_flip(slot_flip),
    .m_hdr_valid(m_hdr_valid), .m_hdr_ready(m_hdr_ready), .m_hdr(m_hdr),
    .m_shape(m_shape),
    .m_rd_valid(rd_valid), .m_rd_ready(rd_ready), .m_rd_bank(rd_bank), .m_rd_addr(rd_addr),
    .m_rd_beats(rd_beats));

  // Fold reads where the sender does, and goes first.
  wire              rep_valid, rep_bank;
  wire [ADDR_W-1:0] rep_addr;
  wire              tx_valid = rep_valid || fold_valid;
  wire              tx_bank  = fold_valid ? fold_bank : rep_bank;
  wire [ADDR_W-1:0] tx_addr  = fold_valid ? fold_addr : rep_addr;
  logic             fold_read_q;
  always_ff @(posedge clk) fold_read_q <= fold_valid;
  wire                 rep_pay_valid, rep_pay_ready, rep_pay_last;
  wire [DATA_W-1:0]    rep_pay_data;
  inc_replicate_data #(.DATA_W(DATA_W), .ADDR_W(ADDR_W)) u_replicate (
    .clk(clk), .rst(rst),
    .s_rd_valid(rd_valid), .s_rd_ready(rd_ready), .s_rd_bank(rd_bank), .s_rd_addr(rd_addr),
    .s_rd_beats(rd_beats), .done(job_done), .quiet(replicate_quiet),
    .tx_valid(rep_valid), .tx_ready(tx_ready && !fold_valid), .tx_bank(rep_bank),
    .tx_addr(rep_addr), .tx_rd_valid(tx_rd_valid && !fold_read_q), .tx_rd_data(tx_rd_data),
    .m_pay_valid(rep_pay_valid), .m_pay_ready(rep_pay_ready), .m_pay_data(rep_pay_data),
    .m_pay_last(rep_pay_last));

  wire                 sum_valid, sum_bank, sum_last;
  wire [ADDR_W-1:0]    sum_addr;
  wire [DATA_W-1:0]    sum_data;
  wire [DATA_W/32-1:0] sum_diff;
  wire [3:0]           sum_id;
  inc_aggregate_data #(.DATA_W(DATA_W), .DEPTH(BEATS), .FLOAT(FLOAT)) u_aggregate (
    .clk(clk), .rst(rst),
    .s_claim(agg_claim), .s_valid(agg_valid),
    .s_dtype(agg_dtype), .s_op(agg_op), .s_start(agg_start),
    .s_compare(1'b0), .s_bank(agg_bank), .s_addr(agg_addr), .s_data(agg_data), .s_last(agg_last),
    .s_id(agg_id),
    .float_busy(agg_float_busy),
    .m_sum_valid(sum_valid), .m_sum_bank(sum_bank), .m_sum_addr(sum_addr),
    .m_sum_data(sum_data), .m_sum_last(sum_last), .m_sum_id(sum_id), .m_sum_diff(sum_diff),
    .tx_valid(tx_valid), .tx_ready(tx_ready), .tx_bank(tx_bank), .tx_addr(tx_addr),
    .tx_rd_valid(tx_rd_valid), .tx_rd_data(tx_rd_data));

  generate
    if (CUT_THROUGH != 0) begin : gen_cut_through
      inc_cut_through #(.DATA_W(DATA_W), .EP_W(EP_W), .PIPE_W(PIPE_W), .ID_W(4)) u_cut_through (
        .clk(clk), .rst(rst),
        .decide_valid(cut_decide), .result_valid(cut_result), .result_leaves(cut_leaves),
        .result_mode2(cut_mode2), .result_ep(cut_frame.lead[EP_W-1:0]),
        .result_pipe(cut_frame.pipe[PIPE_W-1:0]), .result_psn(cut_frame.psn),
        .result_slot(inc_pkg::slot_of(cut_frame.psn, cut_frame.n_log2)), .result_id(agg_id),
        .result_pays(cut_pays), .end_valid(cut_end), .end_good(cut_good),
        .release_valid(cut_release), .release_pipe(cut_release_pipe),
        .jobs_idle(cut_jobs_idle), .forwards_idle(forwards_idle),
        .translate_quiet(translate_quiet && !jf_valid), .replicate_quiet(replicate_quiet),
        .out_ok(cut_ok), .upset(cut_upset), .job_granted(job_granted),
        .job_number(job_number_q),
        .load(cut_load), .go(cut_go), .hold(cut_hold), .hold_ep(cut_hold_ep), .busy(cut_busy),
        .owed(cut_owed),
        .ep(cut_ep), .pipe(cut_pipe), .number(cut_number), .send_valid(cut_send),
        .sent(cut_sent), .forwarded(cut_forwarded),
        .s_sum_valid(sum_valid), .s_sum_id(sum_id), .s_sum_last(sum_last), .s_sum_data(sum_data),
        .s_pay_valid(rep_pay_valid), .s_pay_ready(rep_pay_ready), .s_pay_data(rep_pay_data),
        .s_pay_last(rep_pay_last),
        .m_pay_valid(m_pay_valid), .m_pay_ready(m_pay_ready), .m_pay_data(m_pay_data),
        .m_pay_last(m_pay_last),
        .m_end_valid(m_end_valid), .m_end_ready(m_end_ready), .m_end_poison(m_end_poison),
        .stat_poisoned(cut_poisoned), .ret_valid(ret_cut_valid), .ret_rec(ret_cut_rec));
    end else begin : gen_cut_through
      assign cut_load      = 1'b0;
      assign cut_go        = 1'b0;
      assign cut_hold      = 1'b0;
      assign cut_hold_ep   = '0;
      assign cut_busy      = 1'b0;
      assign cut_owed      = 1'b0;
      assign cut_ep        = '0;
      assign cut_pipe      = '0;
      assign cut_number    = '0;
      assign cut_send      = 1'b0;
      assign cut_poisoned  = 1'b0;
      assign m_pay_valid   = rep_pay_valid;
      assign rep_pay_ready = m_pay_ready;
      assign m_pay_data    = rep_pay_data;
      assign m_pay_last    = rep_pay_last;
      assign m_end_valid   = 1'b0;
      assign m_end_poison  = 1'b0;
      assign ret_cut_valid = 1'b0;
      assign ret_cut_rec   = '0;
      wire unused_cut = &{1'b0, cut_decide, cut_result, cut_leaves, cut_mode2, cut_pays, cut_end,
                          cut_good, cut_release, cut_ok, cut_upset, cut_sent, cut_forwarded,
                          forwards_idle, translate_quiet, replicate_quiet, cut_jobs_idle,
                          m_end_ready,
                          cut_release_pipe,
                          sum_id};
    end
  endgenerate

  initial begin
    if (MODE2 == 0 && MODE3 == 0) $error("neither MODE2 nor MODE3 is built in");
    if ($bits(slot_meta) != inc_pkg::SLOT_META_W)
      $error("inc_pkg::SLOT_META_W is not $bits of slot_meta_t");
  end

  wire unused_ok = &{1'b0, t_out, t_index_q, ret_rx_valid, ret_rx_rec, ret_tx_valid,
                     ret_tx_rec, ret_cut_valid, ret_cut_rec, ret_fw_valid, ret_fw_rec,
                     ret_ack2_valid, ret_ack2_rec, ack_soon,
                     ack_leaf, ack_msn, ack_rule, sum_valid, sum_bank, sum_addr, sum_data,
                     sum_last, sum_diff, s_early_qpn, cut_frame};

endmodule

`default_nettype wire
