// Loopback with the engine's ports: the device that the tests of the link run, so that a fault of the
// link is not looked for in the engine. It is no engine and is built by the link's tests alone.
//
// Streams: s_axis_rx from an even port comes back on m_axis_tx, from an odd port on m_axis_bypass,
//   unchanged, one clock later, with tdest (tid) the ingress port. tuser is passed on to m_axis_tx.
// Records: a drop record on the rx side for every frame's last beat in, with psn its number of
//   frames before it; a send record on the tx side for every frame's last beat out.
// Registers: 16 words, read as written, at byte addresses 0..60; a DECERR (3) elsewhere. Register 15
//   written with 32'hdead_0001 fails an assertion (a test wants one).
// Reset: synchronous, active high.
`default_nettype none

module inc_engine #(
  parameter int DATA_W      = inc_build_pkg::DATA_W,
  parameter int PORTS       = inc_build_pkg::PORTS,
  parameter int ENDPOINTS   = inc_build_pkg::ENDPOINTS,
  parameter int PIPES       = inc_build_pkg::PIPES,
  parameter int POOL_KB     = inc_build_pkg::POOL_KB,
  parameter int FAN_IN      = inc_build_pkg::FAN_IN,
  parameter int MTU         = inc_build_pkg::MTU,
  parameter int MODE2       = inc_build_pkg::MODE2,
  parameter int MODE3       = inc_build_pkg::MODE3,
  parameter int FLOAT       = inc_build_pkg::FLOAT,
  parameter int CUT_THROUGH = inc_build_pkg::CUT_THROUGH
) (
  input  wire logic                clk,
  input  wire logic                rst,
  input  wire logic [DATA_W-1:0]   s_axis_rx_tdata,
  input  wire logic [DATA_W/8-1:0] s_axis_rx_tkeep,
  input  wire logic                s_axis_rx_tvalid,
  output logic                     s_axis_rx_tready,
  input  wire logic                s_axis_rx_tlast,
  input  wire logic                s_axis_rx_tuser,
  input  wire logic [7:0]          s_axis_rx_tid,
  output logic [DATA_W-1:0]        m_axis_tx_tdata,
  output logic [DATA_W/8-1:0]      m_axis_tx_tkeep,
  output logic                     m_axis_tx_tvalid,
  input  wire logic                m_axis_tx_tready,
  output logic                     m_axis_tx_tlast,
  output logic                     m_axis_tx_tuser,
  output logic [7:0]               m_axis_tx_tdest,
  output logic [DATA_W-1:0]        m_axis_bypass_tdata,
  output logic [DATA_W/8-1:0]      m_axis_bypass_tkeep,
  output logic                     m_axis_bypass_tvalid,
  input  wire logic                m_axis_bypass_tready,
  output logic                     m_axis_bypass_tlast,
  output logic [7:0]               m_axis_bypass_tid,
  input  wire logic [15:0]         s_axil_awaddr,
  input  wire logic                s_axil_awvalid,
  output logic                     s_axil_awready,
  input  wire logic [2:0]          s_axil_awprot,
  input  wire logic [31:0]         s_axil_wdata,
  input  wire logic [3:0]          s_axil_wstrb,
  input  wire logic                s_axil_wvalid,
  output logic                     s_axil_wready,
  output logic [1:0]               s_axil_bresp,
  output logic                     s_axil_bvalid,
  input  wire logic                s_axil_bready,
  input  wire logic [15:0]         s_axil_araddr,
  input  wire logic                s_axil_arvalid,
  output logic                     s_axil_arready,
  input  wire logic [2:0]          s_axil_arprot,
  output logic [31:0]              s_axil_rdata,
  output logic [1:0]               s_axil_rresp,
  output logic                     s_axil_rvalid,
  input  wire logic                s_axil_rready,
  output logic                     irq
);

  logic [511:0] regs_q;  // 16 words, flat

  inc_engine_loop_core #(
    .DATA_W(DATA_W)
  ) u_core (
    .clk          (clk),
    .rst          (rst),
    .s_axis_tdata (s_axis_rx_tdata),
    .s_axis_tkeep (s_axis_rx_tkeep),
    .s_axis_tvalid(s_axis_rx_tvalid),
    .s_axis_tready(s_axis_rx_tready),
    .s_axis_tlast (s_axis_rx_tlast),
    .s_axis_tuser (s_axis_rx_tuser),
    .s_axis_tid   (s_axis_rx_tid),
    .m_axis_tdata (m_axis_tx_tdata),
    .m_axis_tkeep (m_axis_tx_tkeep),
    .tx_tvalid    (m_axis_tx_tvalid),
    .tx_tready    (m_axis_tx_tready),
    .bypass_tvalid(m_axis_bypass_tvalid),
    .bypass_tready(m_axis_bypass_tready),
    .m_axis_tlast (m_axis_tx_tlast),
    .m_axis_tuser (m_axis_tx_tuser),
    .m_axis_tid   (m_axis_tx_tdest)
  );

  assign m_axis_bypass_tdata = m_axis_tx_tdata;
  assign m_axis_bypass_tkeep = m_axis_tx_tkeep;
  assign m_axis_bypass_tlast = m_axis_tx_tlast;
  assign m_axis_bypass_tid   = m_axis_tx_tdest;
  assign irq = 1'b0;

  wire unused_ok = &{1'b0, s_axil_awprot, s_axil_arprot, s_axil_wstrb, s_axil_awaddr[1:0], s_axil_araddr[1:0],
                     PORTS[0], ENDPOINTS[0], PIPES[0], POOL_KB[0], FAN_IN[0], MTU[0], MODE2[0],
                     MODE3[0], FLOAT[0], CUT_THROUGH[0]};

  assign s_axil_awready = s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid;
  assign s_axil_wready  = s_axil_awready;
  assign s_axil_arready = !s_axil_rvalid;

  always_ff @(posedge clk) begin
    if (s_axil_bready) s_axil_bvalid <= 1'b0;
    if (s_axil_rready) s_axil_rvalid <= 1'b0;
    if (s_axil_awready) begin
      s_axil_bvalid <= 1'b1;
      s_axil_bresp  <= (s_axil_awaddr[15:6] == 0) ? 2'd0 : 2'd3;
      if (s_axil_awaddr[15:6] == 0) regs_q[32*s_axil_awaddr[5:2] +: 32] <= s_axil_wdata;
      a_asked_for: assert (rst || s_axil_awaddr != 16'd60 || s_axil_wdata != 32'hdead_0001)
        else $error("loopback: told to fail");
    end
    if (s_axil_arready && s_axil_arvalid) begin
      s_axil_rvalid <= 1'b1;
      s_axil_rresp  <= (s_axil_araddr[15:6] == 0) ? 2'd0 : 2'd3;
      s_axil_rdata  <= regs_q[32*s_axil_araddr[5:2] +: 32];
    end
    if (rst) begin
      s_axil_bvalid <= 1'b0;
      s_axil_rvalid <= 1'b0;
    end
  end

endmodule

`default_nettype wire
