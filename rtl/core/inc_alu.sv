// inc_alu: one beat of element-wise reduction. Combinational.
//
// Operation:     int32 sum: each 32-bit little-endian lane added mod 2^32 (lane 0 in bits 31:0).
// Latency:       0 clocks (AggregateData registers around it).
// Parameters:    DATA_W 64..4096, multiple of 32.
// Source:        protocol.md 11.
`default_nettype none

module inc_alu #(
  parameter int DATA_W = 512
) (
  input  wire [DATA_W-1:0] a,
  input  wire [DATA_W-1:0] b,
  output wire [DATA_W-1:0] y
);

  generate
    for (genvar i = 0; i < DATA_W / 32; i++) begin : gen_lane
      assign y[32*i +: 32] = a[32*i +: 32] + b[32*i +: 32];
    end
  endgenerate

endmodule

`default_nettype wire
