// Retransmission: cursors, timers and the walks that serve the outs in turn.
//
// One operation a clock enters a pipeline, each on one out-endpoint: an ACK from ReceiveAck, a
// visit of the sending walk, or a visit of the keeping walk; ACKs first, then three visits of the
// sending walk for one of the keeping walk. Both go round the outs of every live pipe. A sending
// visit sends the PSN at the cursor if it is released: nothing fresh can pass the cursor, so
// resends are only a cursor that went back. A keeping visit expires the timer or ends the RNR
// wait, and a whole walk over a pipe yields min(lastAcked)+1 for RecycleBuffer.
//
// Pipeline:      R, endpoint state arrives from its RAM; X, distances; Y, decision, write, record.
//                An operation waits in R while one on the same endpoint is in X or Y.
// Cut:           while freeze is 1 nothing is sent, no ACK is taken, and the timer of freeze_ep
//                does not expire. cut_rd, cut_rd_ep: look at an out; in the clock behind, cut_psn
//                is a PSN; one more, cut_ok says that it would be sent there next, if nothing was
//                upset in these two clocks. cut_send_*: that PSN has left there, and is entered as
//                sent (record number cut_number); held until cut_sent.
// Streams:       ack_* request, held until ack_done, with ack_verdict; job_* out (txjob_t).
// Latency:       ack_done in the clock after ack_valid if ack_soon_ep was its endpoint in the
//                clock before, else 1 more; the state is written, and the record given, in the
//                clock after that.
// Throughput:    one ACK per 2 clocks; one visit per clock without ACKs, one per 3 clocks on a
//                single out, so a send per 4 clocks at least.
// Back-pressure: job_valid is never held: a send is begun only while job_room is 1, which promises
//                a place for it and for the two that may be under way. ACKs and timers never wait
//                for it.
// In turn:       an out that may send waits for at most one frame of every other out (asserted):
//                a walk visits all of them before it comes back.
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
  input  wire                          rd_en,         // while idle: rd_state is it one clock later
  input  wire [EP_W-1:0]               rd_index,
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
  input  wire [EP_W-1:0]               ack_soon_ep,   // if one comes in the next clock, its
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
  input  wire                          cut_rd,
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

  typedef enum logic [1:0] {X_ACK, X_SEND, X_KEEP, X_CUT} x_e;
  typedef struct packed {
    logic                                is_out;    // the endpoint is one
    logic [31:0]                         deadline;
    logic [inc_spec_pkg::EP_TX_W-1:0]    st;        // ep_tx_t (native yosys: no nested types)
  } state_t;
  typedef struct packed {                           // what is needed of pipe_cfg
    logic [19:0] timeout;
    logic [3:0]  retries;
    logic [2:0]  backoff_max;
    logic [4:0]  n_log2;
    logic [3:0]  mtu_log2;
    logic [15:0] base_block;
  } cfg_t;

  // ------------------------------------------------------------------ time
  logic [31:0] now_q, div_q;
  logic        tick_q;

  // ------------------------------------------------------------------ the two walks
  wire [EP_W-1:0]          sw_index, kw_index;
  wire [11:0]              sw_out, kw_out;
  wire                     sw_rd, kw_rd, sw_valid, kw_valid, fetch_s, fetch_k;
  wire [EP_W-1:0]          sw_ep, kw_ep;
  wire [PIPE_W-1:0]        sw_pipe, kw_pipe;
  wire                     sw_first, sw_last, kw_first, kw_last;
  inc_spec_pkg::pipe_cfg_t sw_cfg, kw_cfg, f_cfg;

  inc_ram_1r1w #(.DATA_W(12), .DEPTH(ENDPOINTS)) u_send_list (
    .clk(clk), .wr_en(out_wr), .wr_addr(out_wr_index), .wr_data(out_wr_ep),
    .rd_en(sw_rd), .rd_addr(sw_index), .rd_data(sw_out));
  inc_ram_1r1w #(.DATA_W(12), .DEPTH(ENDPOINTS)) u_keep_list (
    .clk(clk), .wr_en(out_wr), .wr_addr(out_wr_index), .wr_data(out_wr_ep),
    .rd_en(kw_rd), .rd_addr(kw_index), .rd_data(kw_out));

  inc_out_walk #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_send_walk (
    .clk(clk), .rst(rst), .restart(init_pipe), .live(live),
    .cfg_pipe(send_cfg_pipe), .cfg(send_cfg), .out_rd(sw_rd), .out_index(sw_index),
    .out_ep(sw_out), .m_valid(sw_valid), .m_ready(fetch_s), .m_ep(sw_ep), .m_pipe(sw_pipe),
    .m_first(sw_first), .m_last(sw_last), .m_cfg(sw_cfg));

  inc_out_walk #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_keep_walk (
    .clk(clk), .rst(rst), .restart(init_pipe), .live(live),
    .cfg_pipe(keep_cfg_pipe), .cfg(keep_cfg), .out_rd(kw_rd), .out_index(kw_index),
    .out_ep(kw_out), .m_valid(kw_valid), .m_ready(fetch_k), .m_ep(kw_ep), .m_pipe(kw_pipe),
    .m_first(kw_first), .m_last(kw_last), .m_cfg(kw_cfg));

  // ------------------------------------------------------------------ R: one visit waits here
  logic              r_valid_q;
  x_e                r_q;
  logic [EP_W-1:0]   r_ep_q;
  logic [PIPE_W-1:0] r_pipe_q;
  logic              r_first_q, r_last_q;
  cfg_t              r_cfg_q, f_need, a_need;
  logic [1:0]        turn_q;            // 3: the keeping walk goes next

  // an operation on the same endpoint has not written yet
  logic              x_valid_q, y_valid_q;
  x_e                x_q;
  logic [EP_W-1:0]   x_ep_q, y_ep_q;
  wire   r_clash = (x_valid_q && x_ep_q == r_ep_q) || (y_valid_q && y_ep_q == r_ep_q);
  wire   a_clash = (x_valid_q && x_ep_q == ack_ep) || (y_valid_q && y_ep_q == ack_ep);
  logic [EP_W-1:0] a_ep_q;              // read in the clock before
  wire   a_taken = x_valid_q && x_q == X_ACK;
  wire   go_ack  = ack_valid && !a_taken && a_ep_q == ack_ep && !a_clash && !freeze;
  wire   c_clash = (x_valid_q && x_ep_q == cut_send_ep) || (y_valid_q && y_ep_q == cut_send_ep);
  wire   go_cut  = cut_send && a_ep_q == cut_send_ep && !c_clash;
  wire   go_r    = r_valid_q && !r_clash && !go_ack && !go_cut;
  wire   fetch   = !r_valid_q || go_r;
  wire   pick_s  = sw_valid && job_room && !hold && !(kw_valid && turn_q == 2'd3);
  assign fetch_s = fetch && pick_s && !freeze;
  assign fetch_k = fetch && kw_valid && !fetch_s && !hold_keep;
  assign cfg_pipe  = cut_send ? cut_send_pipe : ack_pipe;
  assign next_pipe = r_pipe_q;

  always_comb begin
    f_cfg = fetch_s ? sw_cfg : kw_cfg;
    f_need.timeout     = f_cfg.timeout;
    f_need.retries     = f_cfg.retries;
    f_need.backoff_max = f_cfg.backoff_max;
    f_need.n_log2      = f_cfg.n_log2;
    f_need.mtu_log2    = f_cfg.mtu_log2;
    f_need.base_block  = f_cfg.base_block;
    a_need.timeout     = cfg.timeout;
    a_need.retries     = cfg.retries;
    a_need.backoff_max = cfg.backoff_max;
    a_need.n_log2      = cfg.n_log2;
    a_need.mtu_log2    = cfg.mtu_log2;
    a_need.base_block  = cfg.base_block;
  end

  wire              wr_en;
  wire [EP_W-1:0]   wr_ep;
  state_t           wr_state, a_rd, r_rd;
  wire [EP_W-1:0]   f_ep    = fetch_s ? sw_ep : kw_ep;
  wire [EP_W-1:0]   a_rd_ep = rd_en ? rd_index
                            : cut_send ? cut_send_ep
                            : (ack_valid && !ack_done) ? ack_ep
                            : cut_rd ? cut_rd_ep : ack_soon_ep;
  inc_ram_1r1w #(.DATA_W($bits(r_rd)), .DEPTH(ENDPOINTS), .FORWARD(1)) u_state (
    .clk(clk), .wr_en(wr_en), .wr_addr(wr_ep), .wr_data(wr_state),
    .rd_en(1'b1), .rd_addr(fetch ? f_ep : r_ep_q), .rd_data(r_rd));
  inc_ram_1r1w #(.DATA_W($bits(a_rd)), .DEPTH(ENDPOINTS), .FORWARD(1)) u_state_ack (
    .clk(clk), .wr_en(wr_en), .wr_addr(wr_ep), .wr_data(wr_state),
    .rd_en(1'b1), .rd_addr(a_rd_ep), .rd_data(a_rd));
  assign rd_state = a_rd.st;
  inc_spec_pkg::ep_tx_t a_rd_st;
  assign a_rd_st = a_rd.st;
  logic            cut_rd_q, cut_ok_q;
  logic [EP_W-1:0] cut_ep_q;
  assign cut_ok = cut_ok_q;

  // ------------------------------------------------------------------ X: distances
  logic [PIPE_W-1:0]    x_pipe_q;
  logic                 x_first_q, x_last_q, x_out_q;
  inc_spec_pkg::ep_tx_t x_st_q;
  logic [31:0]          x_deadline_q;
  cfg_t                 x_cfg_q;
  logic [23:0]          x_next_q;       // nextSend of the pipe; older is safe, it only grows

  wire                  a_restart, a_progress, a_rnr;
  inc_spec_pkg::ep_tx_t a_st;
  inc_receive_ack u_ack (
    .clk(clk), .st(x_st_q), .psn(ack_psn), .syndrome(ack_syndrome), .verdict(ack_verdict),
    .st_d(a_st), .restart(a_restart), .progress(a_progress), .rnr_start(a_rnr));
  assign ack_done = x_valid_q && x_q == X_ACK;

  wire [23:0] x_sendable = x_next_q - x_st_q.cursor;        // > 0: results are waiting
  wire [23:0] x_fresh    = x_st_q.sent_max - x_st_q.cursor; // >= 0: sent before
  wire [31:0] x_overdue  = now_q - x_deadline_q;            // >= 0: the deadline has passed
  wire [3:0]  x_tries_max = {1'b0, x_cfg_q.backoff_max};
  wire [3:0]  x_doublings = x_st_q.retries > x_tries_max ? x_tries_max : x_st_q.retries;
  wire [23:0] x_slot      = inc_pkg::slot_of(x_st_q.cursor, x_cfg_q.n_log2);

  // ------------------------------------------------------------------ Y: decide and write
  x_e                   y_q;
  logic [PIPE_W-1:0]    y_pipe_q;
  logic                 y_first_q, y_last_q, y_out_q;
  inc_spec_pkg::ep_tx_t y_st_q, y_st_d;
  logic [31:0]          y_deadline_q, y_deadline_d;
  logic                 y_expired_q, y_tired_q, y_sendable_q, y_resend_q;
  logic [26:0]          y_timeout_q;    // with the doublings of its retries
  logic [19:0]          y_plain_q;      // without
  logic [16:0]          y_rnr_q;
  logic [23:0]          y_past_q, y_forth_q, y_slot_q;  // lastAcked + 1, cursor + 1
  logic [15:0]          y_block_q;
  logic [7:0]           y_verdict_q, y_syndrome_q;      // of an ACK, as the rest
  logic [23:0]          y_psn_q, y_ack_slot_q;
  logic [31:0]          y_frame_q;
  logic [3:0]           y_retries_q;    // allowed

  wire y_ack    = y_valid_q && y_q == X_ACK;
  wire y_send   = y_valid_q && y_q == X_SEND;
  wire y_keep   = y_valid_q && y_q == X_KEEP;
  wire a_ok     = y_ack && y_verdict_q == inc_spec_pkg::VERDICT_OK;
  wire do_timer = y_keep && y_st_q.timer_armed && y_expired_q && !(freeze && y_ep_q == freeze_ep);
  wire do_rnr   = y_keep && y_st_q.rnr_wait && y_expired_q;
  logic y_change;
  wire y_cut    = y_valid_q && y_q == X_CUT;
  wire do_job   = y_send && y_sendable_q && !pipe_error[y_pipe_q] && live[y_pipe_q] && !freeze;
  wire do_send  = do_job || y_cut;

  assign cut_sent  = y_cut;
  assign upset     = y_ack || y_change;
  assign job_maybe = y_send && y_sendable_q;
  assign job_valid = do_job;
  always_comb begin
    job         = '0;
    job.kind    = inc_pkg::TX_DATA;
    job.ack_req = 1'b1;
    job.ep      = 12'(y_ep_q);
    job.psn     = y_st_q.cursor;
    job.block   = y_block_q;
  end

  // one tick more than asked: the current one is partly over, and early is forbidden
  wire [31:0] timeout_at = now_q + 32'd1 + ((y_ack && a_progress) ? 32'(y_plain_q)
                                                                 : 32'(y_timeout_q));
  wire [31:0] rnr_at     = now_q + 32'd1 + 32'(y_rnr_q);

  always_comb begin
    y_st_d       = y_st_q;
    y_deadline_d = y_deadline_q;
    y_change     = 1'b0;
    if (a_ok) begin
      y_change = 1'b1;
      y_st_d   = a_st;
      if (a_restart) y_deadline_d = timeout_at;
      if (a_rnr)     y_deadline_d = rnr_at;
    end else if (do_timer) begin
      y_change           = 1'b1;
      y_st_d.timer_armed = 1'b0;
      if (y_tired_q) begin
        y_st_d.ep_error = 1'b1;
      end else begin
        y_st_d.retries = y_st_q.retries + 4'd1;
        y_st_d.cursor  = y_past_q;
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
    init_st.last_acked = init_ep_psn - 24'd1;
    init_st.cursor     = init_ep_psn;
    init_st.sent_max   = init_ep_psn - 24'd1;
  end

  assign wr_en = init_ep || y_change;
  assign wr_ep = init_ep ? init_ep_index : y_ep_q;
  assign wr_state.st       = init_ep ? init_st : y_st_d;
  assign wr_state.deadline = y_deadline_d;
  assign wr_state.is_out   = init_ep ? init_ep_out : y_out_q;

  assign err_valid = y_change && y_st_d.ep_error && !y_st_q.ep_error;
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
  assign idle = !r_valid_q && !x_valid_q && !y_valid_q;

  // ------------------------------------------------------------------ minimum of a walk
  logic [23:0] min_q;
  logic        min_ok_q;                        // all since the first of its pipe are outs
  wire  [23:0] below  = y_past_q - min_q;       // < 0: a new minimum
  wire  [23:0] min_d  = (y_first_q || below[23]) ? y_past_q : min_q;
  wire         min_ok = (y_first_q || min_ok_q) && y_out_q;
  assign min_valid = y_keep && y_last_q && min_ok && live[y_pipe_q];
  assign min_pipe  = y_pipe_q;
  assign min_psn   = min_d;

  always_ff @(posedge clk) begin
    tick_q <= div_q == 32'd1;
    div_q  <= div_q <= 32'd1 ? tick_clocks : div_q - 32'd1;
    if (tick_q) now_q <= now_q + 32'd1;

    // F to R
    if (fetch) begin
      r_valid_q <= fetch_s || fetch_k;
      r_q       <= fetch_s ? X_SEND : X_KEEP;
      r_ep_q    <= f_ep;
      r_pipe_q  <= fetch_s ? sw_pipe : kw_pipe;
      r_first_q <= kw_first;
      r_last_q  <= kw_last;
      r_cfg_q   <= f_need;
      turn_q    <= fetch_s ? turn_q + 2'd1 : 2'd0;
    end else if (go_r) begin
      r_valid_q <= 1'b0;
    end
    a_ep_q <= a_rd_ep;

    // R to X
    x_valid_q <= go_ack || go_r || go_cut;
    x_q       <= go_cut ? X_CUT : go_ack ? X_ACK : r_q;
    x_ep_q    <= go_cut ? cut_send_ep : go_ack ? ack_ep : r_ep_q;
    x_pipe_q  <= go_cut ? cut_send_pipe : go_ack ? ack_pipe : r_pipe_q;
    x_cfg_q   <= go_ack || go_cut ? a_need : r_cfg_q;
    {x_out_q, x_deadline_q, x_st_q} <= go_ack || go_cut ? a_rd : r_rd;
    cut_ok_q  <= cut_rd_q && a_ep_q == cut_ep_q && a_rd_st.cursor == cut_psn && a_rd.is_out
                 && !a_rd_st.rnr_wait && !a_rd_st.ep_error;
    cut_rd_q  <= cut_rd;
    cut_ep_q  <= cut_rd_ep;
    x_first_q <= r_first_q;
    x_last_q  <= r_last_q;
    x_next_q  <= next_send;

    // X to Y
    y_valid_q    <= x_valid_q;
    y_q          <= x_q;
    y_ep_q       <= x_ep_q;
    y_pipe_q     <= x_pipe_q;
    y_first_q    <= x_first_q;
    y_last_q     <= x_last_q;
    y_out_q      <= x_out_q;
    y_st_q       <= x_st_q;
    y_deadline_q <= x_deadline_q;
    y_expired_q  <= !x_overdue[31];
    y_tired_q    <= x_st_q.retries == x_cfg_q.retries;
    y_retries_q  <= x_cfg_q.retries;
    y_sendable_q <= x_out_q && !x_st_q.rnr_wait && !x_st_q.ep_error && !x_sendable[23]
                    && x_next_q != x_st_q.cursor;
    y_resend_q   <= !x_fresh[23];
    y_timeout_q  <= 27'(x_cfg_q.timeout) << x_doublings;
    y_plain_q    <= x_cfg_q.timeout;
    y_rnr_q      <= 17'(inc_spec_pkg::rnr_ticks(ack_syndrome[4:0]));
    y_past_q     <= x_st_q.last_acked + 24'd1;
    y_forth_q    <= x_st_q.cursor + 24'd1;
    y_slot_q     <= x_slot;
    y_block_q    <= x_cfg_q.base_block + 16'(x_slot << (x_cfg_q.mtu_log2 - 4'd8));
    y_verdict_q  <= ack_verdict;
    y_syndrome_q <= ack_syndrome;
    y_psn_q      <= ack_psn;
    y_frame_q    <= ack_frame;
    y_ack_slot_q <= inc_pkg::slot_of(ack_psn, x_cfg_q.n_log2);

    if (y_keep) begin
      min_q    <= min_d;
      min_ok_q <= min_ok && !y_last_q;
    end

    if (init_pipe) min_ok_q <= 1'b0;
    if (rst) begin
      now_q     <= '0;
      div_q     <= '0;
      tick_q    <= 1'b0;
      turn_q    <= 2'd0;
      r_valid_q <= 1'b0;
      x_valid_q <= 1'b0;
      y_valid_q <= 1'b0;
      min_ok_q  <= 1'b0;
    end
  end

`ifdef INC_ASSERT
  // One frame of every other out at most between two turns of an out that may send.
  logic [31:0]          f_sent_q;
  logic [31:0]          f_at_q [ENDPOINTS];
  logic [ENDPOINTS-1:0] f_more_q;               // could have sent another one
  always_ff @(posedge clk) begin
    if (do_send) f_sent_q <= f_sent_q + 32'd1;
    if (y_send) begin
      if (!rst && f_more_q[y_ep_q]) assert (f_sent_q - f_at_q[y_ep_q] <= 32'(ENDPOINTS));
      f_at_q[y_ep_q]   <= f_sent_q;
      f_more_q[y_ep_q] <= do_send;
    end
    if (init_pipe || init_ep || rst) f_more_q <= '0;
    if (rst) f_sent_q <= '0;
    if (!rst) assert (!(init_ep && y_change));
    if (!rst && y_cut) assert (!y_resend_q && !y_st_q.ep_error && !y_st_q.rnr_wait);
  end
`endif

  // ------------------------------------------------------------------ retirement
  assign ret_valid = y_ack || y_change;
  always_comb begin
    ret_rec          = '0;
    ret_rec.pipe_id  = 32'(y_pipe_q);
    ret_rec.endpoint = 32'(y_ep_q);
    ret_rec.verdict  = 32'(inc_spec_pkg::VERDICT_OK);
    ret_rec.groups   = 32'd2;
    if (y_ack) begin
      ret_rec.cause   = a_is_ack ? 32'(inc_spec_pkg::CAUSE_ACK) : 32'(inc_spec_pkg::CAUSE_NAK);
      ret_rec.verdict = 32'(y_verdict_q);
      ret_rec.frame   = y_frame_q;
      ret_rec.psn     = 32'(y_psn_q);
      ret_rec.slot    = 32'(y_ack_slot_q);
    end else if (do_timer) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_TIMER);
    end else if (do_rnr) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_RNR_EXPIRY);
    end else begin
      ret_rec.cause = y_resend_q ? 32'(inc_spec_pkg::CAUSE_RESEND)
                                 : 32'(inc_spec_pkg::CAUSE_SEND);
      ret_rec.frame = y_cut ? cut_number : job_number;
      ret_rec.psn   = 32'(y_st_q.cursor);
      ret_rec.slot  = 32'(y_slot_q);
    end
    ret_rec.last_acked  = 32'(y_st_d.last_acked);
    ret_rec.cursor      = 32'(y_st_d.cursor);
    ret_rec.sent_max    = 32'(y_st_d.sent_max);
    ret_rec.retries     = 32'(y_st_d.retries);
    ret_rec.timer_armed = 32'(y_st_d.timer_armed);
    ret_rec.rnr_wait    = 32'(y_st_d.rnr_wait);
    ret_rec.ep_error    = 32'(y_st_d.ep_error);
  end

  wire unused_ok = &{1'b0, a_rd, a_rd_st, x_overdue, x_fresh, x_sendable, below, cfg, f_cfg,
                     sw_first,
                     sw_last, x_slot};

endmodule

`default_nettype wire
