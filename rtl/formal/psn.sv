// What the RTL says of PSNs, against integers: the distance is counted in 26 bits, with 2^24 taken
// away where it is half the circle or more.
`default_nettype none

module prove_psn (
  input wire         clk,
  input wire  [23:0] a,
  input wire  [23:0] b,
  input wire  [23:0] epsn,
  input wire  [4:0]  n_log2,
  input wire         mode2,
  input wire         copy,
  input wire         slot_valid,
  input wire  [22:0] slot_tag,
  input wire         slot_bit,
  input wire         slot_full,
  input wire         may_start,
  input wire         whole_lanes,
  input wire         pipe_error,
  input wire         binding,
  input wire         ack,            // ReceiveAck: an ACK of a, or a sequence NAK
  input wire inc_spec_pkg::ep_tx_t st
);

  // ------------------------------------------------------------------ the data window
  wire [7:0] verdict;
  wire       compare, start, replay, in_order, behind;
  inc_check_duplicate u_check (
    .mode2, .copy, .psn(a), .first(b), .epsn, .n_log2, .pipe_error, .binding, .slot_valid,
    .slot_tag, .slot_bit, .slot_full, .may_start, .whole_lanes,
    .verdict, .compare, .start, .replay, .in_order, .behind);

  function automatic logic signed [25:0] distance(input logic [23:0] from, input logic [23:0] to);
    logic signed [25:0] d;
    d = $signed({2'b00, to}) - $signed({2'b00, from});
    if (d < 0) d = d + 26'sd16777216;
    if (d >= 26'sd8388608) d = d - 26'sd16777216;
    return d;
  endfunction

  wire signed [25:0] d     = distance(b, a);
  wire signed [25:0] slots = 26'sd1 << n_log2;
  wire signed [25:0] half  = slots / 2;
  // The PSN that the slot's tag and a's number in the window make: a itself, or another one.
  wire [46:0] named_psn = (47'(slot_tag) << n_log2) + 47'(a & (slots[23:0] - 24'd1));
  wire        mine      = slot_valid && named_psn == 47'(a);

  // ------------------------------------------------------------------ what an ACK acknowledges
  wire [7:0]            ack_verdict;
  inc_spec_pkg::ep_tx_t st_d;
  wire                  restart, progress, rnr_start, fatal;
  logic [2:0]           age_q = 3'd0;
  inc_receive_ack u_ack (
    .clk, .psn(a),
    .syndrome(ack ? inc_spec_pkg::SYNDROME_ACK : inc_spec_pkg::SYNDROME_NAK_SEQUENCE), .st,
    .verdict(ack_verdict), .st_d, .restart, .progress, .rnr_start, .fatal);
  // st comes a clock after the PSN.
  logic [23:0]          a1_q, a2_q;
  logic                 ack1_q, ack2_q;
  inc_spec_pkg::ep_tx_t st2_q;
  wire signed [25:0]    outstanding = distance(st2_q.last_acked, st2_q.sent_max);
  wire signed [25:0]    named       = distance(st2_q.last_acked, a2_q);
  // An ACK names a packet that is outstanding; a NAK one that is, or the next one.
  wire                  good_ack = ack2_q ? named > 0 && named <= outstanding
                                          : named > 0 && named <= outstanding + 26'sd1;
  wire signed [25:0]    acked_d  = distance(st2_q.last_acked, st_d.last_acked);

  always_ff @(posedge clk) begin
    a1_q   <= a;
    ack1_q <= ack;
    a2_q   <= a1_q;
    ack2_q <= ack1_q;
    st2_q  <= st;
    if (age_q != 3'd2) age_q <= age_q + 3'd1;
    assume (n_log2 >= 5'd1 && n_log2 <= 5'd22);     // rtl/spec/inc.yaml

    assert (behind == (d < 0));
    assert (in_order == (distance(epsn, a) == 0));
    if (!pipe_error && !binding && !copy) begin
      assert ((verdict == inc_spec_pkg::VERDICT_BEHIND) == (!mode2 && d < 0));
      assert ((verdict == inc_spec_pkg::VERDICT_BEYOND) == (!mode2 && d >= slots));
      assert ((verdict == inc_spec_pkg::VERDICT_STALE) == (mode2 && (d < -half || d >= half)));
      // Counted as a contribution: it is in the window, starts the slot or is new in it.
      if (verdict == inc_spec_pkg::VERDICT_OK)
        assert (mine ? !slot_bit && !start : start && may_start && whole_lanes);
      if (verdict == inc_spec_pkg::VERDICT_DUPLICATE) assert (mine && slot_bit);
      cover (verdict == inc_spec_pkg::VERDICT_OK && mine && a < b);
      cover (verdict == inc_spec_pkg::VERDICT_DUPLICATE && replay);
    end
    if (pipe_error || binding) assert (verdict != inc_spec_pkg::VERDICT_OK && !replay && !compare);

    if (age_q == 3'd2 && !st2_q.ep_error && outstanding >= 0 && outstanding < 26'sd8388606) begin
      assert ((ack_verdict == inc_spec_pkg::VERDICT_OK) == good_ack);
      if (good_ack) begin
        assert (acked_d == (ack2_q ? named : named - 26'sd1));
        assert (acked_d >= 0 && acked_d <= outstanding);
        assert (progress == (acked_d != 0));
        cover (st_d.last_acked < st2_q.last_acked && ack2_q);
      end
    end
    cover (age_q == 3'd2 && ack_verdict == inc_spec_pkg::VERDICT_ACK_STALE);
  end

  wire unused_ok = &{1'b0, restart, rnr_start, fatal};

endmodule

`default_nettype wire
