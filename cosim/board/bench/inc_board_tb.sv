// The UART bridge and the registers of an engine, for board_tb.cpp: what a board has at its serial
// line and its flash. There is no engine behind the registers: table commands end at once.
//
// Streams:       rx, tx the serial line; spi_* the flash.
// Latency:       that of inc_uart_bridge.
// Reset:         synchronous.
// Parameters:    those of inc_uart_bridge.
// Source:        docs/serial.md.
`default_nettype none

module inc_board_tb #(
  parameter int          BIT_X256  = 2133,
  parameter logic [31:0] CLOCK_HZ  = 32'd8333333,
  parameter logic [31:0] DEVICE_ID = 32'h41111043,
  parameter logic [31:0] USER_BASE = 32'h0010_0000,
  parameter int          PATIENCE  = 100000
) (
  input  wire clk,
  input  wire rst,
  input  wire rx,
  output wire tx,
  output wire spi_cs_n,
  output wire spi_sck,
  output wire spi_mosi,
  input  wire spi_miso,
  output wire reload,
  output wire status_busy
);

  wire        awvalid, awready, wvalid, wready, bvalid, bready, arvalid, arready, rvalid, rready;
  wire [11:0] awaddr, araddr;
  wire [2:0]  awprot, arprot;
  wire [31:0] wdata, rdata;
  wire [3:0]  wstrb;
  wire [1:0]  bresp, rresp;

  inc_uart_bridge #(
    .BIT_X256(BIT_X256), .CLOCK_HZ(CLOCK_HZ), .BOARD(inc_uart_pkg::BOARD_VIRTUAL),
    .DEVICE_ID(DEVICE_ID), .USER_BASE(USER_BASE), .RELOAD(1), .PATIENCE(PATIENCE), .ADDR_W(12)
  ) u_uart_bridge (
    .clk(clk), .rst(rst), .rx(rx), .tx(tx),
    .spi_cs_n(spi_cs_n), .spi_sck(spi_sck), .spi_mosi(spi_mosi), .spi_miso(spi_miso),
    .m_axil_awvalid(awvalid), .m_axil_awready(awready), .m_axil_awaddr(awaddr),
    .m_axil_awprot(awprot), .m_axil_wvalid(wvalid), .m_axil_wready(wready), .m_axil_wdata(wdata),
    .m_axil_wstrb(wstrb), .m_axil_bvalid(bvalid), .m_axil_bready(bready), .m_axil_bresp(bresp),
    .m_axil_arvalid(arvalid), .m_axil_arready(arready), .m_axil_araddr(araddr),
    .m_axil_arprot(arprot), .m_axil_rvalid(rvalid), .m_axil_rready(rready), .m_axil_rdata(rdata),
    .m_axil_rresp(rresp), .reload(reload), .status_busy(status_busy));

  wire        tbl_valid, cnt_valid, cnt_ready, cnt_rsp_valid;
  wire [7:0]  cnt_index;
  wire [47:0] cnt_rsp_data;
  logic       tbl_rsp_q;

  always_ff @(posedge clk) tbl_rsp_q <= tbl_valid && !rst;

  inc_csr_block u_csr (
    .clk(clk), .rst(rst),
    .s_axil_awvalid(awvalid), .s_axil_awready(awready), .s_axil_awaddr(awaddr),
    .s_axil_awprot(awprot), .s_axil_wvalid(wvalid), .s_axil_wready(wready), .s_axil_wdata(wdata),
    .s_axil_wstrb(wstrb), .s_axil_bvalid(bvalid), .s_axil_bready(bready), .s_axil_bresp(bresp),
    .s_axil_arvalid(arvalid), .s_axil_arready(arready), .s_axil_araddr(araddr),
    .s_axil_arprot(arprot), .s_axil_rvalid(rvalid), .s_axil_rready(rready), .s_axil_rdata(rdata),
    .s_axil_rresp(rresp),
    .cfg_tick_clocks(),
    .m_tbl_valid(tbl_valid), .m_tbl_ready(1'b1), .m_tbl_write(), .m_tbl_id(), .m_tbl_index(),
    .m_tbl_wdata(), .s_tbl_rsp_valid(tbl_rsp_q), .s_tbl_rsp_error(2'd0),
    .s_tbl_rsp_rdata(1024'd0),
    .m_cnt_valid(cnt_valid), .m_cnt_ready(cnt_ready), .m_cnt_index(cnt_index),
    .s_cnt_rsp_valid(cnt_rsp_valid), .s_cnt_rsp_data(cnt_rsp_data),
    .status_pipe_error('0), .status_pipe_drained('1), .stat_bind_done(1'b0),
    .stat_error_valid(1'b0), .stat_error_kind(8'd0), .stat_error_pipe(8'd0),
    .stat_error_endpoint(12'd0), .stat_error_psn(24'd0), .stat_error_got(32'd0),
    .stat_error_wanted(32'd0), .irq());

  inc_counters u_counters (
    .clk(clk), .rst(rst), .stat_valid(1'b0), .stat_verdict(8'd0), .stat_event('0),
    .s_rd_valid(cnt_valid), .s_rd_ready(cnt_ready), .s_rd_index(cnt_index),
    .m_rd_valid(cnt_rsp_valid), .m_rd_data(cnt_rsp_data));

endmodule

`default_nettype wire
