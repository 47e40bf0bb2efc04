// SendAck: one pending acknowledgement per in-endpoint, and the choice of the next one to send.
//
// A record is only a kind (none, ack, nak, rnr, fatal): its PSN and MSN are ePSN and MSN when it
// is sent, so records are cumulative and a newer one overwrites. nakSent: one NAK per gap.
//
// Ports:         set_*  new kind for endpoint set_ep; an ACK does not replace a pending NAK, RNR
//                or fatal (which acknowledge as much and say more) unless set_force.
//                nak_* write nakSent. clr_* the record was sent. init_* both back to 0.
//                rd_*   nakSent and kind of an endpoint, combinational, before this clock's
//                       writes.
//                new_kind: the kind that set_* leaves (for the retirement record).
//                sel_valid, sel_ep: an endpoint with a record, round robin; registered, moves on
//                      sel_next.
// Latency:       set to sel_valid 2 clocks.
// Reset:         no record pending.
// Parameters:    ENDPOINTS 2..4096, power of two.
// Source:        protocol.md 6 (acknowledgements are cumulative).
`default_nettype none

module inc_send_ack #(
  parameter int ENDPOINTS = 64,
  parameter int EP_W      = $clog2(ENDPOINTS)
) (
  input  wire            clk,
  input  wire            rst,

  input  wire            set_valid,
  input  wire [EP_W-1:0] set_ep,
  input  wire [2:0]      set_kind,
  input  wire            set_force,
  output wire [2:0]      new_kind,

  input  wire            nak_wr,
  input  wire [EP_W-1:0] nak_ep,
  input  wire            nak_value,

  input  wire            clr_valid,
  input  wire [EP_W-1:0] clr_ep,

  input  wire            init_valid,
  input  wire [EP_W-1:0] init_ep,

  input  wire [EP_W-1:0] rd_a_ep,
  output wire            rd_a_nak_sent,
  output wire [2:0]      rd_a_kind,
  input  wire [EP_W-1:0] rd_b_ep,
  output wire            rd_b_nak_sent,
  output wire [2:0]      rd_b_kind,

  output wire            sel_valid,
  output wire [EP_W-1:0] sel_ep,
  input  wire            sel_next
);

  logic [ENDPOINTS-1:0] nak_sent_q;
  logic [ENDPOINTS-1:0] k0_q, k1_q, k2_q;     // the kind's bits, one vector each
  wire  [ENDPOINTS-1:0] pend = k0_q | k1_q | k2_q;

  assign rd_a_nak_sent = nak_sent_q[rd_a_ep];
  assign rd_b_nak_sent = nak_sent_q[rd_b_ep];
  assign rd_a_kind     = {k2_q[rd_a_ep], k1_q[rd_a_ep], k0_q[rd_a_ep]};
  assign rd_b_kind     = {k2_q[rd_b_ep], k1_q[rd_b_ep], k0_q[rd_b_ep]};

  wire [2:0] old_kind = {k2_q[set_ep], k1_q[set_ep], k0_q[set_ep]};
  wire       keep     = set_kind == inc_spec_pkg::ACK_KIND_ACK && !set_force
                        && old_kind != inc_spec_pkg::ACK_KIND_NONE;
  assign new_kind = keep ? old_kind : set_kind;

  // The choice: arbitrated from registers and kept in a register until taken.
  wire            arb_valid;
  wire [EP_W-1:0] arb_idx;
  wire [ENDPOINTS-1:0] arb_onehot;
  logic            sel_valid_q;
  logic [EP_W-1:0] sel_ep_q;

  wire load = !sel_valid_q && arb_valid && !init_valid;   // init may clear the record chosen
  inc_rr_arb #(.N(ENDPOINTS)) u_arb (
    .clk(clk), .rst(rst), .req(pend), .advance(load),
    .grant_valid(arb_valid), .grant(arb_onehot), .grant_idx(arb_idx));

  assign sel_valid = sel_valid_q;
  assign sel_ep    = sel_ep_q;

  always_ff @(posedge clk) begin
    if (clr_valid) begin
      k0_q[clr_ep] <= 1'b0;
      k1_q[clr_ep] <= 1'b0;
      k2_q[clr_ep] <= 1'b0;
    end
    if (set_valid) begin
      k0_q[set_ep] <= new_kind[0];
      k1_q[set_ep] <= new_kind[1];
      k2_q[set_ep] <= new_kind[2];
    end
    if (nak_wr) nak_sent_q[nak_ep] <= nak_value;
    if (init_valid) begin
      k0_q[init_ep] <= 1'b0;
      k1_q[init_ep] <= 1'b0;
      k2_q[init_ep] <= 1'b0;
      nak_sent_q[init_ep] <= 1'b0;
    end
    if (sel_next) begin
      sel_valid_q <= 1'b0;
    end
    if (load) begin
      sel_valid_q <= 1'b1;
      sel_ep_q    <= arb_idx;
    end
    if (init_valid && init_ep == (load ? arb_idx : sel_ep_q)) sel_valid_q <= 1'b0;  // it is gone
    if (rst) begin
      k0_q        <= '0;
      k1_q        <= '0;
      k2_q        <= '0;
      nak_sent_q  <= '0;
      sel_valid_q <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst) assert (!(set_valid && clr_valid && set_ep == clr_ep));
`endif
  end

  wire unused_ok = &{1'b0, arb_onehot};

endmodule

`default_nettype wire
