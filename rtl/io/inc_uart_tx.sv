// Transmitter of a UART: 8 data bits, no parity, a stop bit.
//
// Streams:       s_* the bytes.
// Latency:       the start bit begins the clock after a byte is taken.
// Throughput:    a byte in ten bits: the next one is taken when the stop bit ends.
// Back-pressure: s_ready is 0 while a byte is on the line.
// Reset:         synchronous; the line is idle.
// Parameters:    BIT_X256 1024..2^24-1, clocks of a bit, times 256.
// Source:        docs/serial.md, the line.
`default_nettype none

module inc_uart_tx #(
  parameter int BIT_X256 = 256 * 125
) (
  input  wire       clk,
  input  wire       rst,
  input  wire       s_valid,
  output wire       s_ready,
  input  wire [7:0] s_data,
  output wire       tx
);

  logic [24:0] left_q;   // of the bit on the line, in 256ths of a clock
  logic [3:0]  bits_q;   // bits left, with the one on the line
  logic [8:0]  shift_q;  // bits behind the one on the line
  logic        tx_q;

  wire ends = left_q < 25'd512;  // the bit, with this clock

  assign s_ready = bits_q == 4'd0 || (bits_q == 4'd1 && ends);
  assign tx      = tx_q;

  always_ff @(posedge clk) begin
    left_q <= ends ? left_q + 25'(BIT_X256 - 256) : left_q - 25'd256;
    if (s_valid && s_ready) begin
      shift_q <= {1'b1, s_data};
      bits_q  <= 4'd10;
      tx_q    <= 1'b0;
      // What a byte before leaves of its last clock goes on, so that no error adds up.
      if (bits_q == 4'd0) left_q <= 25'(BIT_X256);
    end else if (bits_q != 4'd0 && ends) begin
      shift_q <= {1'b1, shift_q[8:1]};
      bits_q  <= bits_q - 4'd1;
      tx_q    <= shift_q[0];
    end
    if (rst) begin
      bits_q <= 4'd0;
      left_q <= '0;
      tx_q   <= 1'b1;
    end
  end

`ifdef INC_ASSERT
  initial assert_rate: assert (BIT_X256 >= 1024 && BIT_X256 < (1 << 24));
`endif

endmodule

`default_nettype wire
