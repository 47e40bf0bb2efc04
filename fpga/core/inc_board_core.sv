// What is on every board, without its pins: engine, serial bridge with the pins of the flash, ports,
// and the bridge for the frames that are not the engine's. The virtual board is this, too.
//
// Streams:       mac_*: a byte stream a port and direction, as inc_mac_port has them; rx, tx the serial
//                line; spi_* the flash.
// Latency:       from the last byte of a frame in to the first byte of a result out: that of the
//                engine, the two crossings, and a frame's words at 8 bytes a clock.
// Throughput:    8 bytes per clock of clk for all ports together: clk x 64 bits must be more than
//                all ports bring. Each port: 1 byte per clock of its MAC.
// Back-pressure: none towards the MACs: stat_rx_lost.
// Reset:         rst synchronous to clk, mac_*_rst each to its clock; all together, 4 clocks of the
//                slowest.
// Parameters:    PORTS 2..64; WORDS as in inc_mac_port; the engine's, as in inc_engine; the bridge's,
//                as in inc_uart_bridge.
// Source:        docs/boards.md
`default_nettype none

module inc_board_core #(
  parameter int          PORTS     = 4,
  parameter int          WORDS     = 512,
  parameter int          ENDPOINTS = 16,
  parameter int          PIPES     = 4,
  parameter int          POOL_KB   = 64,
  parameter int          FAN_IN    = 8,
  parameter int          MTU       = 1024,
  parameter int          MODE2     = 1,
  parameter int          MODE3     = 1,
  parameter int          FLOAT     = 0,
  parameter int          BIT_X256  = 2133,
  parameter logic [31:0] CLOCK_HZ  = 32'd8333333,
  parameter logic [31:0] BOARD     = inc_uart_pkg::BOARD_VIRTUAL,
  parameter logic [31:0] DEVICE_ID = 32'h41111043,
  parameter logic [31:0] USER_BASE = 32'h0010_0000,
  parameter int          RELOAD    = 1,
  parameter int          PATIENCE  = 100000
) (
  input  wire               clk,
  input  wire               rst,

  input  wire               rx,
  output wire               tx,
  output wire               spi_cs_n,
  output wire               spi_sck,
  output wire               spi_mosi,
  input  wire               spi_miso,
  output wire               reload,
  output wire               status_busy,
  output wire               irq,

  input  wire [PORTS-1:0]   mac_rx_clk,
  input  wire [PORTS-1:0]   mac_rx_rst,
  input  wire [PORTS*8-1:0] mac_rx_tdata,
  input  wire [PORTS-1:0]   mac_rx_tvalid,
  input  wire [PORTS-1:0]   mac_rx_tlast,
  input  wire [PORTS-1:0]   mac_rx_tuser,

  input  wire [PORTS-1:0]   mac_tx_clk,
  input  wire [PORTS-1:0]   mac_tx_rst,
  output wire [PORTS*8-1:0] mac_tx_tdata,
  output wire [PORTS-1:0]   mac_tx_tvalid,
  input  wire [PORTS-1:0]   mac_tx_tready,
  output wire [PORTS-1:0]   mac_tx_tlast,
  output wire [PORTS-1:0]   mac_tx_tuser,

  output wire [PORTS-1:0]   stat_rx_lost
);

  // ---------------------------------------------------------------------------------------------
  // Ports.

  wire [PORTS*64-1:0] in_data;
  wire [PORTS*8-1:0]  in_keep;
  wire [PORTS-1:0]    in_valid, in_ready, in_last, in_user;
  wire [63:0]         out_data;
  wire [7:0]          out_keep;
  wire [PORTS-1:0]    out_valid, out_ready;
  wire                out_last, out_user;

  generate
    for (genvar p = 0; p < PORTS; p++) begin : gen_port
      inc_mac_port #(.WORDS(WORDS)) u_port (
        .clk(clk), .rst(rst),
        .rx_clk(mac_rx_clk[p]), .rx_rst(mac_rx_rst[p]),
        .tx_clk(mac_tx_clk[p]), .tx_rst(mac_tx_rst[p]),
        .mac_rx_tdata(mac_rx_tdata[8*p +: 8]), .mac_rx_tvalid(mac_rx_tvalid[p]),
        .mac_rx_tlast(mac_rx_tlast[p]), .mac_rx_tuser(mac_rx_tuser[p]),
        .mac_tx_tdata(mac_tx_tdata[8*p +: 8]), .mac_tx_tvalid(mac_tx_tvalid[p]),
        .mac_tx_tready(mac_tx_tready[p]), .mac_tx_tlast(mac_tx_tlast[p]),
        .mac_tx_tuser(mac_tx_tuser[p]),
        .m_axis_tdata(in_data[64*p +: 64]), .m_axis_tkeep(in_keep[8*p +: 8]),
        .m_axis_tvalid(in_valid[p]), .m_axis_tready(in_ready[p]), .m_axis_tlast(in_last[p]),
        .m_axis_tuser(in_user[p]),
        .s_axis_tdata(out_data), .s_axis_tkeep(out_keep), .s_axis_tvalid(out_valid[p]),
        .s_axis_tready(out_ready[p]), .s_axis_tlast(out_last), .s_axis_tuser(out_user),
        .stat_rx_lost(stat_rx_lost[p]));
    end
  endgenerate

  wire [63:0] rx_data;
  wire [7:0]  rx_keep, rx_id;
  wire        rx_valid, rx_ready, rx_last, rx_user;

  inc_rx_merge #(.PORTS(PORTS)) u_merge (
    .clk(clk), .rst(rst),
    .s_axis_tdata(in_data), .s_axis_tkeep(in_keep), .s_axis_tvalid(in_valid),
    .s_axis_tready(in_ready), .s_axis_tlast(in_last), .s_axis_tuser(in_user),
    .m_axis_tdata(rx_data), .m_axis_tkeep(rx_keep), .m_axis_tvalid(rx_valid),
    .m_axis_tready(rx_ready), .m_axis_tlast(rx_last), .m_axis_tuser(rx_user),
    .m_axis_tid(rx_id));

  // ---------------------------------------------------------------------------------------------
  // Serial line and engine.

  wire        awvalid, awready, wvalid, wready, bvalid, bready, arvalid, arready, rvalid, rready;
  wire [15:0] awaddr, araddr;
  wire [2:0]  awprot, arprot;
  wire [31:0] wdata, rdata;
  wire [3:0]  wstrb;
  wire [1:0]  bresp, rresp;

  inc_uart_bridge #(
    .BIT_X256(BIT_X256), .CLOCK_HZ(CLOCK_HZ), .BOARD(BOARD), .DEVICE_ID(DEVICE_ID),
    .USER_BASE(USER_BASE), .RELOAD(RELOAD), .PATIENCE(PATIENCE), .ADDR_W(12)
  ) u_uart_bridge (
    .clk(clk), .rst(rst), .rx(rx), .tx(tx),
    .spi_cs_n(spi_cs_n), .spi_sck(spi_sck), .spi_mosi(spi_mosi), .spi_miso(spi_miso),
    .m_axil_awvalid(awvalid), .m_axil_awready(awready), .m_axil_awaddr(awaddr[11:0]),
    .m_axil_awprot(awprot), .m_axil_wvalid(wvalid), .m_axil_wready(wready), .m_axil_wdata(wdata),
    .m_axil_wstrb(wstrb), .m_axil_bvalid(bvalid), .m_axil_bready(bready), .m_axil_bresp(bresp),
    .m_axil_arvalid(arvalid), .m_axil_arready(arready), .m_axil_araddr(araddr[11:0]),
    .m_axil_arprot(arprot), .m_axil_rvalid(rvalid), .m_axil_rready(rready), .m_axil_rdata(rdata),
    .m_axil_rresp(rresp), .reload(reload), .status_busy(status_busy));

  assign awaddr[15:12] = 4'd0;
  assign araddr[15:12] = 4'd0;

  wire [63:0] etx_data, byp_data;
  wire [7:0]  etx_keep, etx_dest, byp_keep, byp_id;
  wire        etx_valid, etx_ready, etx_last, etx_user, byp_valid, byp_ready, byp_last;

  inc_engine #(
    .DATA_W(64), .PORTS(PORTS), .ENDPOINTS(ENDPOINTS), .PIPES(PIPES), .POOL_KB(POOL_KB),
    .FAN_IN(FAN_IN), .MTU(MTU), .MODE2(MODE2), .MODE3(MODE3), .FLOAT(FLOAT)
  ) u_engine (
    .clk(clk), .rst(rst),
    .s_axis_rx_tdata(rx_data), .s_axis_rx_tkeep(rx_keep), .s_axis_rx_tvalid(rx_valid),
    .s_axis_rx_tready(rx_ready), .s_axis_rx_tlast(rx_last), .s_axis_rx_tuser(rx_user && rx_last),
    .s_axis_rx_tid(rx_id),
    .m_axis_tx_tdata(etx_data), .m_axis_tx_tkeep(etx_keep), .m_axis_tx_tvalid(etx_valid),
    .m_axis_tx_tready(etx_ready), .m_axis_tx_tlast(etx_last), .m_axis_tx_tuser(etx_user),
    .m_axis_tx_tdest(etx_dest),
    .m_axis_bypass_tdata(byp_data), .m_axis_bypass_tkeep(byp_keep),
    .m_axis_bypass_tvalid(byp_valid), .m_axis_bypass_tready(byp_ready),
    .m_axis_bypass_tlast(byp_last), .m_axis_bypass_tid(byp_id),
    .s_axil_awaddr(awaddr), .s_axil_awprot(awprot), .s_axil_awvalid(awvalid),
    .s_axil_awready(awready), .s_axil_wdata(wdata), .s_axil_wstrb(wstrb), .s_axil_wvalid(wvalid),
    .s_axil_wready(wready), .s_axil_bresp(bresp), .s_axil_bvalid(bvalid), .s_axil_bready(bready),
    .s_axil_araddr(araddr), .s_axil_arprot(arprot), .s_axil_arvalid(arvalid),
    .s_axil_arready(arready), .s_axil_rdata(rdata), .s_axil_rresp(rresp), .s_axil_rvalid(rvalid),
    .s_axil_rready(rready), .irq(irq));

  // ---------------------------------------------------------------------------------------------
  // To the ports: the engine's frames and the bridge's, in turn. A frame for several ports waits
  // until each has room.

  wire [63:0]       fwd_data;
  wire [7:0]        fwd_keep;
  wire              fwd_valid, fwd_ready, fwd_last;
  wire [PORTS-1:0]  fwd_mask;

  inc_l2_forward #(.PORTS(PORTS)) u_forward (
    .clk(clk), .rst(rst),
    .s_axis_tdata(byp_data), .s_axis_tkeep(byp_keep), .s_axis_tvalid(byp_valid),
    .s_axis_tready(byp_ready), .s_axis_tlast(byp_last), .s_axis_tid(byp_id),
    .m_axis_tdata(fwd_data), .m_axis_tkeep(fwd_keep), .m_axis_tvalid(fwd_valid),
    .m_axis_tready(fwd_ready), .m_axis_tlast(fwd_last), .m_mask(fwd_mask));

  logic             taken_q, bridge_q, fair_q; // fair_q: the engine's frame was the last
  wire              bridge_next = fwd_valid && (fair_q || !etx_valid);
  wire [PORTS-1:0]  mask  = bridge_q ? fwd_mask : PORTS'(1) << etx_dest;
  wire              valid = taken_q && (bridge_q ? fwd_valid : etx_valid);
  wire              room  = (mask & ~out_ready) == '0; // a port that there is none of takes all
  wire              moved = valid && room;

  assign out_data  = bridge_q ? fwd_data : etx_data;
  assign out_keep  = bridge_q ? fwd_keep : etx_keep;
  assign out_last  = bridge_q ? fwd_last : etx_last;
  assign out_user  = !bridge_q && etx_user && etx_last;
  assign out_valid = moved ? mask : '0;
  assign etx_ready = taken_q && !bridge_q && room;
  assign fwd_ready = taken_q && bridge_q && room;

  always_ff @(posedge clk) begin
    if (!taken_q) begin
      taken_q  <= etx_valid || fwd_valid;
      bridge_q <= bridge_next;
    end else if (moved && out_last) begin
      taken_q <= 1'b0;
      fair_q  <= !bridge_q;
    end
    if (rst) begin
      taken_q <= 1'b0;
      fair_q  <= 1'b0;
    end
  end

endmodule

`default_nettype wire
