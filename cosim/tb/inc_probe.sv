// Retirement probe: hands the engine's commit records to the link, in commit order.
//
// Five record sources; records of one clock are ordered tx, cut, ack, fw, rx. A record is RECORD_W bits, word
// i of rtl/spec/inc.yaml `record` in bits [32*i +: 32]. Connected by hierarchical reference from the
// test bench, so nothing of it is in the engine.
// Latency and throughput: every record is handed over in its own clock. Reset: none is taken in reset.
// Parameters: RECORD_W, a multiple of 32.
`default_nettype none

module inc_probe #(
  parameter int RECORD_W = 1024
) (
  input wire logic                clk,
  input wire logic                rst,
  input wire logic [63:0]         handle,
  input wire logic                tx_valid,
  input wire logic [RECORD_W-1:0] tx_record,
  input wire logic                cut_valid,
  input wire logic [RECORD_W-1:0] cut_record,
  input wire logic                ack_valid,
  input wire logic [RECORD_W-1:0] ack_record,
  input wire logic                fw_valid,
  input wire logic [RECORD_W-1:0] fw_record,
  input wire logic                rx_valid,
  input wire logic [RECORD_W-1:0] rx_record
);

  import "DPI-C" function longint inc_dpi_param(input longint handle, input int which);
  import "DPI-C" function void inc_dpi_retire(
    input longint handle, input int words, input bit [RECORD_W-1:0] data);


  logic enabled_q;

  always_ff @(posedge clk) begin
    if (enabled_q && !rst) begin
      if (tx_valid) inc_dpi_retire(handle, RECORD_W / 32, tx_record);
      if (cut_valid) inc_dpi_retire(handle, RECORD_W / 32, cut_record);
      if (ack_valid) inc_dpi_retire(handle, RECORD_W / 32, ack_record);
      if (fw_valid) inc_dpi_retire(handle, RECORD_W / 32, fw_record);
      if (rx_valid) inc_dpi_retire(handle, RECORD_W / 32, rx_record);
    end
    if (rst) begin
      enabled_q <= inc_dpi_param(handle, inc_tb_pkg::PARAM_PROBE) != 0;
    end
  end

endmodule

`default_nettype wire
