// MinimumAck: what becomes of an ACK, NAK or RNR NAK at an out of a Mode-II pipe.
//
// By the pipe's rule: reflected to the leaf it came from, copied to every in, or (minimum) told to
// the in once it is true of every out. For the last, every out has lastAcked, the MSN that came
// with it and perhaps a pending NAK, which always names lastAcked + 1; every pipe has the least of
// lastAcked and how many outs hold it, and the same of the next higher value. So the minimum moves
// without a look at the other outs as long as they are at no more than two values, or at more and
// the second is not used up. Only when it is, or when a holder speaks while an out of the pipe may
// have a NAK pending, the outs are looked through in the order of out_list.
//
// Streams:       ack_* a request, held until ack_done; its ack_verdict comes a clock after that.
//                fwd_* a command to Forward (fwd_t) in the clock of ack_done.
// Latency:       from ack_valid to ack_done 1 clock (minimum: 2, and 1 more if the second value is
//                not known or a NAK may be pending) if ack_soon and ack_soon_ep came in the clock
//                before ack_valid, else 1 more; 2 fan_out + 7 more to look through the outs.
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
  input  wire                     rd_wait,        // a table is to be read or written, and then
  input  wire [EP_W-1:0]          rd_index,       // while no ACK is here: rd_* are a clock later
  output inc_spec_pkg::ep_tx_t    rd_state,
  output wire                     rd_mine,        // the endpoint's state is kept here

  input  wire [PIPES-1:0]         live,
  input  wire [PIPES-1:0]         pipe_error,

  input  wire                     ack_soon,       // one comes in the next clock
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
  output wire  [7:0]              ack_verdict,

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
    logic [23:0] limit;       // least + N/2
    logic [6:0]  holders;     // outs that have it
    logic [23:0] second;      // minimum over the others
    logic [6:0]  seconds;     // outs that have it; 0: there are no others
    logic        two;         // second and seconds are known
    logic        naks;        // some out may have a NAK pending
  } pipe_t;

  typedef enum logic [2:0] {S_TAKE, S_DECIDE, S_JUDGE, S_SCAN, S_LAST, S_DONE} state_e;
  state_e state_q;

  // ------------------------------------------------------------------ memories
  logic            st_wr;
  logic [EP_W-1:0] st_wr_ep, st_rd_ep;
  out_t            st_wr_data, st_rd, st_q, st_d;
  // forwarding: the next ACK may be read in the clock in which this one is written
  inc_ram_1r1w #(.DATA_W($bits(st_rd)), .DEPTH(ENDPOINTS), .FORWARD(1)) u_state (
    .clk(clk), .wr_en(st_wr), .wr_addr(st_wr_ep), .wr_data(st_wr_data),
    .rd_en(1'b1), .rd_addr(st_rd_ep), .rd_data(st_rd));

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

  // ------------------------------------------------------------------ take
  wire is_ack = inc_pkg::syndrome_is_ack(ack_syndrome);
  wire is_rnr = inc_pkg::syndrome_is_rnr(ack_syndrome);
  wire fatal  = !is_ack && !is_rnr && ack_syndrome != inc_spec_pkg::SYNDROME_NAK_SEQUENCE;
  wire is_min = ack_rule == inc_spec_pkg::ACK_RULE_MINIMUM;
  wire is_reflect = ack_rule == inc_spec_pkg::ACK_RULE_REFLECT;
  wire plain  = fatal || !is_min;                      // handed on as it is, without state

  logic        read_q;              // the state of the out was addressed in the clock before
  logic [23:0] acked_q;             // what the frame acknowledges up to
  logic [23:0] half_q;              // N/2
  logic [6:0]  outs_q;
  logic [EP_W-1:0] base_q;          // of the pipe's part of out_list
  logic        known_now_q;
  logic        accepts_q;           // of one that is plain
  logic        plain_q, ack_q;

  // ------------------------------------------------------------------ decide: distances
  wire [23:0] moved = acked_q - st_q.last_acked;       // >= 0: not behind
  wire [23:0] ahead = pm_q.limit - acked_q;            // >= 0: not too far ahead
  wire [23:0] past  = acked_q - pm_q.second;           // >= 0: not below the second
  logic       behind_q, far_q, moves_q, held_q, was_second_q, below_second_q, at_second_q;
  logic       one_holder_q, one_second_q;
  logic       two_only_q;           // no out is beyond the second
  logic [23:0] limit_acked_q, limit_second_q;

  wire in_range = !behind_q && !far_q;
  wire holds    = held_q && !moves_q;                  // the minimum, and does so still
  wire last_one = held_q && moves_q && one_holder_q;
  // the NAK of a holder is the first one if no other out may have one
  wire look     = !known_now_q
                  || (in_range && ((last_one && (!pm_q.two || pm_q.naks)) || (holds && pm_q.naks)));

  always_comb begin
    st_d            = st_q;
    st_d.mine       = 1'b1;
    st_d.last_acked = acked_q;
    st_d.msn        = ack_msn;
    st_d.pending    = !ack_q || (st_q.pending && !moves_q);
    if (!ack_q) begin
      st_d.nak_psn  = ack_psn;
      st_d.syndrome = ack_syndrome;
    end
  end

  // Whether the outs may have to be looked through: told without a distance.
  wire doubt = !known_now_q || pm_q.naks || (!pm_q.two && pm_q.holders == 7'd1);

  // ------------------------------------------------------------------ looking through the outs
  // One in two clocks: index, endpoint, its register, state, its register, this ACK's own state in
  // its place, compared, counted.
  logic [6:0]      sc_q;                               // where outs are, one-hot
  logic [EP_W-1:0] sc_ep_q;
  logic [6:0]      sc_left_q;
  logic            sc_mine_q, sc_self_q, sc_first_q;
  logic            sc_new_q, sc_same_q, sc_new2_q, sc_same2_q;
  out_t            sc_raw_q, sc_st_q;
  logic            f_nak_q, f_any_q;                   // found: a NAK of a holder, of any out
  logic [23:0]     f_least_q, f_second_q, f_msn_q, f_limit_q;
  logic [7:0]      f_syndrome_q;
  logic [6:0]      f_holders_q, f_seconds_q;
  wire [23:0] sc_below  = sc_st_q.last_acked - f_least_q;
  wire [23:0] sc_below2 = sc_st_q.last_acked - f_second_q;
  wire        sc_end    = state_q == S_SCAN && sc_q == '0;

  // ------------------------------------------------------------------ what is done
  logic scanned_q;
  logic f_holds_q;                                     // after the look: the out holds the minimum
  wire  low_enough = pm_q.seconds == 7'd0 || below_second_q || at_second_q;
  wire  accepts = plain_q ? accepts_q : in_range;
  wire  tells   = plain_q ? accepts_q
                : scanned_q ? f_holds_q : in_range && (holds || (last_one && low_enough));
  wire stopped = pipe_error[ack_pipe] || !live[ack_pipe];
  wire full    = tells && !fwd_room;
  wire commit  = ack_done && !stopped && accepts && !full;
  wire keeps   = commit && !plain_q;
  assign ack_done = state_q == S_DONE;
  logic [7:0] verdict, verdict_q;
  always_comb begin
    if (pipe_error[ack_pipe]) verdict = inc_spec_pkg::VERDICT_PIPE_ERROR;
    else if (!live[ack_pipe]) verdict = inc_spec_pkg::VERDICT_NO_SLOTS;
    else if (!accepts)        verdict = inc_spec_pkg::VERDICT_ACK_STALE;
    else if (full)            verdict = inc_spec_pkg::VERDICT_TX_FULL;
    else                      verdict = inc_spec_pkg::VERDICT_OK;
  end
  assign ack_verdict = verdict_q;

  assign fwd_valid = commit && tells;
  always_comb begin
    fwd          = '0;
    fwd.kind     = inc_pkg::TX_ACK;
    fwd.dest     = is_reflect ? inc_pkg::FWD_EP : inc_pkg::FWD_INS;
    fwd.ep       = 12'(ack_ep);
    fwd.pipe     = 8'(ack_pipe);
    fwd.psn      = ack_psn;         // a NAK names the psn behind what it acknowledges, too
    // The in hears of the minimum, and nothing of one out's credits.
    fwd.syndrome = plain_q || !ack_q ? ack_syndrome : inc_spec_pkg::SYNDROME_ACK;
    fwd.msn      = ack_msn;
    if (scanned_q) begin
      fwd.psn      = f_nak_q ? acked_q + 24'd1 : acked_q;
      fwd.syndrome = f_nak_q ? f_syndrome_q : inc_spec_pkg::SYNDROME_ACK;
      if (f_nak_q) fwd.msn = f_msn_q;
    end
  end

  // The pipe's word after it. An out that leaves the minimum for a value below the second makes
  // that the second; one that leaves the second uses it up.
  wire   rescan = state_q == S_LAST && !known_now_q;   // the pipe is known now: decide again
  wire   alone  = pm_q.seconds == 7'd0 || below_second_q;
  pipe_t pm_d;
  always_comb begin
    pm_d      = pm_q;
    pm_d.naks = pm_q.naks || !ack_q;
    if (scanned_q || rescan) begin
      pm_d.least   = f_least_q;
      pm_d.limit   = f_limit_q;
      pm_d.holders = f_holders_q;
      pm_d.second  = f_second_q;
      pm_d.seconds = f_seconds_q;
      pm_d.two     = 1'b1;
      pm_d.naks    = f_any_q;
    end else if (last_one && alone) begin
      pm_d.least   = acked_q;
      pm_d.limit   = limit_acked_q;
    end else if (last_one) begin
      pm_d.least   = pm_q.second;
      pm_d.limit   = limit_second_q;
      pm_d.holders = pm_q.seconds + 7'(at_second_q);
      pm_d.second  = acked_q;
      pm_d.seconds = at_second_q ? 7'd0 : 7'd1;
      pm_d.two     = two_only_q;
    end else if (held_q && moves_q) begin
      pm_d.holders = pm_q.holders - 7'd1;
      if (alone) begin
        pm_d.second  = acked_q;
        pm_d.seconds = 7'd1;
      end else if (at_second_q) begin
        pm_d.seconds = pm_q.seconds + 7'd1;
      end
    end else if (moves_q && was_second_q) begin
      if (one_second_q) begin
        pm_d.second = acked_q;
        pm_d.two    = pm_q.two && two_only_q;
      end else begin
        pm_d.seconds = pm_q.seconds - 7'd1;
      end
    end
  end

  // ------------------------------------------------------------------ writes and reads
  wire ack_waits = ack_valid && !ack_done;
  always_comb begin
    st_wr = keeps; st_wr_ep = ack_ep; st_wr_data = st_d;
    if (init_ep) begin
      st_wr = 1'b1; st_wr_ep = init_ep_index; st_wr_data = '0;
      st_wr_data.last_acked = init_ep_psn - 24'd1;
      st_wr_data.msn        = init_ep_psn;
      st_wr_data.nak_psn    = init_ep_psn - 24'd1;
    end
    pm_wr      = keeps || rescan;
    pm_wr_data = pm_d;
    if (state_q == S_SCAN) st_rd_ep = sc_ep_q;
    else if (ack_waits)    st_rd_ep = ack_ep;
    else                   st_rd_ep = rd_wait ? rd_index : ack_soon_ep;
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
    read_q <= (ack_waits && state_q != S_SCAN) || (ack_soon && !rd_wait);
    case (state_q)
      S_TAKE: begin                 // the state of the out is here
        if (ack_valid && read_q) state_q <= plain ? S_DONE : S_DECIDE;
        st_q        <= st_rd;
        pm_q        <= pm_rd;
        acked_q     <= is_ack ? ack_psn : ack_psn - 24'd1;
        ack_q       <= is_ack;
        plain_q     <= plain;
        half_q      <= 24'd1 << (n_log2 - 5'd1);
        outs_q      <= cfg_outs;
        base_q      <= cfg_base[EP_W-1:0];
        known_now_q <= known_q[ack_pipe];
        accepts_q   <= !is_reflect || ack_leaf;
        scanned_q   <= 1'b0;
      end
      S_DECIDE: begin
        state_q        <= doubt ? S_JUDGE : S_DONE;
        behind_q       <= moved[23];
        far_q          <= ahead[23];
        moves_q        <= acked_q != st_q.last_acked;
        held_q         <= st_q.last_acked == pm_q.least;
        was_second_q   <= st_q.last_acked == pm_q.second && pm_q.seconds != 7'd0;
        below_second_q <= past[23];
        at_second_q    <= acked_q == pm_q.second;
        one_holder_q   <= pm_q.holders == 7'd1;
        one_second_q   <= pm_q.seconds == 7'd1;
        two_only_q     <= pm_q.holders + pm_q.seconds == outs_q;
        limit_acked_q  <= acked_q + half_q;
        limit_second_q <= pm_q.second + half_q;
      end
      S_JUDGE: begin
        state_q    <= look ? S_SCAN : S_DONE;
        sc_index_q <= base_q;
        sc_left_q  <= outs_q;
        sc_first_q <= 1'b1;
        f_nak_q    <= 1'b0;
        f_any_q    <= 1'b0;
      end
      S_SCAN: if (sc_end) begin
        state_q   <= S_LAST;
        f_limit_q <= f_least_q + half_q;
        f_holds_q <= acked_q == f_least_q;
      end
      S_LAST: begin
        state_q           <= known_now_q ? S_DONE : S_TAKE;
        known_q[ack_pipe] <= 1'b1;
        scanned_q         <= known_now_q;
      end
      default: state_q <= S_TAKE;
    endcase
    verdict_q <= verdict;

    sc_q <= {sc_q[5:0], state_q == S_JUDGE ? look : sc_q[1] && sc_left_q != 7'd0};
    if (sc_q[0]) begin
      sc_index_q <= sc_index_q + EP_W'(1);
      sc_left_q  <= sc_left_q - 7'd1;
    end
    sc_ep_q   <= sc_ep[EP_W-1:0];
    sc_mine_q <= sc_ep_q == ack_ep;
    sc_raw_q  <= st_rd;
    sc_self_q <= sc_mine_q && known_now_q;
    if (sc_q[4]) sc_st_q <= sc_self_q ? st_d : sc_raw_q;
    sc_new_q   <= sc_first_q || sc_below[23];
    sc_same_q  <= sc_st_q.last_acked == f_least_q;
    sc_new2_q  <= f_seconds_q == 7'd0 || sc_below2[23];
    sc_same2_q <= sc_st_q.last_acked == f_second_q;
    if (sc_q[6]) begin
      sc_first_q <= 1'b0;
      f_any_q    <= f_any_q || sc_st_q.pending;
      if (sc_new_q) begin
        f_least_q   <= sc_st_q.last_acked;
        f_holders_q <= 7'd1;
        f_second_q  <= f_least_q;
        f_seconds_q <= sc_first_q ? 7'd0 : f_holders_q;
      end else if (sc_same_q) begin
        f_holders_q <= f_holders_q + 7'd1;
      end else if (sc_new2_q) begin
        f_second_q  <= sc_st_q.last_acked;
        f_seconds_q <= 7'd1;
      end else if (sc_same2_q) begin
        f_seconds_q <= f_seconds_q + 7'd1;
      end
      if (sc_new_q || (sc_same_q && !f_nak_q)) begin
        f_nak_q      <= sc_st_q.pending;
        f_msn_q      <= sc_st_q.msn;
        f_syndrome_q <= sc_st_q.syndrome;
      end
    end

    if (init_ep || pipe_wr || out_wr) known_q <= '0;
    if (rst) begin
      state_q <= S_TAKE;
      read_q  <= 1'b0;
      known_q <= '0;
      sc_q    <= '0;
    end
`ifdef INC_ASSERT
    if (!rst && state_q != S_TAKE) begin
      assert (ack_valid);
      assert (!init_ep && !pipe_wr && !out_wr);
    end
    if (!rst && ack_soon) assert (state_q == S_TAKE || state_q == S_DONE);
    if (!rst && keeps && st_q.pending) assert (st_q.nak_psn == st_q.last_acked + 24'd1);
`endif
  end

  // ------------------------------------------------------------------ what happened
  wire ok = ack_done && verdict == inc_spec_pkg::VERDICT_OK;
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
    ret_rec.verdict    = 32'(verdict);
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

  wire unused_ok = &{1'b0, pipe_data, sc_ep, cfg_base, moved, ahead, past, sc_below, sc_below2,
                     r_st.mine, r_st.syndrome, sc_st_q};

endmodule

`default_nettype wire
