// Retransmission: cursors, timers and the walks that serve the outs in turn.
//
// One operation at a time on one out-endpoint: an ACK from ReceiveAck, a visit of the sending
// walk, or a visit of the keeping walk; ACKs first, the walks in turn. Both walks go round the outs
// of every live pipe. A sending visit sends the PSN at the cursor if it is released: nothing fresh
// can pass the cursor, so resends are only a cursor that went back. A keeping visit expires the
// timer or ends the RNR wait, and a whole walk over a pipe yields min(lastAcked)+1 for
// RecycleBuffer.
//
// Streams:       ack_* request, ack_done one clock with ack_verdict; job_* out (txjob_t).
// Latency:       ACK to state written: 2 clocks.
// Throughput:    one operation per 2 clocks: a send per 4 clocks with the timers kept.
// Back-pressure: job_ready low parks one out that may send; it goes first when there is room.
//                ACKs and timers never wait for it.
// Timers:        now counts ticks of tick_clocks clocks. An expiry is never early, and late by at
//                most one tick and one keeping walk: 4 clocks per out of all live pipes, 8 where
//                ACKs come without a pause.
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
  input  wire                          hold,          // begin no visit
  output wire                          idle,
  input  wire                          init_ep,
  input  wire [EP_W-1:0]               init_ep_index,
  input  wire [23:0]                   init_ep_psn,
  input  wire                          init_ep_out,   // 0: no longer an out: it sends nothing
  input  wire                          init_pipe,     // forget the walk
  input  wire                          out_wr,
  input  wire [11:0]                   out_wr_index,
  input  wire [11:0]                   out_wr_ep,
  input  wire [11:0]                   rd_index,      // combinational read-back while idle
  output inc_spec_pkg::ep_tx_t         rd_state,
  output wire [11:0]                   rd_out,

  // pipes
  input  wire [PIPES-1:0]              live,
  input  wire [PIPES-1:0]              pipe_error,
  output wire [PIPE_W-1:0]             next_pipe,     // combinational read of nextSend
  input  wire [23:0]                   next_send,
  output wire [PIPE_W-1:0]             cfg_pipe,      // asynchronous reads of pipe_cfg
  input  inc_spec_pkg::pipe_cfg_t      cfg,
  output wire [PIPE_W-1:0]             send_cfg_pipe,
  input  inc_spec_pkg::pipe_cfg_t      send_cfg,
  output wire [PIPE_W-1:0]             keep_cfg_pipe,
  input  inc_spec_pkg::pipe_cfg_t      keep_cfg,

  // acknowledgements
  input  wire                          ack_soon,      // one comes in the next clock
  input  wire                          ack_valid,
  input  wire [EP_W-1:0]               ack_ep,
  input  wire [PIPE_W-1:0]             ack_pipe,
  input  wire [23:0]                   ack_psn,
  input  wire [7:0]                    ack_syndrome,
  input  wire [31:0]                   ack_frame,
  output wire                          ack_done,
  output wire [7:0]                    ack_verdict,

  // frames to send
  output wire                          job_valid,
  input  wire                          job_ready,
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

  localparam int ST_W = inc_spec_pkg::EP_TX_W;

  // ------------------------------------------------------------------ time
  logic [31:0] now_q, div_q;
  wire         tick = div_q >= tick_clocks - 32'd1;

  // ------------------------------------------------------------------ the two walks
  wire [EP_W-1:0]          sw_index, kw_index;
  wire [11:0]              sw_out, kw_out;
  wire                     sw_valid, kw_valid, fetch_s, fetch_k;
  wire [EP_W-1:0]          sw_ep, kw_ep;
  wire [PIPE_W-1:0]        sw_pipe, kw_pipe;
  wire                     sw_first, sw_last, kw_first, kw_last;
  inc_spec_pkg::pipe_cfg_t sw_cfg, kw_cfg;

  inc_lutram #(.DATA_W(12), .DEPTH(ENDPOINTS), .R(3)) u_out_list (
    .clk(clk), .wr_en(out_wr), .wr_addr(out_wr_index[EP_W-1:0]), .wr_data(out_wr_ep),
    .rd_addr({rd_index[EP_W-1:0], kw_index, sw_index}), .rd_data({rd_out, kw_out, sw_out}));

  inc_out_walk #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_send_walk (
    .clk(clk), .rst(rst), .restart(init_pipe), .live(live),
    .cfg_pipe(send_cfg_pipe), .cfg(send_cfg), .out_index(sw_index), .out_ep(sw_out),
    .m_valid(sw_valid), .m_ready(fetch_s), .m_ep(sw_ep), .m_pipe(sw_pipe),
    .m_first(sw_first), .m_last(sw_last), .m_cfg(sw_cfg));

  inc_out_walk #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_keep_walk (
    .clk(clk), .rst(rst), .restart(init_pipe), .live(live),
    .cfg_pipe(keep_cfg_pipe), .cfg(keep_cfg), .out_index(kw_index), .out_ep(kw_out),
    .m_valid(kw_valid), .m_ready(fetch_k), .m_ep(kw_ep), .m_pipe(kw_pipe),
    .m_first(kw_first), .m_last(kw_last), .m_cfg(kw_cfg));

  // ------------------------------------------------------------------ operation
  typedef enum logic [1:0] {X_ACK, X_SEND, X_KEEP} x_e;
  logic                    x_valid_q;           // execute stage
  x_e                      x_q;
  logic [EP_W-1:0]         x_ep_q;
  logic [PIPE_W-1:0]       x_pipe_q;
  logic                    x_first_q, x_last_q;
  inc_spec_pkg::ep_tx_t    x_st_q;
  logic                    x_out_q;             // the endpoint is an out
  logic [31:0]             x_deadline_q;
  inc_spec_pkg::pipe_cfg_t x_cfg_q;
  logic [23:0]             x_next_q;
  wire x_is_ack  = x_valid_q && x_q == X_ACK;
  wire x_is_send = x_valid_q && x_q == X_SEND;
  wire x_is_keep = x_valid_q && x_q == X_KEEP;

  // An out that may send but finds no room is parked, and goes first once there is room: so none
  // starves. ACKs and timers go on meanwhile (an engine never holds its input because its output
  // is full).
  logic                    r_valid_q;
  logic [EP_W-1:0]         r_ep_q;
  logic [PIPE_W-1:0]       r_pipe_q;
  inc_spec_pkg::pipe_cfg_t r_cfg_q;
  logic                    turn_q;              // 1: the keeping walk goes next

  wire x_free    = !x_valid_q;
  wire fetch_ack = x_free && ack_valid;
  wire visit     = x_free && !ack_valid && !ack_soon && !hold;
  wire can_send  = r_valid_q ? job_ready : sw_valid;
  wire pick_send = can_send && !(turn_q && kw_valid);
  wire fetch_r   = visit && pick_send && r_valid_q;
  assign fetch_s = visit && pick_send && !r_valid_q;
  assign fetch_k = visit && !pick_send && kw_valid;
  logic [EP_W-1:0]         f_ep;
  logic [PIPE_W-1:0]       f_pipe;
  inc_spec_pkg::pipe_cfg_t f_cfg;
  always_comb begin
    f_ep = kw_ep; f_pipe = kw_pipe; f_cfg = kw_cfg;
    if (fetch_ack) begin
      f_ep = ack_ep; f_pipe = ack_pipe; f_cfg = cfg;
    end else if (fetch_r) begin
      f_ep = r_ep_q; f_pipe = r_pipe_q; f_cfg = r_cfg_q;
    end else if (fetch_s) begin
      f_ep = sw_ep; f_pipe = sw_pipe; f_cfg = sw_cfg;
    end
  end
  assign cfg_pipe = ack_pipe;

  wire                  wr_en;
  wire [EP_W-1:0]       wr_ep;
  inc_spec_pkg::ep_tx_t wr_st;
  wire [31:0]           wr_deadline;
  wire                  wr_out;
  wire [2*(ST_W+33)-1:0] st_rdata;

  inc_lutram #(.DATA_W(ST_W+33), .DEPTH(ENDPOINTS), .R(2)) u_state (
    .clk(clk), .wr_en(wr_en), .wr_addr(wr_ep), .wr_data({wr_out, wr_deadline, wr_st}),
    .rd_addr({rd_index[EP_W-1:0], f_ep}), .rd_data(st_rdata));
  assign rd_state = st_rdata[(ST_W+33) +: ST_W];

  inc_spec_pkg::ep_tx_t a_st;
  logic [7:0]           a_verdict;
  logic                 a_restart, a_rnr;
  inc_receive_ack u_ack (
    .st(x_st_q), .psn(ack_psn), .syndrome(ack_syndrome),
    .st_d(a_st), .verdict(a_verdict), .restart(a_restart), .rnr_start(a_rnr));

  wire [31:0] overdue  = now_q - x_deadline_q;            // >= 0: the deadline has passed
  wire        expired  = !overdue[31];
  wire        do_timer = x_is_keep && x_st_q.timer_armed && expired;
  wire        do_rnr   = x_is_keep && x_st_q.rnr_wait && expired;
  wire [23:0] sendable = x_next_q - x_st_q.cursor;        // > 0: results are waiting
  wire [23:0] fresh_d  = x_st_q.sent_max - x_st_q.cursor; // >= 0: sent before
  wire        resend   = !fresh_d[23];
  wire        may_send = x_is_send && x_out_q && !x_st_q.rnr_wait && !x_st_q.ep_error
                         && !pipe_error[x_pipe_q] && live[x_pipe_q]
                         && !sendable[23] && sendable != 24'd0;
  wire        do_send  = may_send && job_ready;
  wire        out_of_tries = x_st_q.retries == x_cfg_q.retries;

  assign job_valid = may_send;

  wire [23:0] slot_send = inc_pkg::slot_of(x_st_q.cursor, x_cfg_q.n_log2);
  always_comb begin
    job         = '0;
    job.kind    = inc_pkg::TX_DATA;
    job.ack_req = 1'b1;
    job.ep      = 12'(x_ep_q);
    job.psn     = x_st_q.cursor;
    job.block   = x_cfg_q.base_block + 16'(slot_send << (x_cfg_q.mtu_log2 - 4'd8));
  end

  // one tick more than asked: the current one is partly over, and early is forbidden
  wire [3:0]  tries      = x_is_ack ? a_st.retries : x_st_q.retries;
  wire [3:0]  tries_max  = {1'b0, x_cfg_q.backoff_max};
  wire [3:0]  doublings  = tries > tries_max ? tries_max : tries;
  wire [31:0] timeout_at = now_q + 32'd1 + (32'(x_cfg_q.timeout) << doublings);
  wire [31:0] rnr_at     = now_q + 32'd1 + 32'(inc_spec_pkg::rnr_ticks(ack_syndrome[4:0]));

  inc_spec_pkg::ep_tx_t x_st_d;
  logic [31:0]          x_deadline_d;
  logic                 x_change;
  always_comb begin
    x_st_d       = x_st_q;
    x_deadline_d = x_deadline_q;
    x_change     = 1'b0;
    if (x_is_ack) begin
      x_change = a_verdict == inc_spec_pkg::VERDICT_OK;
      x_st_d   = a_st;
      if (a_restart) x_deadline_d = timeout_at;
      if (a_rnr)     x_deadline_d = rnr_at;
    end else if (do_timer) begin
      x_change           = 1'b1;
      x_st_d.timer_armed = 1'b0;
      if (out_of_tries) begin
        x_st_d.ep_error = 1'b1;
      end else begin
        x_st_d.retries = x_st_q.retries + 4'd1;
        x_st_d.cursor  = x_st_q.last_acked + 24'd1;
      end
    end else if (do_rnr) begin
      x_change        = 1'b1;
      x_st_d.rnr_wait = 1'b0;
    end else if (do_send) begin
      x_change      = 1'b1;
      x_st_d.cursor = x_st_q.cursor + 24'd1;
      if (!resend) x_st_d.sent_max = x_st_q.cursor;
      if (!x_st_q.timer_armed) begin
        x_st_d.timer_armed = 1'b1;
        x_deadline_d       = timeout_at;
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

  assign wr_en       = init_ep || x_change;
  assign wr_ep       = init_ep ? init_ep_index : x_ep_q;
  assign wr_st       = init_ep ? init_st : x_st_d;
  assign wr_deadline = x_deadline_d;
  assign wr_out      = init_ep ? init_ep_out : x_out_q;

  assign ack_done    = x_is_ack;
  assign ack_verdict = a_verdict;
  assign err_valid   = x_change && x_st_d.ep_error && !x_st_q.ep_error;
  assign err_pipe    = x_pipe_q;

  assign fault_valid  = err_valid;
  assign fault_kind   = do_timer ? inc_spec_pkg::ERROR_KIND_RETRIES
                                 : inc_spec_pkg::ERROR_KIND_FATAL_NAK;
  assign fault_ep     = 12'(x_ep_q);
  assign fault_psn    = do_timer ? x_st_q.last_acked + 24'd1 : ack_psn;
  assign fault_got    = do_timer ? 32'(x_st_q.retries) + 32'd1 : 32'(ack_syndrome);
  assign fault_wanted = do_timer ? 32'(x_cfg_q.retries) : 32'(inc_spec_pkg::SYNDROME_ACK);

  wire a_is_ack = inc_pkg::syndrome_is_ack(ack_syndrome);
  wire a_is_rnr = inc_pkg::syndrome_is_rnr(ack_syndrome);
  wire a_ok = x_is_ack && a_verdict == inc_spec_pkg::VERDICT_OK;
  always_comb begin
    stat_event = '0;
    stat_event[inc_spec_pkg::EVENT_RX_ACK]     = a_ok && a_is_ack;
    stat_event[inc_spec_pkg::EVENT_RX_RNR]     = a_ok && a_is_rnr;
    stat_event[inc_spec_pkg::EVENT_RX_NAK]     = a_ok && !a_is_ack && !a_is_rnr;
    stat_event[inc_spec_pkg::EVENT_TX_DATA]    = do_send && !resend;
    stat_event[inc_spec_pkg::EVENT_TX_RESEND]  = do_send && resend;
    stat_event[inc_spec_pkg::EVENT_TIMER]      = do_timer;
    stat_event[inc_spec_pkg::EVENT_RNR_EXPIRY] = do_rnr;
    stat_event[inc_spec_pkg::EVENT_EP_ERROR]   = err_valid;
  end
  assign idle        = !x_valid_q;
  assign next_pipe   = f_pipe;

  // ------------------------------------------------------------------ minimum of a walk
  logic [23:0] min_q;
  logic        min_ok_q;                        // all since the first of its pipe are outs
  wire  [23:0] past     = x_st_q.last_acked + 24'd1;
  wire  [23:0] below    = past - min_q;         // < 0: a new minimum
  wire         take_min = x_is_keep;
  wire  [23:0] min_d    = (x_first_q || below[23]) ? past : min_q;
  wire         min_ok   = (x_first_q || min_ok_q) && x_out_q;
  assign min_valid = take_min && x_last_q && min_ok && live[x_pipe_q];
  assign min_pipe  = x_pipe_q;
  assign min_psn   = min_d;

  always_ff @(posedge clk) begin
    div_q <= tick ? 32'd0 : div_q + 32'd1;
    if (tick) now_q <= now_q + 32'd1;

    x_valid_q <= fetch_ack || fetch_r || fetch_s || fetch_k;
    if (fetch_ack || fetch_r || fetch_s || fetch_k) begin
      x_q       <= fetch_ack ? X_ACK : fetch_k ? X_KEEP : X_SEND;
      x_ep_q    <= f_ep;
      x_pipe_q  <= f_pipe;
      x_first_q <= kw_first;
      x_last_q  <= kw_last;
      {x_out_q, x_deadline_q, x_st_q} <= st_rdata[ST_W+32:0];
      x_cfg_q   <= f_cfg;
      x_next_q  <= next_send;
    end
    if (fetch_s || fetch_r) turn_q <= 1'b1;
    if (fetch_k)            turn_q <= 1'b0;
    if (fetch_r) r_valid_q <= 1'b0;
    if (may_send && !job_ready) begin
      r_valid_q <= 1'b1;
      r_ep_q    <= x_ep_q;
      r_pipe_q  <= x_pipe_q;
      r_cfg_q   <= x_cfg_q;
    end
    if (take_min) begin
      min_q    <= min_d;
      min_ok_q <= min_ok && !x_last_q;
    end

    if (init_pipe) begin
      r_valid_q  <= 1'b0;
      min_ok_q   <= 1'b0;
    end
    if (rst) begin
      now_q      <= '0;
      div_q      <= '0;
      turn_q     <= 1'b0;
      x_valid_q  <= 1'b0;
      r_valid_q  <= 1'b0;
      min_ok_q   <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ retirement
  assign ret_valid = x_is_ack || x_change;
  always_comb begin
    ret_rec          = '0;
    ret_rec.pipe_id  = 32'(x_pipe_q);
    ret_rec.endpoint = 32'(x_ep_q);
    ret_rec.verdict  = 32'(inc_spec_pkg::VERDICT_OK);
    ret_rec.groups   = 32'd2;
    if (x_is_ack) begin
      ret_rec.cause   = a_is_ack ? 32'(inc_spec_pkg::CAUSE_ACK) : 32'(inc_spec_pkg::CAUSE_NAK);
      ret_rec.verdict = 32'(a_verdict);
      ret_rec.frame   = ack_frame;
      ret_rec.psn     = 32'(ack_psn);
      ret_rec.slot    = 32'(inc_pkg::slot_of(ack_psn, x_cfg_q.n_log2));
    end else if (do_timer) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_TIMER);
    end else if (do_rnr) begin
      ret_rec.cause = 32'(inc_spec_pkg::CAUSE_RNR_EXPIRY);
    end else begin
      ret_rec.cause = resend ? 32'(inc_spec_pkg::CAUSE_RESEND) : 32'(inc_spec_pkg::CAUSE_SEND);
      ret_rec.frame = job_number;
      ret_rec.psn   = 32'(x_st_q.cursor);
      ret_rec.slot  = 32'(slot_send);
    end
    ret_rec.last_acked  = 32'(x_st_d.last_acked);
    ret_rec.cursor      = 32'(x_st_d.cursor);
    ret_rec.sent_max    = 32'(x_st_d.sent_max);
    ret_rec.retries     = 32'(x_st_d.retries);
    ret_rec.timer_armed = 32'(x_st_d.timer_armed);
    ret_rec.rnr_wait    = 32'(x_st_d.rnr_wait);
    ret_rec.ep_error    = 32'(x_st_d.ep_error);
  end

  wire unused_ok = &{1'b0, rd_index, st_rdata, overdue, fresh_d, below, cfg, x_cfg_q, sw_first,
                     sw_last, out_wr_index};

endmodule

`default_nettype wire
