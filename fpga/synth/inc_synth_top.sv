// Few-pin wrapper of the engine, for timing and utilisation: no board's top.
//
// Streams:       si in, so out: one bit a clock. Every input of the engine is a register of one
//                shift chain behind si; every output is registered and folded by a tree of XORs of
//                four, a register a level, into so. So nothing of the engine can be left out, and
//                its own paths, from and to registers, are what is timed.
// Latency:       of no meaning.
// Throughput:    one bit a clock.
// Back-pressure: none; the engine's readies are folded like any output.
// Reset:         rst, registered, is the engine's reset. The chain and the tree are not reset.
// Parameters:    those of the engine (docs/configuration.md).
// Source:        docs/results.md, "Synthesis".
`default_nettype none

module inc_synth_top #(
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
  input  wire clk,
  input  wire rst,
  input  wire si,
  output wire so
);

  localparam int KEEP_W = DATA_W / 8;
  localparam int IN_W   = DATA_W + KEEP_W + 1 + 1 + 1 + 8 + 1 + 1 + 16 + 3 + 1 + 32 + 4 + 1 + 1
                          + 16 + 3 + 1 + 1;
  localparam int OUT_W  = 1 + (DATA_W + KEEP_W + 1 + 1 + 1 + 8) + (DATA_W + KEEP_W + 1 + 1 + 8)
                          + 1 + 1 + 2 + 1 + 1 + 32 + 2 + 1 + 1;
  // A heap of fours: node i is the XOR of nodes 4i+1 to 4i+4; those from INNER on are the outputs.
  localparam int INNER  = (OUT_W + 1) / 3;
  localparam int NODES  = 4 * INNER + 1;

  logic              rst_q;
  logic [IN_W-1:0]   in_q;
  logic [NODES-1:0]  node_q;

  wire [DATA_W-1:0] rx_tdata;
  wire [KEEP_W-1:0] rx_tkeep;
  wire              rx_tvalid, rx_tlast, rx_tuser, tx_tready, bypass_tready;
  wire [7:0]        rx_tid;
  wire [15:0]       awaddr, araddr;
  wire [2:0]        awprot, arprot;
  wire [31:0]       wdata;
  wire [3:0]        wstrb;
  wire              awvalid, wvalid, bready, arvalid, rready;
  assign {rx_tdata, rx_tkeep, rx_tvalid, rx_tlast, rx_tuser, rx_tid, tx_tready, bypass_tready,
          awaddr, awprot, awvalid, wdata, wstrb, wvalid, bready, araddr, arprot, arvalid,
          rready} = in_q;

  wire              rx_tready, tx_tvalid, tx_tlast, tx_tuser, bypass_tvalid, bypass_tlast;
  wire [DATA_W-1:0] tx_tdata, bypass_tdata;
  wire [KEEP_W-1:0] tx_tkeep, bypass_tkeep;
  wire [7:0]        tx_tdest, bypass_tid;
  wire              awready, wready, bvalid, arready, rvalid, irq;
  wire [1:0]        bresp, rresp;
  wire [31:0]       rdata;
  wire [OUT_W-1:0]  out = {rx_tready,
                           tx_tdata, tx_tkeep, tx_tvalid, tx_tlast, tx_tuser, tx_tdest,
                           bypass_tdata, bypass_tkeep, bypass_tvalid, bypass_tlast, bypass_tid,
                           awready, wready, bresp, bvalid, arready, rdata, rresp, rvalid, irq};

  always_ff @(posedge clk) begin
    rst_q <= rst;
    in_q  <= {in_q[IN_W-2:0], si};
    for (int i = 0; i < INNER; i++) node_q[i] <= ^node_q[4*i+1 +: 4];
    node_q[NODES-1:INNER] <= (NODES - INNER)'(out);
  end

  assign so = node_q[0];

  inc_engine #(.DATA_W(DATA_W), .PORTS(PORTS), .ENDPOINTS(ENDPOINTS), .PIPES(PIPES),
               .POOL_KB(POOL_KB), .FAN_IN(FAN_IN), .MTU(MTU), .MODE2(MODE2), .MODE3(MODE3),
               .FLOAT(FLOAT), .CUT_THROUGH(CUT_THROUGH)) u_engine (
    .clk(clk), .rst(rst_q),
    .s_axis_rx_tdata(rx_tdata), .s_axis_rx_tkeep(rx_tkeep), .s_axis_rx_tvalid(rx_tvalid),
    .s_axis_rx_tready(rx_tready), .s_axis_rx_tlast(rx_tlast), .s_axis_rx_tuser(rx_tuser),
    .s_axis_rx_tid(rx_tid),
    .m_axis_tx_tdata(tx_tdata), .m_axis_tx_tkeep(tx_tkeep), .m_axis_tx_tvalid(tx_tvalid),
    .m_axis_tx_tready(tx_tready), .m_axis_tx_tlast(tx_tlast), .m_axis_tx_tuser(tx_tuser),
    .m_axis_tx_tdest(tx_tdest),
    .m_axis_bypass_tdata(bypass_tdata), .m_axis_bypass_tkeep(bypass_tkeep),
    .m_axis_bypass_tvalid(bypass_tvalid), .m_axis_bypass_tready(bypass_tready),
    .m_axis_bypass_tlast(bypass_tlast), .m_axis_bypass_tid(bypass_tid),
    .s_axil_awaddr(awaddr), .s_axil_awprot(awprot), .s_axil_awvalid(awvalid),
    .s_axil_awready(awready), .s_axil_wdata(wdata), .s_axil_wstrb(wstrb),
    .s_axil_wvalid(wvalid), .s_axil_wready(wready), .s_axil_bresp(bresp),
    .s_axil_bvalid(bvalid), .s_axil_bready(bready), .s_axil_araddr(araddr),
    .s_axil_arprot(arprot), .s_axil_arvalid(arvalid), .s_axil_arready(arready),
    .s_axil_rdata(rdata), .s_axil_rresp(rresp), .s_axil_rvalid(rvalid), .s_axil_rready(rready),
    .irq(irq));

endmodule

`default_nettype wire
