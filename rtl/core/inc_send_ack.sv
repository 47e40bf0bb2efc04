// SendAck: one pending acknowledgement per in-endpoint, and the next one to send.
//
// A record is only a kind (none, ack, nak, rnr, fatal): its PSN and MSN are ePSN and MSN when it
// is sent, so records are cumulative and a newer one overwrites. nakSent: one NAK per gap.
//
// Ports:         set_*  new kind for endpoint set_ep; an ACK does not replace a pending NAK, RNR
//                or fatal (which acknowledge as much and say more) unless set_force.
//                nak_wr, nak_value write nakSent of set_ep. clr_* the record was sent; not in one
//                clock with set or nak. init_* both back to 0, only while idle.
//                rd_*   nakSent and kind of an endpoint, combinational, before this clock's
//                       writes.
//                new_kind: the kind that set_* leaves (for the retirement record).
//                sel_valid, sel_ep: an endpoint with a record, in the order in which they got one;
//                      moves on sel_next.
//                idle: no record is pending.
// Latency:       set to sel_valid 1 or 2 clocks.
// Reset:         no record pending; kinds are unknown until init.
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
  input  wire            sel_next,
  output wire            idle
);

  localparam logic [2:0] NONE = inc_spec_pkg::ACK_KIND_NONE;

  logic            wr;
  logic [EP_W-1:0] wr_ep;
  logic [3:0]      wr_data;             // nakSent, kind
  wire             old_nak, clr_nak;
  wire [2:0]       old_kind, clr_kind;
  inc_lutram #(.DATA_W(4), .DEPTH(ENDPOINTS), .R(4)) u_kind (
    .clk(clk), .wr_en(wr), .wr_addr(wr_ep), .wr_data(wr_data),
    .rd_addr({clr_ep, set_ep, rd_b_ep, rd_a_ep}),
    .rd_data({clr_nak, clr_kind, old_nak, old_kind, rd_b_nak_sent, rd_b_kind,
              rd_a_nak_sent, rd_a_kind}));

  wire keep = set_kind == inc_spec_pkg::ACK_KIND_ACK && !set_force && old_kind != NONE;
  assign new_kind = keep ? old_kind : set_kind;

  always_comb begin
    wr      = set_valid || nak_wr;
    wr_ep   = set_ep;
    wr_data = {nak_wr ? nak_value : old_nak, set_valid ? new_kind : old_kind};
    if (clr_valid) begin
      wr      = 1'b1;
      wr_ep   = clr_ep;
      wr_data = {clr_nak, NONE};
    end
    if (init_valid) begin
      wr      = 1'b1;
      wr_ep   = init_ep;
      wr_data = {1'b0, NONE};
    end
  end

  // An endpoint is in the queue while it has a record, so there is always room.
  wire room;
  wire push = set_valid && old_kind == NONE && new_kind != NONE;
  wire [$clog2(ENDPOINTS+1)-1:0] count;
  inc_fifo #(.DATA_W(EP_W), .DEPTH(ENDPOINTS), .OUT_REG(1)) u_queue (
    .clk(clk), .rst(rst), .s_valid(push), .s_ready(room), .s_data(set_ep),
    .m_valid(sel_valid), .m_ready(sel_next), .m_data(sel_ep), .count(count));
  assign idle = count == '0;

`ifdef INC_ASSERT
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!(clr_valid && (set_valid || nak_wr)));
      assert (!push || room);
      assert (!init_valid || idle);
    end
  end
`endif

  wire unused_ok = &{1'b0, clr_kind, room};

endmodule

`default_nettype wire
