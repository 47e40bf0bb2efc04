// AXI4-Lite in front of the generated register block: one access at a time, every signal between
// the bus and the block a register, so that decoding an address has a clock of its own.
//
// Streams:       s_axil_* the bus. m_req one access for one clock, with what it is; then
//                m_wr_ack or m_rd_ack, at once or later, with the error or the data.
// Latency:       an access is offered 2 clocks after its address (and data) are taken; its response
//                is on the bus the clock after the ack.
// Throughput:    one access in 4 clocks, and what the block waits for.
// Back-pressure: address and data of the next access are taken while one is under way. A read and a
//                write that wait take turns.
// Reset:         synchronous, nothing waits and nothing is under way.
// Parameters:    ADDR_W 3.. bits of the address.
// Source:        AMBA AXI4-Lite (IHI 0022); PeakRDL's passthrough interface.
`default_nettype none

module inc_axil #(
  parameter int ADDR_W = 12
) (
  input  wire              clk,
  input  wire              rst,

  input  wire              s_axil_awvalid,
  output wire              s_axil_awready,
  input  wire [ADDR_W-1:0] s_axil_awaddr,
  input  wire              s_axil_wvalid,
  output wire              s_axil_wready,
  input  wire [31:0]       s_axil_wdata,
  input  wire [3:0]        s_axil_wstrb,
  output wire              s_axil_bvalid,
  input  wire              s_axil_bready,
  output wire [1:0]        s_axil_bresp,
  input  wire              s_axil_arvalid,
  output wire              s_axil_arready,
  input  wire [ADDR_W-1:0] s_axil_araddr,
  output wire              s_axil_rvalid,
  input  wire              s_axil_rready,
  output wire [31:0]       s_axil_rdata,
  output wire [1:0]        s_axil_rresp,

  output wire              m_req,
  output wire              m_req_is_wr,
  output wire [ADDR_W-1:0] m_addr,         // of the word
  output wire [31:0]       m_wr_data,
  output wire [31:0]       m_wr_biten,     // bits to write
  input  wire              m_rd_ack,
  input  wire              m_rd_err,
  input  wire [31:0]       m_rd_data,
  input  wire              m_wr_ack,
  input  wire              m_wr_err
);

  localparam logic [1:0] OKAY   = 2'b00;
  localparam logic [1:0] SLVERR = 2'b10;

  logic              aw_q, w_q, ar_q;       // taken and waiting
  logic [ADDR_W-1:2] awaddr_q, araddr_q, addr_q;
  logic [31:0]       wdata_q;
  logic [3:0]        wstrb_q;
  logic              req_q, is_wr_q;
  logic              busy_q;                // from the request to its response's being taken
  logic              b_q, r_q;
  logic [1:0]        resp_q;
  logic [31:0]       rdata_q;

  // The kind that was served last gives way.
  wire start_wr = !busy_q && aw_q && w_q && !(ar_q && is_wr_q);
  wire start_rd = !busy_q && ar_q && !start_wr;

  assign s_axil_awready = !aw_q;
  assign s_axil_wready  = !w_q;
  assign s_axil_arready = !ar_q;
  assign s_axil_bvalid  = b_q;
  assign s_axil_bresp   = resp_q;
  assign s_axil_rvalid  = r_q;
  assign s_axil_rdata   = rdata_q;
  assign s_axil_rresp   = resp_q;
  assign m_req          = req_q;
  assign m_req_is_wr    = is_wr_q;
  assign m_addr         = {addr_q, 2'b00};
  assign m_wr_data      = wdata_q;
  assign m_wr_biten     = {{8{wstrb_q[3]}}, {8{wstrb_q[2]}}, {8{wstrb_q[1]}}, {8{wstrb_q[0]}}};

  always_ff @(posedge clk) begin
    if (!aw_q) begin
      aw_q     <= s_axil_awvalid;
      awaddr_q <= s_axil_awaddr[ADDR_W-1:2];
    end
    // The data stays until its write is over: the block reads it from here.
    if (!w_q) begin
      w_q     <= s_axil_wvalid;
      wdata_q <= s_axil_wdata;
      wstrb_q <= s_axil_wstrb;
    end
    if (!ar_q) begin
      ar_q     <= s_axil_arvalid;
      araddr_q <= s_axil_araddr[ADDR_W-1:2];
    end

    req_q <= start_wr || start_rd;
    if (start_wr || start_rd) begin
      busy_q  <= 1'b1;
      is_wr_q <= start_wr;
      addr_q  <= start_wr ? awaddr_q : araddr_q;
    end
    if (start_wr) aw_q <= 1'b0;
    if (start_rd) ar_q <= 1'b0;

    if (m_wr_ack) begin
      w_q    <= 1'b0;
      b_q    <= 1'b1;
      resp_q <= m_wr_err ? SLVERR : OKAY;
    end
    if (m_rd_ack) begin
      r_q     <= 1'b1;
      rdata_q <= m_rd_data;
      resp_q  <= m_rd_err ? SLVERR : OKAY;
    end
    if ((b_q && s_axil_bready) || (r_q && s_axil_rready)) begin
      b_q    <= 1'b0;
      r_q    <= 1'b0;
      busy_q <= 1'b0;
    end

    if (rst) begin
      aw_q   <= 1'b0;
      w_q    <= 1'b0;
      ar_q   <= 1'b0;
      req_q  <= 1'b0;
      busy_q <= 1'b0;
      b_q    <= 1'b0;
      r_q    <= 1'b0;
    end
  end

  wire unused_ok = &{1'b0, s_axil_awaddr[1:0], s_axil_araddr[1:0]};

`ifdef INC_ASSERT
  logic waited_q;  // an access is at the block and has no answer
  always_ff @(posedge clk) begin
    waited_q <= (req_q || waited_q) && !m_rd_ack && !m_wr_ack && !rst;
    if (!rst) begin
      assert_one_answer: assert (!(m_rd_ack && m_wr_ack));
      assert_asked_for: assert (!(m_rd_ack || m_wr_ack) || req_q || waited_q);
      assert_its_kind: assert (!(m_rd_ack || m_wr_ack) || m_wr_ack == is_wr_q);
    end
  end
`endif

endmodule

`default_nettype wire
