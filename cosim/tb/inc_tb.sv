// Test bench of the whole engine: engine, transactors, retirement probe. The C++ main
// (cosim/sim/main.cpp) drives clk, rst and the handle of the link's instance.
//
// Parameters are the engine's. Clock number 0 is the first rising edge.
`default_nettype none

module inc_tb #(
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
  input  wire logic        clk,
  input  wire logic        rst,
  input  wire logic [63:0] handle,
  output logic             irq
);

  logic [DATA_W-1:0]   rx_tdata;
  logic [DATA_W/8-1:0] rx_tkeep;
  logic                rx_tvalid;
  logic                rx_tready;
  logic                rx_tlast;
  logic                rx_tuser;
  logic [7:0]          rx_tid;

  logic [DATA_W-1:0]   tx_tdata;
  logic [DATA_W/8-1:0] tx_tkeep;
  logic                tx_tvalid;
  logic                tx_tready;
  logic                tx_tlast;
  logic                tx_tuser;
  logic [7:0]          tx_tdest;

  logic [DATA_W-1:0]   bypass_tdata;
  logic [DATA_W/8-1:0] bypass_tkeep;
  logic                bypass_tvalid;
  logic                bypass_tready;
  logic                bypass_tlast;
  logic [7:0]          bypass_tid;

  logic [15:0] awaddr;
  logic        awvalid;
  logic        awready;
  logic [2:0]  awprot;
  logic [31:0] wdata;
  logic [3:0]  wstrb;
  logic        wvalid;
  logic        wready;
  logic [1:0]  bresp;
  logic        bvalid;
  logic        bready;
  logic [15:0] araddr;
  logic        arvalid;
  logic        arready;
  logic [2:0]  arprot;
  logic [31:0] rdata;
  logic [1:0]  rresp;
  logic        rvalid;
  logic        rready;

  inc_axis_source #(
    .DATA_W(DATA_W)
  ) u_source (
    .clk          (clk),
    .rst          (rst),
    .handle       (handle),
    .m_axis_tdata (rx_tdata),
    .m_axis_tkeep (rx_tkeep),
    .m_axis_tvalid(rx_tvalid),
    .m_axis_tready(rx_tready),
    .m_axis_tlast (rx_tlast),
    .m_axis_tuser (rx_tuser),
    .m_axis_tid   (rx_tid)
  );

  inc_engine #(
    .DATA_W     (DATA_W),
    .PORTS      (PORTS),
    .ENDPOINTS  (ENDPOINTS),
    .PIPES      (PIPES),
    .POOL_KB    (POOL_KB),
    .FAN_IN     (FAN_IN),
    .MTU        (MTU),
    .MODE2      (MODE2),
    .MODE3      (MODE3),
    .FLOAT      (FLOAT),
    .CUT_THROUGH(CUT_THROUGH)
  ) u_engine (
    .clk                 (clk),
    .rst                 (rst),
    .s_axis_rx_tdata     (rx_tdata),
    .s_axis_rx_tkeep     (rx_tkeep),
    .s_axis_rx_tvalid    (rx_tvalid),
    .s_axis_rx_tready    (rx_tready),
    .s_axis_rx_tlast     (rx_tlast),
    .s_axis_rx_tuser     (rx_tuser),
    .s_axis_rx_tid       (rx_tid),
    .m_axis_tx_tdata     (tx_tdata),
    .m_axis_tx_tkeep     (tx_tkeep),
    .m_axis_tx_tvalid    (tx_tvalid),
    .m_axis_tx_tready    (tx_tready),
    .m_axis_tx_tlast     (tx_tlast),
    .m_axis_tx_tuser     (tx_tuser),
    .m_axis_tx_tdest     (tx_tdest),
    .m_axis_bypass_tdata (bypass_tdata),
    .m_axis_bypass_tkeep (bypass_tkeep),
    .m_axis_bypass_tvalid(bypass_tvalid),
    .m_axis_bypass_tready(bypass_tready),
    .m_axis_bypass_tlast (bypass_tlast),
    .m_axis_bypass_tid   (bypass_tid),
    .s_axil_awaddr       (awaddr),
    .s_axil_awvalid      (awvalid),
    .s_axil_awready      (awready),
    .s_axil_awprot       (awprot),
    .s_axil_wdata        (wdata),
    .s_axil_wstrb        (wstrb),
    .s_axil_wvalid       (wvalid),
    .s_axil_wready       (wready),
    .s_axil_bresp        (bresp),
    .s_axil_bvalid       (bvalid),
    .s_axil_bready       (bready),
    .s_axil_araddr       (araddr),
    .s_axil_arvalid      (arvalid),
    .s_axil_arready      (arready),
    .s_axil_arprot       (arprot),
    .s_axil_rdata        (rdata),
    .s_axil_rresp        (rresp),
    .s_axil_rvalid       (rvalid),
    .s_axil_rready       (rready),
    .irq                 (irq)
  );

  inc_axis_sink #(
    .DATA_W(DATA_W),
    .STREAM(0)
  ) u_sink_tx (
    .clk          (clk),
    .rst          (rst),
    .handle       (handle),
    .s_axis_tdata (tx_tdata),
    .s_axis_tkeep (tx_tkeep),
    .s_axis_tvalid(tx_tvalid),
    .s_axis_tready(tx_tready),
    .s_axis_tlast (tx_tlast),
    .s_axis_tuser (tx_tuser),
    .s_axis_tport (tx_tdest)
  );

  inc_axis_sink #(
    .DATA_W(DATA_W),
    .STREAM(1)
  ) u_sink_bypass (
    .clk          (clk),
    .rst          (rst),
    .handle       (handle),
    .s_axis_tdata (bypass_tdata),
    .s_axis_tkeep (bypass_tkeep),
    .s_axis_tvalid(bypass_tvalid),
    .s_axis_tready(bypass_tready),
    .s_axis_tlast (bypass_tlast),
    .s_axis_tuser (1'b0),
    .s_axis_tport (bypass_tid)
  );

  inc_axil_master #(
    .ADDR_W(16)
  ) u_axil (
    .clk           (clk),
    .rst           (rst),
    .handle        (handle),
    .m_axil_awaddr (awaddr),
    .m_axil_awvalid(awvalid),
    .m_axil_awready(awready),
    .m_axil_awprot (awprot),
    .m_axil_wdata  (wdata),
    .m_axil_wstrb  (wstrb),
    .m_axil_wvalid (wvalid),
    .m_axil_wready (wready),
    .m_axil_bresp  (bresp),
    .m_axil_bvalid (bvalid),
    .m_axil_bready (bready),
    .m_axil_araddr (araddr),
    .m_axil_arvalid(arvalid),
    .m_axil_arready(arready),
    .m_axil_arprot (arprot),
    .m_axil_rdata  (rdata),
    .m_axil_rresp  (rresp),
    .m_axil_rvalid (rvalid),
    .m_axil_rready (rready)
  );

  inc_probe #(
    .RECORD_W(inc_spec_pkg::RECORD_W)
  ) u_probe (
    .clk      (clk),
    .rst      (rst),
    .handle   (handle),
    .tx_valid (u_engine.u_core.ret_tx_valid),
    .tx_record(u_engine.u_core.ret_tx_rec),
    .cut_valid (u_engine.u_core.ret_cut_valid),
    .cut_record(u_engine.u_core.ret_cut_rec),
    .ack_valid (u_engine.u_core.ret_ack2_valid),
    .ack_record(u_engine.u_core.ret_ack2_rec),
    .fw_valid (u_engine.u_core.ret_fw_valid),
    .fw_record(u_engine.u_core.ret_fw_rec),
    .rx_valid (u_engine.u_core.ret_rx_valid),
    .rx_record(u_engine.u_core.ret_rx_rec)
  );

endmodule

`default_nettype wire
