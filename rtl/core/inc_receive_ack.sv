// ReceiveAck: what an ACK or NAK does to the sending state of an out-endpoint.
//
// Inputs:        st: the state before; psn and syndrome of the AETH.
// Outputs:       in the same clock verdict: ok, ack_stale (nothing outstanding is named) or
//                ep_error. In the next clock st_d: the state after if ok; restart: the
//                retransmission timer starts anew; progress: something was acknowledged, the
//                retries start anew; rnr_start: the RNR timer starts.
// Latency:       1 clock: distances first, what follows from them second.
// Throughput:    1 per clock. Reset: none.
// Source:        protocol.md 6 (ACK, NAK, RNR NAK, fatal NAK).
`default_nettype none

module inc_receive_ack (
  input  wire                       clk,
  input  inc_spec_pkg::ep_tx_t      st,
  input  wire [23:0]                psn,
  input  wire [7:0]                 syndrome,
  output logic [7:0]                verdict,
  output inc_spec_pkg::ep_tx_t      st_d,
  output logic                      restart,
  output wire                       progress,
  output logic                      rnr_start
);

  wire is_ack = inc_pkg::syndrome_is_ack(syndrome);
  wire is_rnr = inc_pkg::syndrome_is_rnr(syndrome);
  wire is_seq = syndrome == inc_spec_pkg::SYNDROME_NAK_SEQUENCE;

  // a NAK of q acknowledges everything below q
  wire [23:0] acked   = is_ack ? psn : psn - 24'd1;
  wire [23:0] past    = is_ack ? psn + 24'd1 : psn;
  wire [23:0] ahead   = psn - st.last_acked;             // > 0: names something outstanding
  wire [23:0] limit   = is_ack ? st.sent_max : st.sent_max + 24'd1;
  wire [23:0] room    = limit - psn;                     // >= 0: not beyond what was sent
  wire        in_range = !ahead[23] && psn != st.last_acked && !room[23];
  wire [23:0] cur_gap = past - st.cursor;                // > 0: cursor lags behind past

  always_comb begin
    if (st.ep_error)    verdict = inc_spec_pkg::VERDICT_EP_ERROR;
    else if (!in_range) verdict = inc_spec_pkg::VERDICT_ACK_STALE;
    else                verdict = inc_spec_pkg::VERDICT_OK;
  end

  inc_spec_pkg::ep_tx_t st_q;
  logic [23:0] acked_q, past_q;
  logic        is_ack_q, is_rnr_q, is_seq_q, progress_q, lags_q;
  logic        more_q;                                   // something is still outstanding
  always_ff @(posedge clk) begin
    st_q       <= st;
    acked_q    <= acked;
    past_q     <= past;
    is_ack_q   <= is_ack;
    is_rnr_q   <= is_rnr;
    is_seq_q   <= is_seq;
    progress_q <= acked != st.last_acked;
    lags_q     <= !cur_gap[23];
    more_q     <= acked != st.sent_max;
  end

  assign progress = progress_q;
  always_comb begin
    st_d      = st_q;
    restart   = 1'b0;
    rnr_start = 1'b0;
    if (progress_q) begin
      st_d.last_acked = acked_q;
      st_d.retries    = '0;
      if (lags_q) st_d.cursor = past_q;
      if (!st_q.rnr_wait) begin
        st_d.timer_armed = more_q;
        restart          = more_q;
      end
    end
    if (is_ack_q) begin
    end else if (is_rnr_q) begin
      st_d.cursor      = past_q;
      st_d.rnr_wait    = 1'b1;
      st_d.timer_armed = 1'b0;
      restart          = 1'b0;
      rnr_start        = 1'b1;
    end else if (is_seq_q) begin
      if (!st_q.rnr_wait) begin
        st_d.cursor      = past_q;
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
