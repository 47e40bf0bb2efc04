// ReceiveAck: what an ACK or NAK does to the sending state of an out-endpoint.
//
// Inputs:        psn and syndrome of the AETH; st: the state before, in the clock after them.
// Outputs:       in the clock after st verdict: ok, ack_stale (nothing outstanding is named) or
//                ep_error; and st_d: the state after if ok; restart: the retransmission timer
//                starts anew; progress: something was acknowledged, the retries start anew;
//                rnr_start: the RNR timer starts; fatal: it is a fatal NAK.
// Latency:       2 clocks: what the frame names, distances to the state, what follows from them.
// Throughput:    1 per clock. Reset: none.
// Source:        protocol.md 6 (ACK, NAK, RNR NAK, fatal NAK).
`default_nettype none

module inc_receive_ack (
  input  wire                       clk,
  input  wire [23:0]                psn,
  input  wire [7:0]                 syndrome,
  input  inc_spec_pkg::ep_tx_t      st,
  output logic [7:0]                verdict,
  output inc_spec_pkg::ep_tx_t      st_d,
  output logic                      restart,
  output wire                       progress,
  output logic                      rnr_start,
  output wire                       fatal
);

  // ------------------------------------------------------------------ what it names
  wire is_ack = inc_pkg::syndrome_is_ack(syndrome);
  logic [23:0] n_psn_q;
  logic [23:0] n_up_to_q, n_past_q; // a NAK of q acknowledges everything below q
  logic        n_is_ack_q, n_is_rnr_q, n_is_seq_q;
  always_ff @(posedge clk) begin
    n_psn_q    <= psn;
    n_up_to_q  <= is_ack ? psn : psn - 24'd1;
    n_past_q   <= is_ack ? psn + 24'd1 : psn;
    n_is_ack_q <= is_ack;
    n_is_rnr_q <= inc_pkg::syndrome_is_rnr(syndrome);
    n_is_seq_q <= syndrome == inc_spec_pkg::SYNDROME_NAK_SEQUENCE;
  end

  // ------------------------------------------------------------------ distances to the state
  wire [23:0] ahead   = n_psn_q - st.last_acked;         // > 0: names something outstanding
  wire [23:0] room    = st.sent_max - n_up_to_q;         // >= 0: not beyond what was sent
  wire        in_range = !ahead[23] && n_psn_q != st.last_acked && !room[23];
  wire [23:0] cur_gap = n_past_q - st.cursor;            // > 0: cursor lags behind past
  wire        progressed = n_up_to_q != st.last_acked;
  // The cursor goes to past: on, if it lags; back, to send again.
  wire        goes_on    = progressed && !cur_gap[23];
  wire        goes_back  = n_is_rnr_q || (n_is_seq_q && !st.rnr_wait);

  inc_spec_pkg::ep_tx_t st_q;
  logic [23:0] up_to_q, past_q;
  logic        is_ack_q, is_rnr_q, is_seq_q, in_range_q, progress_q, moves_q;
  logic        more_q;                                   // something is still outstanding
  always_ff @(posedge clk) begin
    st_q       <= st;
    up_to_q    <= n_up_to_q;
    past_q     <= n_past_q;
    is_ack_q   <= n_is_ack_q;
    is_rnr_q   <= n_is_rnr_q;
    is_seq_q   <= n_is_seq_q;
    in_range_q <= in_range;
    progress_q <= progressed;
    moves_q    <= goes_on || goes_back;
    more_q     <= n_up_to_q != st.sent_max;
  end

  // ------------------------------------------------------------------ what follows
  always_comb begin
    if (st_q.ep_error)    verdict = inc_spec_pkg::VERDICT_EP_ERROR;
    else if (!in_range_q) verdict = inc_spec_pkg::VERDICT_ACK_STALE;
    else                  verdict = inc_spec_pkg::VERDICT_OK;
  end

  assign fatal    = !is_ack_q && !is_rnr_q && !is_seq_q;
  assign progress = progress_q;
  always_comb begin
    st_d      = st_q;
    restart   = 1'b0;
    rnr_start = 1'b0;
    if (moves_q) st_d.cursor = past_q;
    if (progress_q) begin
      st_d.last_acked = up_to_q;
      st_d.retries    = '0;
      if (!st_q.rnr_wait) begin
        st_d.timer_armed = more_q;
        restart          = more_q;
      end
    end
    if (is_ack_q) begin
    end else if (is_rnr_q) begin
      st_d.rnr_wait    = 1'b1;
      st_d.timer_armed = 1'b0;
      restart          = 1'b0;
      rnr_start        = 1'b1;
    end else if (is_seq_q) begin
      if (!st_q.rnr_wait) begin
        st_d.timer_armed = more_q;
        restart          = more_q;
      end
    end else begin
      st_d.ep_error    = 1'b1;
      st_d.timer_armed = 1'b0;
      st_d.rnr_wait    = 1'b0;
      restart          = 1'b0;
    end
  end

  wire unused_ok = &{1'b0, room, cur_gap, ahead};

endmodule

`default_nettype wire
