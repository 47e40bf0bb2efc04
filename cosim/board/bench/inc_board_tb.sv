// The core of every board (fpga/core), for board_tb.cpp, with one clock for the MACs of all ports.
//
// Streams:       those of inc_board_core.
// Latency:       that of inc_board_core.
// Reset:         rst synchronous to clk; it is the MACs', too.
// Parameters:    those of inc_board_core.
// Source:        docs/boards.md
`default_nettype none

module inc_board_tb #(
  parameter int PORTS = 4
) (
  input  wire               clk,
  input  wire               rst,
  input  wire               mac_clk,
  input  wire               rx,
  output wire               tx,
  output wire               spi_cs_n,
  output wire               spi_sck,
  output wire               spi_mosi,
  input  wire               spi_miso,
  output wire               reload,
  output wire               status_busy,
  input  wire [PORTS*8-1:0] mac_rx_tdata,
  input  wire [PORTS-1:0]   mac_rx_tvalid,
  input  wire [PORTS-1:0]   mac_rx_tlast,
  output wire [PORTS*8-1:0] mac_tx_tdata,
  output wire [PORTS-1:0]   mac_tx_tvalid,
  input  wire [PORTS-1:0]   mac_tx_tready,
  output wire [PORTS-1:0]   mac_tx_tlast,
  output wire [PORTS-1:0]   mac_tx_tuser,
  output wire [PORTS-1:0]   stat_rx_lost
);

  inc_board_core #(.PORTS(PORTS)) u_core (
    .clk(clk), .rst(rst), .rx(rx), .tx(tx),
    .spi_cs_n(spi_cs_n), .spi_sck(spi_sck), .spi_mosi(spi_mosi), .spi_miso(spi_miso),
    .reload(reload), .status_busy(status_busy), .irq(),
    .mac_rx_clk({PORTS{mac_clk}}), .mac_rx_rst({PORTS{rst}}),
    .mac_rx_tdata(mac_rx_tdata), .mac_rx_tvalid(mac_rx_tvalid), .mac_rx_tlast(mac_rx_tlast),
    .mac_rx_tuser({PORTS{1'b0}}),
    .mac_tx_clk({PORTS{mac_clk}}), .mac_tx_rst({PORTS{rst}}),
    .mac_tx_tdata(mac_tx_tdata), .mac_tx_tvalid(mac_tx_tvalid), .mac_tx_tready(mac_tx_tready),
    .mac_tx_tlast(mac_tx_tlast), .mac_tx_tuser(mac_tx_tuser), .stat_rx_lost(stat_rx_lost));

endmodule

`default_nettype wire
