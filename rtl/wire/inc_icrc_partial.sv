// First half of a CRC step: multiplies each 32 bits of a beat by their matrix.
//
// Ports:         data and take (bit i: byte i counts, else it is 0); partial, a clock later:
//                bytes 4p to 4p+3 of the beat add partial[p*32 +: 32] to the CRC state at the end
//                of the beat.
// Latency:       1 clock. About 16 inputs for each output bit.
// Throughput:    1 beat per clock; no back-pressure, no reset.
// Parameters:    DATA_W 64..4096, a power of two.
// Source:        IBTA A17.3.3; matrices in inc_icrc_pkg.
`default_nettype none

module inc_icrc_partial #(
  parameter int DATA_W = 512,
  parameter int PARTS  = DATA_W / 32
) (
  input  wire                 clk,
  input  wire                 valid, // without it the result does not count (saves simulation time)
  input  wire [DATA_W-1:0]    data,
  input  wire [DATA_W/8-1:0]  take,
  output wire [32*PARTS-1:0]  partial
);

  generate
    for (genvar p = 0; p < PARTS; p++) begin : gen_part
      localparam logic [2047:0] MATRIX = inc_icrc_pkg::icrc_chunk((PARTS - 1 - p) / 2);
      logic [31:0] sum_q;
      logic [31:0] part;
      assign partial[p*32 +: 32] = sum_q;
      always_comb begin
        for (int i = 0; i < 4; i++) begin
          part[i*8 +: 8] = data[(p*4+i)*8 +: 8] & {8{take[p*4+i]}};
        end
      end
      always_ff @(posedge clk) begin
        if (valid) begin
          for (int r = 0; r < 32; r++) begin
            sum_q[r] <= ^(part & MATRIX[r*64 + (p%2)*32 +: 32]);
          end
        end
      end
    end
  endgenerate

endmodule

`default_nettype wire
