// inc_axil between a bus that keeps AXI4-Lite and a register block that answers each access once.
`default_nettype none

module prove_axil #(
  parameter int ADDR_W = 5
) (
  input wire              clk,
  input wire              rst,
  input wire              awvalid,
  input wire [ADDR_W-1:0] awaddr,
  input wire              wvalid,
  input wire [31:0]       wdata,
  input wire [3:0]        wstrb,
  input wire              bready,
  input wire              arvalid,
  input wire [ADDR_W-1:0] araddr,
  input wire              rready,
  input wire              answers,      // the block does, in this clock
  input wire              err,
  input wire [31:0]       rd_data
);

  wire run;
  fv_reset u_reset (.clk, .rst, .run);

  wire              awready, wready, bvalid, arready, rvalid, req, req_is_wr, rd_ack, wr_ack;
  wire [1:0]        bresp, rresp;
  wire [31:0]       rdata, wr_data, wr_biten;
  wire [ADDR_W-1:0] addr;
  inc_axil #(.ADDR_W(ADDR_W)) u_axil (
    .clk, .rst,
    .s_axil_awvalid(awvalid), .s_axil_awready(awready), .s_axil_awaddr(awaddr),
    .s_axil_wvalid(wvalid), .s_axil_wready(wready), .s_axil_wdata(wdata), .s_axil_wstrb(wstrb),
    .s_axil_bvalid(bvalid), .s_axil_bready(bready), .s_axil_bresp(bresp),
    .s_axil_arvalid(arvalid), .s_axil_arready(arready), .s_axil_araddr(araddr),
    .s_axil_rvalid(rvalid), .s_axil_rready(rready), .s_axil_rdata(rdata), .s_axil_rresp(rresp),
    .m_req(req), .m_req_is_wr(req_is_wr), .m_addr(addr), .m_wr_data(wr_data),
    .m_wr_biten(wr_biten), .m_rd_ack(rd_ack), .m_rd_err(err), .m_rd_data(rd_data),
    .m_wr_ack(wr_ack), .m_wr_err(err));

  // The block: one answer to each access, at once or later.
  logic waits_q, is_wr_q;
  wire  pending = req || waits_q;
  wire  kind_wr = req ? req_is_wr : is_wr_q;
  assign wr_ack = pending && answers && kind_wr;
  assign rd_ack = pending && answers && !kind_wr;

  fv_stream #(.ASSUME(1), .DATA_W(ADDR_W)) u_aw (
    .clk, .rst, .valid(awvalid), .ready(awready), .data(awaddr), .keep(1'b1), .last(1'b1));
  fv_stream #(.ASSUME(1), .DATA_W(36)) u_w (
    .clk, .rst, .valid(wvalid), .ready(wready), .data({wdata, wstrb}), .keep(1'b1), .last(1'b1));
  fv_stream #(.ASSUME(1), .DATA_W(ADDR_W)) u_ar (
    .clk, .rst, .valid(arvalid), .ready(arready), .data(araddr), .keep(1'b1), .last(1'b1));
  fv_stream #(.DATA_W(2)) u_b (
    .clk, .rst, .valid(bvalid), .ready(bready), .data(bresp), .keep(1'b1), .last(1'b1));
  fv_stream #(.DATA_W(34)) u_r (
    .clk, .rst, .valid(rvalid), .ready(rready), .data({rdata, rresp}), .keep(1'b1), .last(1'b1));

  // What has been taken and not answered on the bus. At most one that is under way and one that
  // waits of each channel.
  logic [1:0]        aw_q, w_q, ar_q;
  logic [ADDR_W-1:0] aw_at_q, ar_at_q;    // oldest not yet at the block
  logic              aw_held_q, w_held_q, ar_held_q;
  logic [35:0]       w_word_q;
  logic              answered_q, err_q;   // by the block, for the response
  logic [31:0]       data_q;
  wire               aw = awvalid && awready, w = wvalid && wready, ar = arvalid && arready;
  wire               b = bvalid && bready, r = rvalid && rready;
  logic [2:0]        others_q;            // accesses of the other kind while a read waits

  always_ff @(posedge clk) begin
    aw_q    <= aw_q + 2'(aw) - 2'(b);
    w_q     <= w_q + 2'(w) - 2'(b);
    ar_q    <= ar_q + 2'(ar) - 2'(r);
    waits_q <= pending && !answers;
    is_wr_q <= kind_wr;
    if (aw) begin
      aw_held_q <= 1'b1;
      aw_at_q   <= awaddr;
    end
    if (w) begin
      w_held_q <= 1'b1;
      w_word_q <= {wdata, wstrb};
    end
    if (ar) begin
      ar_held_q <= 1'b1;
      ar_at_q   <= araddr;
    end
    if (rd_ack || wr_ack) begin
      answered_q <= 1'b1;
      err_q      <= err;
      data_q     <= rd_data;
    end
    if (b || r) answered_q <= 1'b0;
    if (req && req_is_wr) aw_held_q <= aw;
    if (wr_ack) w_held_q <= w;
    if (req && !req_is_wr) ar_held_q <= ar;
    if (req) others_q <= req_is_wr && ar_held_q ? others_q + 3'd1 : 3'd0;
    if (rst) begin
      {aw_q, w_q, ar_q} <= '0;
      {waits_q, answered_q, aw_held_q, w_held_q, ar_held_q} <= '0;
      others_q <= '0;
    end
    if (run && !rst) begin
      // One response for each access, and none without.
      if (bvalid) assert (aw_q != 2'd0 && w_q != 2'd0 && answered_q);
      if (rvalid) assert (ar_q != 2'd0 && answered_q);
      assert (!(bvalid && rvalid));
      assert (aw_q <= 2'd2 && w_q <= 2'd2 && ar_q <= 2'd2);
      if (bvalid) assert (bresp == (err_q ? 2'b10 : 2'b00));
      if (rvalid) assert (rresp == (err_q ? 2'b10 : 2'b00) && rdata == data_q);
      // The block is asked for one access at a time, the one that was taken.
      if (req) begin
        assert (!waits_q && !answered_q);
        if (req_is_wr) assert (aw_held_q && w_held_q && addr[ADDR_W-1:2] == aw_at_q[ADDR_W-1:2]);
        else assert (ar_held_q && addr[ADDR_W-1:2] == ar_at_q[ADDR_W-1:2]);
        assert (addr[1:0] == 2'b00);
        assert (others_q <= 3'd1);
      end
      // What is written are the bytes with a strobe, until the block has answered.
      if (pending && kind_wr) begin
        assert (wr_data == w_word_q[35:4]);
        for (int i = 0; i < 4; i++) assert (wr_biten[8*i +: 8] == {8{w_word_q[i]}});
      end
      cover (b && aw_q == 2'd2 && ar_q != 2'd0);
      cover (r && rresp == 2'b10);
      cover (req && req_is_wr && ar_held_q && others_q == 3'd0);
    end
  end

endmodule

`default_nettype wire
