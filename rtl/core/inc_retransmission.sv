// Retransmission: cursors, timers and the walks that serve the outs in turn.
//
// One operation a clock enters a pipeline, each on one out-endpoint: an ACK from ReceiveAck, a
// visit of the sending walk, or a visit of the keeping walk; ACKs first, then three visits of the
// sending walk for one of the keeping walk. Both go round the outs of every live pipe. A sending
// visit sends the PSN at the cursor if it is released: nothing fresh can pass the cursor, so
// resends are only a cursor that went back. A keeping visit expires the timer or ends the RNR
// wait, and a whole walk over a pipe yields min(lastAcked)+1 for RecycleBuffer.
//
// Pipeline:      G, one of the walks is chosen; F, a visit waits, and its endpoint's state is
//                addressed; R, state arrives from its RAM; X, distances; Y, decision, record; W,
//                write. An operation waits in R while one on the same endpoint is in X or Y; what
//                is in W, or was a clock ago, is handed to it.
// Cut:           while freeze is 1 nothing is sent, no ACK is taken, and the timer of freeze_ep
//                does not expire. cut_rd_ep: look at an out; in the clock behind, cut_psn is a PSN;
//                one more, cut_ok says that it would be sent there next, if nothing was upset in
//                these two clocks. cut_send_*: that PSN has left there, and is entered as sent
//                (record number cut_number); held until cut_sent.
// Streams:       ack_* request, held until ack_done; its ack_verdict comes a clock after that.
//                job_* out (txjob_t); job_maybe, from a register: one may be given in this clock.
// Latency:       ack_done in the clock after ack_valid if ack_soon and ack_soon_ep came in the
//                clock before, else 1 more; up to 3 more behind a visit of the same out, and 3
//                behind one that has waited. The record is given in the clock after that.
// Throughput:    one ACK per 2 clocks; one visit per clock without ACKs, one per 3 clocks on a
//                single out, so a send per 4 clocks at least.
// Back-pressure: job_valid is never held: a send is begun only while job_room was 1 a clock ago,
//                which promises a place for it and for the seven that may be under way. ACKs and
//                timers never wait for it.
// In turn:       an out that may send waits for at most one frame of every other out (asserted):
//                a walk visits all of them before it comes back.
//                ACKs that come without a pause hold up a visit for a few clocks (asserted).
// Timers:        now counts ticks of tick_clocks clocks. An expiry is never early, and late by at
//                most one tick and one keeping walk: 4 clocks per out of all live pipes, 16 where
//                every visit meets an ACK or another visit of the same out. A pipe that binds is
//                not walked: what is due meanwhile comes after.
// Retirement:    ret_* one record in the clock an operation changes state.
// Reset:         no live pipe; endpoint state is unknown until init_ep.
// Parameters:    ENDPOINTS 2..4096, PIPES 2..256, powers of two.
// Source:        protocol.md 6 (sending, timers); microarchitecture.md "Commit order".
`default_nettype none

module inc_retransmission #(
  parameter int ENDPOINTS = 64,
  parameter int PIPES     = 16,
  parameter int EP_W      = $clog2(ENDPOINTS),
  parameter int PIPE_W    = $clog2(PIPES)
) (
  input  wire                          clk,
  input  wire                          rst,
  input  wire [31:0]                   tick_clocks,

  // table writes
  input  wire                          hold,          // begin no send
  input  wire                          hold_keep,     // begin no visit at all
  output wire                          idle,
  input  wire                          init_ep,
  input  wire [EP_W-1:0]               init_ep_index,
  input  wire [23:0]                   init_ep_psn,
  input  wire                          init_ep_out,   // 0: no longer an out: it sends nothing
  input  wire                          init_pipe,     // forget the walk
  input  wire                          out_wr,
  input  wire [EP_W-1:0]               out_wr_index,
  input  wire [11:0]                   out_wr_ep,
  input  wire [EP_W-1:0]               rd_index,      // while idle: rd_state is it a clock later
  output inc_spec_pkg::ep_tx_t         rd_state,

  // pipes
  input  wire [PIPES-1:0]              live,
  input  wire [PIPES-1:0]              pipe_error,
  output wire [PIPE_W-1:0]             next_pipe,     // asynchronous read of nextSend
  input  wire [23:0]                   next_send,
  output wire [PIPE_W-1:0]             cfg_pipe,      // asynchronous reads of pipe_cfg
  input  inc_spec_pkg::pipe_cfg_t      cfg,
  output wire [PIPE_W-1:0]             send_cfg_pipe,
  input  inc_spec_pkg::pipe_cfg_t      send_cfg,
  output wire [PIPE_W-1:0]             keep_cfg_pipe,
  input  inc_spec_pkg::pipe_cfg_t      keep_cfg,

  // acknowledgements
  input  wire                          ack_soon,      // one comes in the next clock
  input  wire [EP_W-1:0]               ack_soon_ep,   // if so, its
  input  wire                          ack_valid,
  input  wire [EP_W-1:0]               ack_ep,
  input  wire [PIPE_W-1:0]             ack_pipe,
  input  wire [23:0]                   ack_psn,
  input  wire [7:0]                    ack_syndrome,
  input  wire [31:0]                   ack_frame,
  output wire                          ack_done,
  output wire [7:0]                    ack_verdict,

  // a result that leaves while its last contribution arrives
  input  wire                          freeze,
  input  wire [EP_W-1:0]               freeze_ep,
  input  wire [EP_W-1:0]               cut_rd_ep,
  input  wire [23:0]                   cut_psn,
  output wire                          cut_ok,
  output wire                          upset,
  input  wire                          cut_send,
  input  wire [EP_W-1:0]               cut_send_ep,
  input  wire [PIPE_W-1:0]             cut_send_pipe,
  input  wire [31:0]                   cut_number,
  output wire                          cut_sent,

  // frames to send
  input  wire                          job_room,
  output wire                          job_maybe,     // there may be one in this clock
  output wire                          job_valid,
  output inc_pkg::txjob_t              job,
  input  wire [31:0]                   job_number,

  // to RecycleBuffer and Pipe
  output wire                          min_valid,
  output wire [PIPE_W-1:0]             min_pipe,
  output wire [23:0]                   min_psn,
  output wire                          err_valid,     // an out of err_pipe went to error
  output wire [PIPE_W-1:0]             err_pipe,

  output wire                          fault_valid,   // what put an endpoint in error
  output wire [7:0]                    fault_kind,
  output wire [11:0]                   fault_ep,
  output wire [23:0]                   fault_psn,
  output wire [31:0]                   fault_got,
  output wire [31:0]                   fault_wanted,
  output logic [inc_spec_pkg::EVENT_COUNT-1:0] stat_event,
  output wire                          ret_valid,
  output inc_spec_pkg::record_t        ret_rec
);

  typedef struct packed {
    logic                                is_out;    // the endpoint is one
    logic [2:0]                          doublings; // of the timeout: min(retries, backoff_max)
    logic [31:0]                         deadline;
    logic [inc_spec_pkg::EP_TX_W-1:0]    st;        // ep_tx_t (native yosys: no nested types)
  } state_t;

  // ------------------------------------------------------------------ table writes, from registers
  logic            init_ep_q, init_ep_out_q, init_pipe_q, out_wr_q;
  logic [EP_W-1:0] init_ep_index_q, out_wr_index_q;
  logic [23:0]     init_ep_psn_q;
  logic [11:0]     out_wr_ep_q;
  always_ff @(posedge clk) begin
    init_ep_q       <= init_ep;
    init_ep_index_q <= init_ep_index;
    init_ep_psn_q   <= init_ep_psn;
    init_ep_out_q   <= init_ep_out;
    init_pipe_q     <= init_pipe;
    out_wr_q        <= out_wr;
    out_wr_index_q  <= out_wr_index;
    out_wr_ep_q     <= out_wr_ep;
    if (rst) begin
      init_ep_q   <= 1'b0;
      init_pipe_q <= 1'b0;
      out_wr_q    <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ time
  logic [31:0] now_q, next_q, div_q;    // next_q: one tick later than now
  logic        tick_q;

  // ------------------------------------------------------------------ G: the two walks
  wire [EP_W-1:0]          sw_index, kw_index;
  wire [11:0]              sw_out, kw_out;
  wire                     sw_rd, kw_rd, sw_valid, kw_valid, fetch_s, fetch_k;
  wire [EP_W-1:0]          sw_ep, kw_ep;
  wire [PIPE_W-1:0]        sw_pipe, kw_pipe;
  wire                     sw_first, sw_last, kw_first, kw_last;
  inc_spec_pkg::pipe_cfg_t sw_cfg, kw_cfg, g_cfg;

  inc_ram_1r1w #(.DATA_W(12), .DEPTH(ENDPOINTS)) u_send_list (
    .clk(clk), .wr_en(out_wr_q), .wr_addr(out_wr_index_q), .wr_data(out_wr_ep_q),
    .rd_en(sw_rd), .rd_addr(sw_index), .rd_data(sw_out));
  inc_ram_1r1w #(.DATA_W(12), .DEPTH(ENDPOINTS)) u_keep_list (
    .clk(clk), .wr_en(out_wr_q), .wr_addr(out_wr_index_q), .wr_data(out_wr_ep_q),
    .rd_en(kw_rd), .rd_addr(kw_index), .rd_data(kw_out));

  inc_out_walk #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_send_walk (
    .clk(clk), .rst(rst), .restart(init_pipe_q), .live(live),
    .cfg_pipe(send_cfg_pipe), .cfg(send_cfg), .out_rd(sw_rd), .out_index(sw_index),
    .out_ep(sw_out), .m_valid(sw_valid), .m_ready(fetch_s), .m_ep(sw_ep), .m_pipe(sw_pipe),
    .m_first(sw_first), .m_last(sw_last), .m_cfg(sw_cfg));

  inc_out_walk #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_keep_walk (
    .clk(clk), .rst(rst), .restart(init_pipe_q), .live(live),
    .cfg_pipe(keep_cfg_pipe), .cfg(keep_cfg), .out_rd(kw_rd), .out_index(kw_index),
    .out_ep(kw_out), .m_valid(kw_valid), .m_ready(fetch_k), .m_ep(kw_ep), .m_pipe(kw_pipe),
    .m_first(kw_first), .m_last(kw_last), .m_cfg(kw_cfg));

  logic       send_ok_q, keep_ok_q;
  logic [1:0] turn_q;                   // 3: the keeping walk goes next
  wire        g_ready;
  wire        pick_s = sw_valid && send_ok_q && !(kw_valid && turn_q == 2'd3);
  wire        pick_k = kw_valid && keep_ok_q && !pick_s;
  assign fetch_s = g_ready && pick_s;
  assign fetch_k = g_ready && pick_k;
  assign g_cfg   = pick_s ? sw_cfg : kw_cfg;

  // ------------------------------------------------------------------ F: a visit waits
  localparam int CFG_W   = 20 + 4 + 3 + 5 + 4 + 16;    // what is needed of pipe_cfg
  localparam int VISIT_W = 1 + EP_W + PIPE_W + 1 + 1 + CFG_W;
  wire              f_valid, f_send, f_first, f_last;
  wire [EP_W-1:0]   f_ep;
  wire [PIPE_W-1:0] f_pipe;
  wire [19:0]       f_timeout;
  wire [3:0]        f_retries, f_mtu_log2;
  wire [2:0]        f_backoff_max;
  wire [4:0]        f_n_log2;
  wire [15:0]       f_base_block;
  wire              fetch;
  inc_skid #(.DATA_W(VISIT_W)) u_visit (
    .clk(clk), .rst(rst), .s_valid(pick_s || pick_k), .s_ready(g_ready),
    .s_data({pick_s, pick_s ? sw_ep : kw_ep, pick_s ? sw_pipe : kw_pipe, kw_first, kw_last,
             g_cfg.timeout, g_cfg.retries, g_cfg.backoff_max, g_cfg.n_log2, g_cfg.mtu_log2,
             g_cfg.base_block}),
    .m_valid(f_valid), .m_ready(fetch),
    .m_data({f_send, f_ep, f_pipe, f_first, f_last, f_timeout, f_retries, f_backoff_max,
             f_n_log2, f_mtu_log2, f_base_block}));

  // ------------------------------------------------------------------ R: its state arrives
  logic              r_valid_q, r_send_q, r_first_q, r_last_q;
  logic [EP_W-1:0]   r_ep_q;
  logic [PIPE_W-1:0] r_pipe_q;
  logic [19:0]       r_timeout_q;
  logic [3:0]        r_retries_q;
  logic [2:0]        r_backoff_max_q, r_shift_q;
  logic [4:0]        r_n_log2_q;
  logic [15:0]       r_base_q, r_mask_q;    // mask: bits of a slot's number

  logic              x_ack_q, x_cut_q, x_send_q, x_keep_q, y_ack_q, y_cut_q, y_send_q, y_keep_q;
  logic [EP_W-1:0]   x_ep_q, y_ep_q, w_ep_q;
  logic              w_valid_q, w_change_q, v_change_q;
  state_t            w_state_q, v_state_q;  // v: what was in W a clock ago
  wire  x_valid = x_ack_q || x_cut_q || x_send_q || x_keep_q;
  wire  y_valid = y_ack_q || y_cut_q || y_send_q || y_keep_q;

  // Ready: the state was addressed in the clock before, and no operation on the same endpoint is in
  // X or Y; w, v: one is there. Compared a clock ahead.
  logic r_ready_q, r_eq_w_q, r_eq_v_q;
  logic a_ready_q, c_ready_q, a_eq_w_q, a_eq_v_q;   // of an ACK, of a copy that has left
  // ACKs that come one behind the other on one endpoint would never let a visit of it go, nor any
  // that is behind: one that has waited for four clocks goes before the next ACK.
  logic [3:0] r_wait_q;                  // clocks that the visit in R has waited
  wire  r_turn = r_wait_q[2] || r_wait_q[3];
  wire  go_ack = ack_valid && a_ready_q && !freeze && !r_turn;
  wire  go_cut = cut_send && c_ready_q;
  wire  go_a   = go_ack || go_cut;
  wire  go_r   = r_ready_q && !go_a;
  assign fetch = !r_valid_q || go_r;
  assign cfg_pipe  = cut_send ? cut_send_pipe : ack_pipe;
  assign next_pipe = r_pipe_q;
  assign ack_done  = x_ack_q;

  wire              ack_waits = ack_valid && !x_ack_q;
  wire [EP_W-1:0]   a_ep      = cut_send ? cut_send_ep : ack_ep;     // of what goes from there
  wire [EP_W-1:0]   a_ep_d    = cut_send || ack_waits ? a_ep
                              : !keep_ok_q ? rd_index : ack_soon_ep;
  wire [EP_W-1:0]   r_ep_d    = fetch ? f_ep : r_ep_q;
  wire              f_clash   = x_valid && f_ep == x_ep_q;
  wire              r_clash   = x_valid && r_ep_q == x_ep_q;
  wire              a_clash   = x_valid && a_ep_d == x_ep_q;
  wire              wr_en;
  wire [EP_W-1:0]   wr_ep;
  state_t           wr_state, a_ram, r_ram, a_rd, r_rd;
  inc_spec_pkg::ep_tx_t wr_st;
  inc_ram_1r1w #(.DATA_W($bits(r_ram)), .DEPTH(ENDPOINTS), .FORWARD(3)) u_state (
    .clk(clk), .wr_en(wr_en), .wr_addr(wr_ep), .wr_data(wr_state),
    .rd_en(1'b1), .rd_addr(r_ep_d), .rd_data(r_ram));
  inc_ram_1r1w #(.DATA_W($bits(a_ram)), .DEPTH(ENDPOINTS), .FORWARD(3)) u_state_ack (
    .clk(clk), .wr_en(wr_en), .wr_addr(wr_ep), .wr_data(wr_state),
    .rd_en(1'b1), .rd_addr(a_ep_d), .rd_data(a_ram));
  assign r_rd = r_eq_w_q ? w_state_q : r_eq_v_q ? v_state_q : r_ram;
  assign a_rd = a_eq_w_q ? w_state_q : a_eq_v_q ? v_state_q : a_ram;
  assign rd_state = a_ram.st;

  // What a copy that would leave at once is held to: the cursor of an out that may send.
  wire [24:0] c_rd;
  logic       cut_ok_q;
  inc_ram_1r1w #(.DATA_W(25), .DEPTH(ENDPOINTS), .FORWARD(3), .RAM_STYLE("distributed")) u_cursor (
    .clk(clk), .wr_en(wr_en), .wr_addr(wr_ep),
    .wr_data({wr_state.is_out && !wr_st.rnr_wait && !wr_st.ep_error, wr_st.cursor}),
    .rd_en(1'b1), .rd_addr(cut_rd_ep), .rd_data(c_rd));
  always_ff @(posedge clk) cut_ok_q <= c_rd[24] && c_rd[23:0] == cut_psn;
  assign cut_ok = cut_ok_q;

  // ------------------------------------------------------------------ X: distances
  // A state for each of the two RAMs: which of them counts is seen in the next clock.
  logic [PIPE_W-1:0]    x_pipe_q;
  logic                 x_first_q, x_last_q, xa_out_q, xr_out_q;
  logic [2:0]           xa_doublings_q, xr_doublings_q, x_backoff_max_q, x_shift_q;
  logic [31:0]          xa_deadline_q, xr_deadline_q;
  inc_spec_pkg::ep_tx_t xa_st_q, xr_st_q;
  logic [19:0]          x_timeout_q;
  logic [3:0]           x_retries_q;
  logic [4:0]           x_n_log2_q;
  logic [15:0]          x_base_q, x_mask_q;
  logic [16:0]          x_rnr_q;
  logic [23:0]          x_next_q;       // nextSend of the pipe; older is safe, it only grows

  wire                  a_restart, a_progress, a_rnr, a_fatal;
  wire [7:0]            a_verdict;
  inc_spec_pkg::ep_tx_t a_st;
  inc_receive_ack u_ack (
    .clk(clk), .psn(ack_psn), .syndrome(ack_syndrome), .st(xa_st_q), .verdict(a_verdict),
    .st_d(a_st), .restart(a_restart), .progress(a_progress), .rnr_start(a_rnr),
    .fatal(a_fatal));
  assign ack_verdict = a_verdict;

  wire [23:0] x_sendable = x_next_q - xr_st_q.cursor;         // > 0: results are waiting
  wire [23:0] x_fresh    = xr_st_q.sent_max - xr_st_q.cursor; // >= 0: sent before
  wire [31:0] x_overdue  = now_q - xr_deadline_q;             // >= 0: the deadline has passed
  wire        x_a         = x_ack_q || x_cut_q;
  wire [2:0]  x_doublings = x_a ? xa_doublings_q : xr_doublings_q;
  wire [15:0] x_slot      = xr_st_q.cursor[15:0] & x_mask_q;

  // ------------------------------------------------------------------ Y: decide
  logic [PIPE_W-1:0]    y_pipe_q;
  logic                 y_first_q, y_last_q, y_out_q, y_live_q;
  logic [2:0]           y_doublings_q, y_doublings_d;
  inc_spec_pkg::ep_tx_t y_st_q, y_st_d;
  logic [31:0]          y_deadline_q, y_deadline_d;
  logic                 y_timer_q, y_rnr_q, y_may_q;  // its timer has expired; it may send
  logic                 y_tired_q, y_maxed_q, y_resend_q, y_frozen_q;
  logic [26:0]          y_timeout_q;            // with the doublings of its retries
  logic [31:0]          y_plain_at_q, y_rnr_at_q;
  logic [23:0]          y_past_q, y_forth_q;    // lastAcked + 1, cursor + 1
  logic [15:0]          y_base_q, y_offset_q;
  logic [7:0]           y_syndrome_q;           // of an ACK, as the rest
  logic [23:0]          y_psn_q;
  logic [31:0]          y_frame_q;
  logic [3:0]           y_retries_q;            // allowed
  logic [4:0]           y_n_log2_q;

  wire a_ok     = y_ack_q && a_verdict == inc_spec_pkg::VERDICT_OK;
  wire do_timer = y_timer_q && !(freeze && y_frozen_q);
  wire do_rnr   = y_rnr_q;
  wire do_job   = y_may_q && !pipe_error[y_pipe_q] && !freeze;
  wire do_send  = do_job || y_cut_q;

  assign cut_sent  = y_cut_q;
  // Also what the state that was looked at may not have had in it yet.
  assign upset     = y_ack_q || y_cut_q || y_may_q || y_timer_q || y_rnr_q || w_change_q
                     || v_change_q;
  assign job_maybe = y_may_q;
  assign job_valid = do_job;
  always_comb begin
    job         = '0;
    job.kind    = inc_pkg::TX_DATA;
    job.ack_req = 1'b1;
    job.ep      = 12'(y_ep_q);
    job.psn     = y_st_q.cursor;
    job.block   = y_base_q + y_offset_q;
  end

  wire [31:0] timeout_at = next_q + 32'(y_timeout_q);

  logic y_change;
  always_comb begin
    y_st_d        = y_st_q;
    y_deadline_d  = y_deadline_q;
    y_doublings_d = y_doublings_q;
    y_change      = 1'b0;
    if (a_ok) begin
      y_change = 1'b1;
      y_st_d   = a_st;
      if (a_progress) y_doublings_d = 3'd0;
      if (a_restart)  y_deadline_d = a_progress ? y_plain_at_q : timeout_at;
      if (a_rnr)      y_deadline_d = y_rnr_at_q;
    end else if (do_timer) begin
      y_change           = 1'b1;
      y_st_d.timer_armed = 1'b0;
      if (y_tired_q) begin
        y_st_d.ep_error = 1'b1;
      end else begin
        y_st_d.retries = y_st_q.retries + 4'd1;
        y_st_d.cursor  = y_past_q;
        y_doublings_d  = y_doublings_q + 3'(!y_maxed_q);
      end
    end else if (do_rnr) begin
      y_change        = 1'b1;
      y_st_d.rnr_wait = 1'b0;
    end else if (do_send) begin
      y_change      = 1'b1;
      y_st_d.cursor = y_forth_q;
      if (!y_resend_q) y_st_d.sent_max = y_st_q.cursor;
      if (!y_st_q.timer_armed) begin
        y_st_d.timer_armed = 1'b1;
        y_deadline_d       = timeout_at;
      end
    end
  end

  inc_spec_pkg::ep_tx_t init_st;
  always_comb begin
    init_st            = '0;
    init_st.last_acked = init_ep_psn_q - 24'd1;
    init_st.cursor     = init_ep_psn_q;
    init_st.sent_max   = init_ep_psn_q - 24'd1;
  end

  // ------------------------------------------------------------------ W: write
  assign wr_en              = init_ep_q || w_change_q;
  assign wr_ep              = init_ep_q ? init_ep_index_q : w_ep_q;
  assign wr_st              = init_ep_q ? init_st : w_state_q.st;
  assign wr_state.st        = wr_st;
  assign wr_state.deadline  = w_state_q.deadline;
  assign wr_state.doublings = init_ep_q ? 3'd0 : w_state_q.doublings;
  assign wr_state.is_out    = init_ep_q ? init_ep_out_q : w_state_q.is_out;

  assign err_valid = ((a_ok && a_fatal) || (do_timer && y_tired_q)) && !y_st_q.ep_error;
  assign err_pipe  = y_pipe_q;

  assign fault_valid  = err_valid;
  assign fault_kind   = do_timer ? inc_spec_pkg::ERROR_KIND_RETRIES
                                 : inc_spec_pkg::ERROR_KIND_FATAL_NAK;
  assign fault_ep     = 12'(y_ep_q);
  assign fault_psn    = do_timer ? y_past_q : y_psn_q;
  assign fault_got    = do_timer ? 32'(y_st_q.retries) + 32'd1 : 32'(y_syndrome_q);
  assign fault_wanted = do_timer ? 32'(y_retries_q) : 32'(inc_spec_pkg::SYNDROME_ACK);

  wire a_is_ack = inc_pkg::syndrome_is_ack(y_syndrome_q);
  wire a_is_rnr = inc_pkg::syndrome_is_rnr(y_syndrome_q);
  always_comb begin
    stat_event = '0;
    stat_event[inc_spec_pkg::EVENT_RX_ACK]     = a_ok && a_is_ack;
    stat_event[inc_spec_pkg::EVENT_RX_RNR]     = a_ok && a_is_rnr;
    stat_event[inc_spec_pkg::EVENT_RX_NAK]     = a_ok && !a_is_ack && !a_is_rnr;
    stat_event[inc_spec_pkg::EVENT_TX_DATA]    = do_send && !y_resend_q;
    stat_event[inc_spec_pkg::EVENT_TX_RESEND]  = do_send && y_resend_q;
    stat_event[inc_spec_pkg::EVENT_TIMER]      = do_timer;
    stat_event[inc_spec_pkg::EVENT_RNR_EXPIRY] = do_rnr;
    stat_event[inc_spec_pkg::EVENT_EP_ERROR]   = err_valid;
  end
  assign idle = !keep_ok_q && !f_valid && !r_valid_q && !x_valid && !y_valid && !w_valid_q;

  // ------------------------------------------------------------------ minimum of a walk
  logic [23:0] min_q;
  logic        min_ok_q;                        // all since the first of its pipe are outs
  wire  [23:0] below  = y_past_q - min_q;       // < 0: a new minimum
  wire  [23:0] min_d  = (y_first_q || below[23]) ? y_past_q : min_q;
  wire         min_ok = (y_first_q || min_ok_q) && y_out_q;
  logic              min_valid_q;
  logic [PIPE_W-1:0] min_pipe_q;
  assign min_valid = min_valid_q;
  assign min_pipe  = min_pipe_q;
  assign min_psn   = min_q;

  always_ff @(posedge clk) begin
    tick_q <= div_q == 32'd1;
    div_q  <= div_q <= 32'd1 ? tick_clocks : div_q - 32'd1;
    if (tick_q) begin
      now_q  <= now_q + 32'd1;
      next_q <= next_q + 32'd1;
    end

    // G
    send_ok_q <= job_room && !hold;
    keep_ok_q <= !hold_keep;
    if (fetch_s)      turn_q <= turn_q + 2'd1;
    else if (fetch_k) turn_q <= 2'd0;

    // F to R
    if (fetch) begin
      r_valid_q       <= f_valid;
      r_send_q        <= f_send;
      r_ep_q          <= f_ep;
      r_pipe_q        <= f_pipe;
      r_first_q       <= f_first;
      r_last_q        <= f_last;
      r_timeout_q     <= f_timeout;
      r_retries_q     <= f_retries;
      r_backoff_max_q <= f_backoff_max;
      r_n_log2_q      <= f_n_log2;
      r_base_q        <= f_base_block;
      r_mask_q        <= ~(16'hffff << f_n_log2);
      r_shift_q       <= 3'(f_mtu_log2 - 4'd8);
    end
    case ({fetch, go_a})
      2'b11:   r_ready_q <= f_valid && !f_clash && f_ep != a_ep;
      2'b10:   r_ready_q <= f_valid && !f_clash && !(r_valid_q && f_ep == r_ep_q);
      2'b01:   r_ready_q <= !r_clash && r_ep_q != a_ep;
      default: r_ready_q <= !r_clash;
    endcase
    r_eq_w_q <= y_valid && (fetch ? f_ep == y_ep_q : r_ep_q == y_ep_q);
    r_eq_v_q <= w_valid_q && (fetch ? f_ep == w_ep_q : r_ep_q == w_ep_q);
    // Not in the clock behind one: then it is in X, and the next is not offered yet.
    a_ready_q <= ((ack_waits && !go_ack) || (ack_soon && keep_ok_q)) && !cut_send && !a_clash
                 && !(go_r && a_ep_d == r_ep_q);
    c_ready_q <= cut_send && !go_cut && !a_clash && !(go_r && a_ep_d == r_ep_q);
    a_eq_w_q <= y_valid && a_ep_d == y_ep_q;
    a_eq_v_q <= w_valid_q && a_ep_d == w_ep_q;

    r_wait_q <= !r_valid_q || go_r ? '0 : r_wait_q + 4'd1;

    // R to X
    x_ack_q         <= go_ack;
    x_send_q        <= go_r && r_send_q;
    x_keep_q        <= go_r && !r_send_q;
    x_cut_q         <= go_cut;
    x_ep_q          <= go_a ? a_ep : r_ep_q;
    x_pipe_q        <= go_a ? cfg_pipe : r_pipe_q;
    x_timeout_q     <= go_a ? cfg.timeout : r_timeout_q;
    x_n_log2_q      <= go_a ? cfg.n_log2 : r_n_log2_q;
    x_retries_q     <= r_retries_q;
    x_backoff_max_q <= r_backoff_max_q;
    x_base_q        <= r_base_q;
    x_mask_q        <= r_mask_q;
    x_shift_q       <= r_shift_q;
    x_first_q       <= r_first_q;
    x_last_q        <= r_last_q;
    x_next_q        <= next_send;
    x_rnr_q         <= 17'(inc_spec_pkg::rnr_ticks(ack_syndrome[4:0]));
    {xa_out_q, xa_doublings_q, xa_deadline_q, xa_st_q} <= a_rd;
    {xr_out_q, xr_doublings_q, xr_deadline_q, xr_st_q} <= r_rd;

    // X to Y
    y_ack_q       <= x_ack_q;
    y_cut_q       <= x_cut_q;
    y_send_q      <= x_send_q;
    y_keep_q      <= x_keep_q;
    y_ep_q        <= x_ep_q;
    y_pipe_q      <= x_pipe_q;
    y_first_q     <= x_first_q;
    y_last_q      <= x_last_q;
    y_live_q      <= live[x_pipe_q];
    y_out_q       <= x_a ? xa_out_q : xr_out_q;
    y_st_q        <= x_a ? xa_st_q : xr_st_q;
    y_deadline_q  <= x_a ? xa_deadline_q : xr_deadline_q;
    y_doublings_q <= x_doublings;
    y_timer_q     <= x_keep_q && xr_st_q.timer_armed && !x_overdue[31];
    y_rnr_q       <= x_keep_q && xr_st_q.rnr_wait && !x_overdue[31];
    y_frozen_q    <= x_ep_q == freeze_ep;
    y_tired_q     <= xr_st_q.retries == x_retries_q;
    y_maxed_q     <= xr_doublings_q == x_backoff_max_q;
    y_retries_q   <= x_retries_q;
    y_may_q       <= x_send_q && xr_out_q && !xr_st_q.rnr_wait && !xr_st_q.ep_error
                     && live[x_pipe_q] && !x_sendable[23] && x_next_q != xr_st_q.cursor;
    y_resend_q    <= !x_cut_q && !x_fresh[23];
    // One tick more than asked: the current one is partly over, and early is forbidden.
    y_timeout_q   <= 27'(x_timeout_q) << x_doublings;
    y_plain_at_q  <= next_q + 32'(x_timeout_q);
    y_rnr_at_q    <= next_q + 32'(x_rnr_q);
    y_past_q      <= xr_st_q.last_acked + 24'd1;
    y_forth_q     <= (x_cut_q ? xa_st_q.cursor : xr_st_q.cursor) + 24'd1;
    y_base_q      <= x_base_q;
    y_offset_q    <= x_slot << x_shift_q;
    y_n_log2_q    <= x_n_log2_q;
    y_syndrome_q  <= ack_syndrome;
    y_psn_q       <= ack_psn;
    y_frame_q     <= ack_frame;

    // Y to W
    w_valid_q           <= y_valid;
    w_change_q          <= y_change;
    w_ep_q              <= y_ep_q;
    w_state_q.st        <= y_st_d;
    w_state_q.deadline  <= y_deadline_d;
    w_state_q.doublings <= y_doublings_d;
    w_state_q.is_out    <= y_out_q;
    v_state_q           <= w_state_q;
    v_change_q          <= w_change_q;

    min_valid_q <= y_keep_q && y_last_q && min_ok && y_live_q;
    min_pipe_q  <= y_pipe_q;
    if (y_keep_q) begin
      min_q    <= min_d;
      min_ok_q <= min_ok && !y_last_q;
    end

    if (init_pipe_q) min_ok_q <= 1'b0;
    if (rst) begin
      now_q       <= '0;
      next_q      <= 32'd1;
      div_q       <= '0;
      tick_q      <= 1'b0;
      send_ok_q   <= 1'b0;
      keep_ok_q   <= 1'b0;
      turn_q      <= 2'd0;
      r_valid_q   <= 1'b0;
      r_ready_q   <= 1'b0;
      r_wait_q    <= '0;
      a_ready_q   <= 1'b0;
      c_ready_q   <= 1'b0;
      x_ack_q     <= 1'b0;
      x_cut_q     <= 1'b0;
      x_send_q    <= 1'b0;
      x_keep_q    <= 1'b0;
      y_ack_q     <= 1'b0;
      y_cut_q     <= 1'b0;
      y_send_q    <= 1'b0;
      y_keep_q    <= 1'b0;
      y_may_q     <= 1'b0;
      y_timer_q   <= 1'b0;
      y_rnr_q     <= 1'b0;
      w_valid_q   <= 1'b0;
      w_change_q  <= 1'b0;
      min_valid_q <= 1'b0;
      min_ok_q    <= 1'b0;
    end
  end

`ifdef INC_ASSERT
  // One frame of every other out at most between two turns of an out that may send.
  logic [31:0]          f_sent_q;
  logic [31:0]          f_at_q [ENDPOINTS];
  logic [ENDPOINTS-1:0] f_more_q;               // could have sent another one
  always_ff @(posedge clk) begin
    if (do_send) f_sent_q <= f_sent_q + 32'd1;
    if (y_send_q) begin
      if (!rst && f_more_q[y_ep_q]) assert (f_sent_q - f_at_q[y_ep_q] <= 32'(ENDPOINTS));
      f_at_q[y_ep_q]   <= f_sent_q;
      f_more_q[y_ep_q] <= do_send;
    end
    if (init_pipe || init_ep || rst) f_more_q <= '0;
    if (rst) f_sent_q <= '0;
    if (!rst) assert (!(init_ep_q && (y_change || w_change_q)));
    if (!rst) assert (!do_job || job_maybe);
    if (!rst && y_cut_q) assert (!y_st_q.ep_error && !y_st_q.rnr_wait);
    // A visit is never held up for long, whatever comes.
    if (!rst) assert (r_wait_q < 4'd12);
  end
`endif

  // ------------------------------------------------------------------ retirement
  assign ret_valid = y_ack_q || y_change;
  always_comb begin
    ret_rec          = '0;
    ret_rec.pipe_id  = 32'(y_pipe_q);
    ret_rec.endpoint = 32'(y_ep_q);
    ret_rec.verdict  = 32'(inc_spec_pkg::VERDICT_OK);
    ret_rec.groups   = 32'd2;
    if (y_ack_q) begin
      ret_rec.cause   = a_is_ack ? 32'(inc_spec_pkg::CAUSE_ACK) : 32'(inc_spec_pkg::CAUSE_NAK);
      ret_rec.verdict = 32'(a_verdict);
      ret_rec.frame   = y_frame_q;
      ret_rec.psn     = 32'(y_psn_q);
      ret_rec.slot    = 32'(inc_pkg::slot_of(y_psn_q, y_n_log2_q));
    end else if (do_timer) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_TIMER);
    end else if (do_rnr) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_RNR_EXPIRY);
    end else begin
      ret_rec.cause = y_resend_q ? 32'(inc_spec_pkg::CAUSE_RESEND)
                                 : 32'(inc_spec_pkg::CAUSE_SEND);
      ret_rec.frame = y_cut_q ? cut_number : job_number;
      ret_rec.psn   = 32'(y_st_q.cursor);
      ret_rec.slot  = 32'(inc_pkg::slot_of(y_st_q.cursor, y_n_log2_q));
    end
    ret_rec.last_acked  = 32'(y_st_d.last_acked);
    ret_rec.cursor      = 32'(y_st_d.cursor);
    ret_rec.sent_max    = 32'(y_st_d.sent_max);
    ret_rec.retries     = 32'(y_st_d.retries);
    ret_rec.timer_armed = 32'(y_st_d.timer_armed);
    ret_rec.rnr_wait    = 32'(y_st_d.rnr_wait);
    ret_rec.ep_error    = 32'(y_st_d.ep_error);
  end

  wire unused_ok = &{1'b0, x_overdue, wr_st, x_fresh, x_sendable, below, cfg, g_cfg, sw_first,
                     sw_last, f_mtu_log2, y_n_log2_q};

endmodule

`default_nettype wire
