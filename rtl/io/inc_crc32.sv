// CRC-32 (IEEE 802.3) of bytes that come one at a time.
//
// Streams:       s_* the bytes, one in each clock that s_valid is 1.
// Latency:       crc and right hold the last byte the clock after it.
// Reset:         none but clear: the CRC is that of no byte.
// Source:        docs/serial.md, frames; IEEE 802.3 3.2.9.
`default_nettype none

module inc_crc32 (
  input  wire         clk,
  input  wire         clear,   // begin anew; s_valid in the same clock is not looked at
  input  wire         s_valid,
  input  wire  [7:0]  s_data,
  output wire  [31:0] crc,     // to be sent after the bytes, the lowest byte first
  output wire         right    // the bytes so far ended with their own CRC
);

  localparam logic [31:0] POLYNOMIAL = 32'hedb88320;  // bits in the order of the line
  localparam logic [31:0] RESIDUE    = 32'hdebb20e3;  // what a message and its CRC leave

  logic [31:0] crc_q, crc_d;

  always_comb begin
    crc_d = crc_q ^ {24'd0, s_data};
    for (int i = 0; i < 8; i++) crc_d = {1'b0, crc_d[31:1]} ^ (crc_d[0] ? POLYNOMIAL : 32'd0);
  end

  always_ff @(posedge clk) begin
    if (s_valid) crc_q <= crc_d;
    if (clear) crc_q <= '1;
  end

  assign crc   = ~crc_q;
  assign right = crc_q == RESIDUE;

endmodule

`default_nettype wire
