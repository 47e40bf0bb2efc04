// MinimumAck: what becomes of an ACK, NAK or RNR NAK at an out of a Mode-II pipe.
//
// By the pipe's rule: reflected to the leaf it came from, copied to every in, or (minimum) told to
// the in once it is true of every out. For the last, every out has lastAcked, the MSN that came
// with it and perhaps a pending NAK, which always names lastAcked + 1; every pipe has the minimum
// of lastAcked and how many outs hold it. Only when the last of these moves, or when a holder
// speaks while an out of the pipe may have a NAK pending, the outs are looked through in the order
// of out_list.
//
// Streams:       ack_* a request, held until ack_done, with ack_verdict. fwd_* a command to
//                Forward (fwd_t) in the clock of ack_done.
// Latency:       from ack_valid to ack_done 1 clock (minimum: 2) if ack_soon and ack_soon_ep came
//                in the clock before ack_valid, else 1 more; fan_out + 4 more to look through the
//                outs.
// Throughput:    one ACK per 2 clocks (minimum: 3).
// Back-pressure: none: with fwd_room 0 an ACK that would make a frame leave changes nothing
//                (verdict tx_full).
// Retirement:    ret_* one record in the clock of ack_done.
// Reset:         what is known of the pipes is forgotten; endpoint state is unknown until init_ep.
// Parameters:    ENDPOINTS 2..4096, PIPES 2..256, powers of two.
// Source:        protocol.md 5 (ACKNOWLEDGE).
`default_nettype none

module inc_minimum_ack #(
  parameter int ENDPOINTS = 64,
  parameter int PIPES     = 16,
  parameter int EP_W      = $clog2(ENDPOINTS),
  parameter int PIPE_W    = $clog2(PIPES)
) (
  input  wire                     clk,
  input  wire                     rst,

  // table writes; none comes while an ACK is here
  input  wire                     init_ep,
  input  wire [EP_W-1:0]          init_ep_index,
  input  wire [23:0]              init_ep_psn,
  input  wire                     pipe_wr,
  input  wire [PIPE_W-1:0]        pipe_index,
  input  inc_spec_pkg::pipe_cfg_t pipe_data,
  input  wire                     out_wr,
  input  wire [EP_W-1:0]          list_index,
  input  wire [11:0]              list_ep,
  input  wire                     rd_en,          // rd_state is valid in the next clock
  input  wire [EP_W-1:0]          rd_index,
  output inc_spec_pkg::ep_tx_t    rd_state,
  output wire                     rd_mine,        // the endpoint's state is kept here

  input  wire [PIPES-1:0]         live,
  input  wire [PIPES-1:0]         pipe_error,

  input  wire                     ack_soon,       // one may come from the next clock on
  input  wire [EP_W-1:0]          ack_soon_ep,
  input  wire                     ack_valid,
  input  wire [EP_W-1:0]          ack_ep,
  input  wire [PIPE_W-1:0]        ack_pipe,
  input  wire [1:0]               ack_rule,
  input  wire                     ack_leaf,
  input  wire [23:0]              ack_psn,
  input  wire [7:0]               ack_syndrome,
  input  wire [23:0]              ack_msn,
  input  wire [31:0]              ack_frame,
  output wire                     ack_done,
  output logic [7:0]              ack_verdict,

  input  wire                     fwd_room,
  output wire                     fwd_valid,
  output inc_pkg::fwd_t           fwd,

  output logic [inc_spec_pkg::EVENT_COUNT-1:0] stat_event,
  output wire                     ret_valid,
  output inc_spec_pkg::record_t   ret_rec
);

  typedef struct packed {
    logic        mine;        // written since init_ep
    logic        pending;     // a NAK that wants lastAcked + 1
    logic [7:0]  syndrome;    // of it
    logic [23:0] nak_psn;     // of the last one, pending or not
    logic [23:0] msn;
    logic [23:0] last_acked;
  } out_t;

  typedef struct packed {
    logic [23:0] least;       // minimum of lastAcked
    logic [6:0]  holders;     // outs that have it
    logic        naks;        // some out may have a NAK pending
  } pipe_t;

  typedef enum logic [2:0] {S_IDLE, S_TAKE, S_DECIDE, S_SCAN, S_DONE} state_e;
  state_e state_q;

  // ------------------------------------------------------------------ memories
  logic            st_wr, st_rd_en;
  logic [EP_W-1:0] st_wr_ep, st_rd_ep;
  out_t            st_wr_data, st_rd, st_q, st_d;
  // forwarding: the next ACK may be read in the clock in which this one is written
  inc_ram_1r1w #(.DATA_W($bits(st_rd)), .DEPTH(ENDPOINTS), .FORWARD(1)) u_state (
    .clk(clk), .wr_en(st_wr), .wr_addr(st_wr_ep), .wr_data(st_wr_data),
    .rd_en(st_rd_en), .rd_addr(st_rd_ep), .rd_data(st_rd));

  logic [EP_W-1:0] sc_index_q;
  wire  [11:0]     sc_ep;
  inc_ram_1r1w #(.DATA_W(12), .DEPTH(ENDPOINTS)) u_out_list (
    .clk(clk), .wr_en(out_wr), .wr_addr(list_index), .wr_data(list_ep),
    .rd_en(1'b1), .rd_addr(sc_index_q), .rd_data(sc_ep));

  wire [11:0] cfg_base;
  wire [6:0]  cfg_outs;
  wire [4:0]  n_log2;
  inc_lutram #(.DATA_W(24), .DEPTH(PIPES)) u_cfg (
    .clk(clk), .wr_en(pipe_wr), .wr_addr(pipe_index),
    .wr_data({pipe_data.out_base, pipe_data.fan_out, pipe_data.n_log2}),
    .rd_addr(ack_pipe), .rd_data({cfg_base, cfg_outs, n_log2}));

  logic  pm_wr;
  pipe_t pm_wr_data, pm_rd, pm_q;
  inc_lutram #(.DATA_W($bits(pm_rd)), .DEPTH(PIPES)) u_pipe (
    .clk(clk), .wr_en(pm_wr), .wr_addr(ack_pipe), .wr_data(pm_wr_data),
    .rd_addr(ack_pipe), .rd_data(pm_rd));
  logic [PIPES-1:0] known_q;        // the pipe's word is right

  // ------------------------------------------------------------------ decide
  wire is_ack = inc_pkg::syndrome_is_ack(ack_syndrome);
  wire is_rnr = inc_pkg::syndrome_is_rnr(ack_syndrome);
  wire fatal  = !is_ack && !is_rnr && ack_syndrome != inc_spec_pkg::SYNDROME_NAK_SEQUENCE;
  wire is_min = ack_rule == inc_spec_pkg::ACK_RULE_MINIMUM;
  wire is_reflect = ack_rule == inc_spec_pkg::ACK_RULE_REFLECT;
  wire plain  = fatal || !is_min;                      // handed on as it is, without state

  logic [23:0] acked_q;             // what the frame acknowledges up to
  logic [23:0] limit_q;             // least + N/2
  logic        known_now_q;
  wire [23:0] moved    = acked_q - st_q.last_acked;    // >= 0: not behind
  wire [23:0] ahead    = limit_q - acked_q;            // >= 0: not too far ahead
  wire        in_range = !moved[23] && !ahead[23];
  wire        moves    = moved != 24'd0;
  wire        held     = st_q.last_acked == pm_q.least;
  wire        holds    = held && !moves;               // and does so still
  wire        last_one = held && moves && pm_q.holders == 7'd1;
  // the NAK of a holder is the first one if no other out may have one
  wire        look     = !known_now_q || (in_range && (last_one || (holds && pm_q.naks)));

  always_comb begin
    st_d            = st_q;
    st_d.mine       = 1'b1;
    st_d.last_acked = acked_q;
    st_d.msn        = ack_msn;
    st_d.pending    = !is_ack || (st_q.pending && !moves);
    if (!is_ack) begin
      st_d.nak_psn  = ack_psn;
      st_d.syndrome = ack_syndrome;
    end
  end

  // ------------------------------------------------------------------ looking through the outs
  // index (a) -> endpoint (b) -> state (c) -> register (d), compared
  logic [6:0]  sc_left_q;
  logic        sc_a_q, sc_b_q, sc_c_q, sc_d_q;
  logic        sc_self_q, sc_first_q;
  out_t        sc_st_q;
  logic        f_nak_q, f_any_q;                       // found: a NAK of a holder, of any out
  logic [23:0] f_least_q, f_msn_q;
  logic [7:0]  f_syndrome_q;
  logic [6:0]  f_holders_q;
  wire [23:0] sc_below = sc_st_q.last_acked - f_least_q;
  wire        sc_new   = sc_first_q || sc_below[23];   // a new minimum
  wire        sc_same  = sc_below == 24'd0;
  wire        sc_end   = state_q == S_SCAN && !sc_a_q && !sc_b_q && !sc_c_q && !sc_d_q;

  // ------------------------------------------------------------------ what is done
  logic accepts_q, tells_q, scanned_q, leaves_q;       // leaves: one holder fewer
  wire stopped = pipe_error[ack_pipe] || !live[ack_pipe];
  wire full    = tells_q && !fwd_room;
  wire commit  = ack_done && !stopped && accepts_q && !full;
  wire keeps   = commit && !plain;
  assign ack_done = state_q == S_DONE;
  always_comb begin
    if (pipe_error[ack_pipe]) ack_verdict = inc_spec_pkg::VERDICT_PIPE_ERROR;
    else if (!live[ack_pipe]) ack_verdict = inc_spec_pkg::VERDICT_NO_SLOTS;
    else if (!accepts_q)      ack_verdict = inc_spec_pkg::VERDICT_ACK_STALE;
    else if (full)            ack_verdict = inc_spec_pkg::VERDICT_TX_FULL;
    else                      ack_verdict = inc_spec_pkg::VERDICT_OK;
  end

  wire   tell_nak  = scanned_q ? f_nak_q : !is_ack;
  assign fwd_valid = commit && tells_q;
  always_comb begin
    fwd          = '0;
    fwd.kind     = inc_pkg::TX_ACK;
    fwd.dest     = is_reflect ? inc_pkg::FWD_EP : inc_pkg::FWD_INS;
    fwd.ep       = 12'(ack_ep);
    fwd.pipe     = 8'(ack_pipe);
    fwd.psn      = ack_psn;
    fwd.syndrome = ack_syndrome;
    fwd.msn      = ack_msn;
    if (!plain) begin
      fwd.psn      = tell_nak ? acked_q + 24'd1 : acked_q;
      fwd.syndrome = !tell_nak ? inc_spec_pkg::SYNDROME_ACK
                   : scanned_q ? f_syndrome_q : ack_syndrome;
      if (scanned_q && f_nak_q) fwd.msn = f_msn_q;
    end
  end

  // ------------------------------------------------------------------ writes and reads
  wire rescan = sc_end && !known_now_q;                // the pipe is known now: decide again
  always_comb begin
    st_wr = keeps; st_wr_ep = ack_ep; st_wr_data = st_d;
    if (init_ep) begin
      st_wr = 1'b1; st_wr_ep = init_ep_index; st_wr_data = '0;
      st_wr_data.last_acked = init_ep_psn - 24'd1;
      st_wr_data.msn        = init_ep_psn;
      st_wr_data.nak_psn    = init_ep_psn - 24'd1;
    end
    pm_wr      = keeps || rescan;
    pm_wr_data = pm_q;
    if (scanned_q || rescan) begin
      pm_wr_data.least   = f_least_q;
      pm_wr_data.holders = f_holders_q;
      pm_wr_data.naks    = f_any_q;
    end else begin
      if (leaves_q) pm_wr_data.holders = pm_q.holders - 7'd1;
      pm_wr_data.naks = pm_q.naks || !is_ack;
    end
    st_rd_en = rd_en || ack_soon || sc_b_q || rescan || (state_q == S_IDLE && ack_valid);
    if (rd_en)         st_rd_ep = rd_index;
    else if (ack_soon) st_rd_ep = ack_soon_ep;
    else if (sc_b_q)   st_rd_ep = sc_ep[EP_W-1:0];
    else               st_rd_ep = ack_ep;
  end

  assign rd_mine = st_rd.mine;
  always_comb begin
    rd_state            = '0;
    rd_state.last_acked = st_rd.last_acked;
    rd_state.cursor     = st_rd.msn;
    rd_state.sent_max   = st_rd.nak_psn;
    rd_state.rnr_wait   = st_rd.pending;
  end

  always_ff @(posedge clk) begin
    case (state_q)
      // the state of the out arrives in the next clock
      S_IDLE: if (!rd_en && (ack_soon || ack_valid)) state_q <= S_TAKE;
      S_TAKE: begin
        if (ack_valid)  state_q <= plain ? S_DONE : S_DECIDE;
        else if (rd_en) state_q <= S_IDLE;             // the frame was none; a table is read
        st_q        <= st_rd;
        pm_q        <= pm_rd;
        acked_q     <= is_ack ? ack_psn : ack_psn - 24'd1;
        limit_q     <= pm_rd.least + (24'd1 << (n_log2 - 5'd1));
        known_now_q <= known_q[ack_pipe];
        accepts_q   <= !is_reflect || ack_leaf;
        tells_q     <= !is_reflect || ack_leaf;
        scanned_q   <= 1'b0;
        leaves_q    <= 1'b0;
      end
      S_DECIDE: begin
        state_q    <= look ? S_SCAN : S_DONE;
        accepts_q  <= in_range;
        tells_q    <= in_range && holds;
        leaves_q   <= held && moves;
        sc_a_q     <= look;
        sc_index_q <= cfg_base[EP_W-1:0];
        sc_left_q  <= cfg_outs;
      end
      S_SCAN: if (sc_end) begin
        state_q           <= known_now_q ? S_DONE : S_TAKE;
        known_q[ack_pipe] <= 1'b1;
        scanned_q         <= known_now_q;
        tells_q           <= acked_q == f_least_q;
      end
      default: state_q <= ack_soon ? S_TAKE : S_IDLE;
    endcase

    if (sc_a_q) begin
      sc_index_q <= sc_index_q + EP_W'(1);
      sc_left_q  <= sc_left_q - 7'd1;
      sc_a_q     <= sc_left_q > 7'd1;
    end
    sc_b_q    <= sc_a_q;
    sc_c_q    <= sc_b_q;
    sc_d_q    <= sc_c_q;
    sc_self_q <= sc_ep[EP_W-1:0] == ack_ep;
    sc_st_q   <= (sc_self_q && known_now_q) ? st_d : st_rd;
    if (state_q == S_DECIDE) begin
      sc_first_q  <= 1'b1;
      f_nak_q     <= 1'b0;
      f_any_q     <= 1'b0;
    end
    if (sc_d_q) begin
      sc_first_q <= 1'b0;
      f_any_q    <= f_any_q || sc_st_q.pending;
      if (sc_new) begin
        f_least_q   <= sc_st_q.last_acked;
        f_holders_q <= 7'd1;
      end else if (sc_same) f_holders_q <= f_holders_q + 7'd1;
      if (sc_new || (sc_same && !f_nak_q)) begin
        f_nak_q      <= sc_st_q.pending;
        f_msn_q      <= sc_st_q.msn;
        f_syndrome_q <= sc_st_q.syndrome;
      end
    end

    if (init_ep || pipe_wr || out_wr) known_q <= '0;
    if (rst) begin
      state_q <= S_IDLE;
      known_q <= '0;
      sc_a_q  <= 1'b0;
      sc_b_q  <= 1'b0;
      sc_c_q  <= 1'b0;
      sc_d_q  <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst && (state_q == S_DECIDE || state_q == S_SCAN || state_q == S_DONE)) begin
      assert (ack_valid);
      assert (!rd_en && !init_ep && !pipe_wr && !out_wr);
    end
    if (!rst && ack_soon) assert (state_q != S_DECIDE && state_q != S_SCAN);
    if (!rst && keeps && st_q.pending) assert (st_q.nak_psn == st_q.last_acked + 24'd1);
`endif
  end

  // ------------------------------------------------------------------ what happened
  wire ok = ack_done && ack_verdict == inc_spec_pkg::VERDICT_OK;
  always_comb begin
    stat_event = '0;
    stat_event[inc_spec_pkg::EVENT_RX_ACK] = ok && is_ack;
    stat_event[inc_spec_pkg::EVENT_RX_RNR] = ok && is_rnr;
    stat_event[inc_spec_pkg::EVENT_RX_NAK] = ok && !is_ack && !is_rnr;
  end

  out_t r_st;
  assign r_st      = keeps ? st_d : st_q;
  assign ret_valid = ack_done;
  always_comb begin
    ret_rec            = '0;
    ret_rec.cause      = is_ack ? 32'(inc_spec_pkg::CAUSE_ACK) : 32'(inc_spec_pkg::CAUSE_NAK);
    ret_rec.verdict    = 32'(ack_verdict);
    ret_rec.frame      = ack_frame;
    ret_rec.pipe_id    = 32'(ack_pipe);
    ret_rec.endpoint   = 32'(ack_ep);
    ret_rec.psn        = 32'(ack_psn);
    ret_rec.slot       = 32'(inc_pkg::slot_of(ack_psn, n_log2));
    ret_rec.groups     = 32'd2;
    ret_rec.last_acked = 32'(r_st.last_acked);
    ret_rec.cursor     = 32'(r_st.msn);
    ret_rec.sent_max   = 32'(r_st.nak_psn);
    ret_rec.rnr_wait   = 32'(r_st.pending);
  end

  wire unused_ok = &{1'b0, pipe_data, sc_ep, cfg_base, ahead, sc_below, r_st.mine, r_st.syndrome,
                     st_rd.syndrome, sc_st_q};

endmodule

`default_nettype wire
