// UART bridge: a host at the other end of a serial line reads and writes registers, reads and
// writes the flash, and makes the FPGA load itself anew.
//
// Streams:       rx, tx the line, 8N1. m_axil_* the registers. spi_* the flash.
// Latency:       a register is read or written in the time of its frames on the line and some 40
//                clocks.
// Throughput:    that of the line, both ways at once: a page is taken while the one before is
//                written.
// Back-pressure: none on the line: hosts keep to the window that hello tells. m_axil_* by its
//                readies.
// Reset:         synchronous; the frame on the line is lost.
// Parameters:    BIT_X256 1024..2^24-1 clocks of a bit, times 256; CLOCK_HZ; BOARD of uart.yaml;
//                DEVICE_ID the FPGA's IDCODE; USER_BASE a multiple of 4096, where the user's image
//                begins, behind the golden one; RELOAD 0, 1: reload reaches PROGRAMN; ADDR_W 3..32;
//                RING_BYTES a power of two, 1024..32768: the window; FRAMES a power of two, 2..128;
//                SPI_HALF 1..255; PATIENCE clocks for a busy flash; TIMEOUT clocks for registers.
// Source:        docs/serial.md.
`default_nettype none

module inc_uart_bridge #(
  parameter int          BIT_X256   = 256 * 125,
  parameter logic [31:0] CLOCK_HZ   = 32'd125000000,
  parameter logic [31:0] BOARD      = inc_uart_pkg::BOARD_UNKNOWN,
  parameter logic [31:0] DEVICE_ID  = 32'd0,
  parameter logic [31:0] USER_BASE  = 32'h0010_0000,
  parameter int          RELOAD     = 0,
  parameter int          ADDR_W     = 16,
  parameter int          RING_BYTES = 4096,
  parameter int          FRAMES     = 16,
  parameter int          SPI_HALF   = 2,
  parameter int          PATIENCE   = 12500000,
  parameter int          TIMEOUT    = 65536
) (
  input  wire              clk,
  input  wire              rst,
  input  wire              rx,
  output wire              tx,

  output wire              spi_cs_n,
  output wire              spi_sck,
  output wire              spi_mosi,
  input  wire              spi_miso,

  output wire              m_axil_awvalid,
  input  wire              m_axil_awready,
  output wire [ADDR_W-1:0] m_axil_awaddr,
  output wire [2:0]        m_axil_awprot,
  output wire              m_axil_wvalid,
  input  wire              m_axil_wready,
  output wire [31:0]       m_axil_wdata,
  output wire [3:0]        m_axil_wstrb,
  input  wire              m_axil_bvalid,
  output wire              m_axil_bready,
  input  wire [1:0]        m_axil_bresp,
  output wire              m_axil_arvalid,
  input  wire              m_axil_arready,
  output wire [ADDR_W-1:0] m_axil_araddr,
  output wire [2:0]        m_axil_arprot,
  input  wire              m_axil_rvalid,
  output wire              m_axil_rready,
  input  wire [31:0]       m_axil_rdata,
  input  wire [1:0]        m_axil_rresp,

  output wire              reload,       // level: pull PROGRAMN
  output wire              status_busy   // a request is under way, or its response
);

  // Fields of hello from the last to the first.
  localparam logic [8*inc_uart_pkg::HELLO_BYTES-1:0] HELLO = {
    7'd0, RELOAD != 0, 8'(FRAMES - 1), 16'(RING_BYTES - 1), USER_BASE, CLOCK_HZ, DEVICE_ID, BOARD};

  wire       rx_valid, rx_bad, req_valid, req_ready, req_last, len_valid;
  wire [7:0] rx_data, req_data;
  wire [8:0] len;
  wire       rsp_valid, rsp_ready, rsp_last, tx_valid, tx_ready, tx_idle;
  wire [7:0] rsp_data, tx_data;

  inc_uart_rx #(.BIT_X256(BIT_X256)) u_rx (
    .clk(clk), .rst(rst), .rx(rx), .m_valid(rx_valid), .m_data(rx_data), .stat_bad(rx_bad));

  inc_frame_rx #(.RING_BYTES(RING_BYTES), .FRAMES(FRAMES)) u_frame_rx (
    .clk(clk), .rst(rst), .s_valid(rx_valid), .s_data(rx_data), .s_bad(rx_bad),
    .m_valid(req_valid), .m_ready(req_ready), .m_data(req_data), .m_last(req_last),
    .len_valid(len_valid), .len(len));

  inc_frame_tx u_frame_tx (
    .clk(clk), .rst(rst), .s_valid(rsp_valid), .s_ready(rsp_ready), .s_data(rsp_data),
    .s_last(rsp_last), .m_valid(tx_valid), .m_ready(tx_ready), .m_data(tx_data),
    .status_idle(tx_idle));

  inc_uart_tx #(.BIT_X256(BIT_X256)) u_tx (
    .clk(clk), .rst(rst), .s_valid(tx_valid), .s_ready(tx_ready), .s_data(tx_data), .tx(tx));

  wire              reg_valid, reg_ready, reg_write, reg_rsp, reg_error, reg_timeout;
  wire [ADDR_W-1:0] reg_addr;
  wire [31:0]       reg_wdata, reg_rdata;
  wire              fl_valid, fl_ready, fl_data_valid, fl_data_ready, fl_got_valid, fl_got_ready;
  wire              fl_begin, fl_fail, fl_done;
  wire [2:0]        fl_op;
  wire [23:0]       fl_addr;
  wire [8:0]        fl_len;
  wire [7:0]        fl_data, fl_got;
  wire              do_reload, busy;

  inc_bridge #(.ADDR_W(ADDR_W), .HELLO(HELLO), .USER_BASE(USER_BASE)) u_bridge (
    .clk(clk), .rst(rst),
    .s_valid(req_valid), .s_ready(req_ready), .s_data(req_data), .s_last(req_last),
    .len_valid(len_valid), .len(len),
    .m_valid(rsp_valid), .m_ready(rsp_ready), .m_data(rsp_data), .m_last(rsp_last),
    .reg_valid(reg_valid), .reg_ready(reg_ready), .reg_write(reg_write), .reg_addr(reg_addr),
    .reg_wdata(reg_wdata), .reg_rsp_valid(reg_rsp), .reg_rsp_error(reg_error),
    .reg_rsp_timeout(reg_timeout), .reg_rsp_rdata(reg_rdata),
    .fl_valid(fl_valid), .fl_ready(fl_ready), .fl_op(fl_op), .fl_addr(fl_addr), .fl_len(fl_len),
    .fl_data_valid(fl_data_valid), .fl_data_ready(fl_data_ready), .fl_data(fl_data),
    .fl_got_valid(fl_got_valid), .fl_got_ready(fl_got_ready), .fl_got(fl_got),
    .fl_begin(fl_begin), .fl_fail(fl_fail), .fl_done(fl_done),
    .reload(do_reload), .status_busy(busy));

  inc_axil_host #(.ADDR_W(ADDR_W), .TIMEOUT(TIMEOUT)) u_axil (
    .clk(clk), .rst(rst), .s_valid(reg_valid), .s_ready(reg_ready), .s_write(reg_write),
    .s_addr(reg_addr), .s_wdata(reg_wdata), .rsp_valid(reg_rsp), .rsp_error(reg_error),
    .rsp_timeout(reg_timeout), .rsp_rdata(reg_rdata),
    .m_axil_awvalid(m_axil_awvalid), .m_axil_awready(m_axil_awready),
    .m_axil_awaddr(m_axil_awaddr), .m_axil_awprot(m_axil_awprot),
    .m_axil_wvalid(m_axil_wvalid), .m_axil_wready(m_axil_wready),
    .m_axil_wdata(m_axil_wdata), .m_axil_wstrb(m_axil_wstrb),
    .m_axil_bvalid(m_axil_bvalid), .m_axil_bready(m_axil_bready), .m_axil_bresp(m_axil_bresp),
    .m_axil_arvalid(m_axil_arvalid), .m_axil_arready(m_axil_arready),
    .m_axil_araddr(m_axil_araddr), .m_axil_arprot(m_axil_arprot),
    .m_axil_rvalid(m_axil_rvalid), .m_axil_rready(m_axil_rready), .m_axil_rdata(m_axil_rdata),
    .m_axil_rresp(m_axil_rresp));

  inc_flash #(.HALF(SPI_HALF), .PATIENCE(PATIENCE)) u_flash (
    .clk(clk), .rst(rst), .s_valid(fl_valid), .s_ready(fl_ready), .s_op(fl_op),
    .s_addr(fl_addr), .s_len(fl_len),
    .s_data_valid(fl_data_valid), .s_data_ready(fl_data_ready), .s_data(fl_data),
    .m_valid(fl_got_valid), .m_ready(fl_got_ready), .m_data(fl_got),
    .stat_begin(fl_begin), .stat_fail(fl_fail), .stat_done(fl_done),
    .spi_cs_n(spi_cs_n), .spi_sck(spi_sck), .spi_mosi(spi_mosi), .spi_miso(spi_miso));

  // ---------------------------------------------------------------- reload
  // When the response has left the line (the last byte is still on it when inc_frame_tx is idle).
  localparam int RW = $clog2(inc_uart_pkg::RESET_CLOCKS + 1);
  logic          asked_q;
  logic [RW-1:0] pull_q;
  wire           sent = tx_idle && tx_ready && !tx_valid;

  assign reload      = pull_q != '0;
  assign status_busy = busy || !sent || rx_valid;

  always_ff @(posedge clk) begin
    if (pull_q != '0) pull_q <= pull_q - RW'(1);
    if (asked_q && sent && !busy) begin
      asked_q <= 1'b0;
      pull_q  <= RW'(inc_uart_pkg::RESET_CLOCKS);
    end
    if (do_reload) asked_q <= 1'b1;
    if (rst) begin
      asked_q <= 1'b0;
      pull_q  <= '0;
    end
  end

endmodule

`default_nettype wire
