// ReceiveAck: what an ACK or NAK does to the sending state of an out-endpoint. Combinational.
//
// Inputs:        st: the state before; psn and syndrome of the AETH.
// Outputs:       st_d: the state after; verdict ok, ack_stale (nothing outstanding is named) or
//                ep_error; restart: the retransmission timer starts anew; rnr_start: the RNR
//                timer starts.
// Latency:       0 clocks (Retransmission registers around it).
// Source:        protocol.md 6 (ACK, NAK, RNR NAK, fatal NAK).
`default_nettype none

module inc_receive_ack (
  input  inc_spec_pkg::ep_tx_t st,
  input  wire [23:0]                psn,
  input  wire [7:0]                 syndrome,
  output inc_spec_pkg::ep_tx_t      st_d,
  output logic [7:0]                verdict,
  output logic                      restart,
  output logic                      rnr_start
);

  wire is_ack = inc_pkg::syndrome_is_ack(syndrome);
  wire is_rnr = inc_pkg::syndrome_is_rnr(syndrome);
  wire is_seq = syndrome == inc_spec_pkg::SYNDROME_NAK_SEQUENCE;

  // a NAK of q acknowledges everything below q
  wire [23:0] acked   = is_ack ? psn : psn - 24'd1;
  wire [23:0] ahead   = psn - st.last_acked;             // > 0: names something outstanding
  wire [23:0] limit   = st.sent_max + (is_ack ? 24'd0 : 24'd1);
  wire [23:0] room    = limit - psn;                     // >= 0: not beyond what was sent
  wire        in_range = !ahead[23] && ahead != 24'd0 && !room[23];
  wire        progress = acked != st.last_acked;
  wire [23:0] past    = acked + 24'd1;
  wire [23:0] cur_gap = past - st.cursor;                // > 0: cursor lags behind past
  wire        more    = acked != st.sent_max;            // something is still outstanding

  always_comb begin
    st_d      = st;
    restart   = 1'b0;
    rnr_start = 1'b0;
    if (st.ep_error)    verdict = inc_spec_pkg::VERDICT_EP_ERROR;
    else if (!in_range) verdict = inc_spec_pkg::VERDICT_ACK_STALE;
    else begin
      verdict = inc_spec_pkg::VERDICT_OK;
      if (progress) begin
        st_d.last_acked = acked;
        st_d.retries    = '0;
        if (!cur_gap[23]) st_d.cursor = past;
        if (!st.rnr_wait) begin
          st_d.timer_armed = more;
          restart          = more;
        end
      end
      if (is_ack) begin
      end else if (is_rnr) begin
        st_d.cursor      = psn;
        st_d.rnr_wait    = 1'b1;
        st_d.timer_armed = 1'b0;
        restart          = 1'b0;
        rnr_start        = 1'b1;
      end else if (is_seq) begin
        if (!st.rnr_wait) begin
          st_d.cursor      = psn;
          st_d.timer_armed = more;
          restart          = more;
        end
      end else begin
        st_d.ep_error    = 1'b1;
        st_d.timer_armed = 1'b0;
        st_d.rnr_wait    = 1'b0;
        restart          = 1'b0;
      end
    end
  end

  wire unused_ok = &{1'b0, room, cur_gap};

endmodule

`default_nettype wire
