// Receiver of a UART: 8 data bits, no parity, a stop bit.
//
// Streams:       m_* the bytes, each for one clock; nobody can stop a serial line.
// Latency:       a byte is there in the middle of its stop bit, and 2 clocks to synchronise.
// Reset:         synchronous; the byte on the line is lost.
// Parameters:    BIT_X256 1024..2^24-1, clocks of a bit, times 256: rates that are no whole number
//                of clocks have no error that adds up.
// Source:        docs/serial.md, the line.
`default_nettype none

module inc_uart_rx #(
  parameter int BIT_X256 = 256 * 125
) (
  input  wire       clk,
  input  wire       rst,
  input  wire       rx,        // from the pin, of no clock
  output wire       m_valid,
  output wire [7:0] m_data,
  output wire       stat_bad   // a byte without its stop bit: a break, or another rate
);

  logic [1:0]  sync_q;
  logic        busy_q;
  logic        break_q;   // no stop bit was seen: wait for the line to rise
  logic [24:0] left_q;    // until the middle of a bit, in 256ths of a clock
  logic [3:0]  bit_q;     // 0 start, 1..8 data, 9 stop
  logic [7:0]  data_q;
  logic        valid_q, bad_q;

  wire line   = sync_q[1];
  wire sample = busy_q && left_q < 25'd256;

  assign m_valid  = valid_q;
  assign m_data   = data_q;
  assign stat_bad = bad_q;

  always_ff @(posedge clk) begin
    sync_q  <= {sync_q[0], rx};
    valid_q <= 1'b0;
    bad_q   <= 1'b0;
    if (break_q) begin
      break_q <= !line;
    end else if (!busy_q) begin
      busy_q <= !line;
      bit_q  <= 4'd0;
      left_q <= 25'(BIT_X256 / 2 - 512);  // two clocks of it have passed in sync_q
    end else begin
      left_q <= sample ? left_q + 25'(BIT_X256 - 256) : left_q - 25'd256;
      if (sample) begin
        bit_q <= bit_q + 4'd1;
        if (bit_q == 4'd0) busy_q <= !line;  // else it was a glitch
        else if (bit_q <= 4'd8) data_q <= {line, data_q[7:1]};
        else begin
          busy_q  <= 1'b0;
          valid_q <= line;
          bad_q   <= !line;
          break_q <= !line;
        end
      end
    end
    if (rst) begin
      sync_q  <= 2'b11;
      busy_q  <= 1'b0;
      break_q <= 1'b0;
      valid_q <= 1'b0;
      bad_q   <= 1'b0;
    end
  end

`ifdef INC_ASSERT
  initial assert_rate: assert (BIT_X256 >= 1024 && BIT_X256 < (1 << 24));
`endif

endmodule

`default_nettype wire
