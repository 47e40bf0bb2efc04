// First half of a CRC step: multiplies each 64-bit chunk of a beat by its matrix.
//
// Ports:         data and take (bit i: byte i counts, else it is 0); partial, a clock later:
//                chunk c of the beat adds partial[c*32 +: 32] to the CRC state at the end of the
//                beat.
// Latency:       1 clock. About 32 inputs for each output bit.
// Throughput:    1 beat per clock; no back-pressure, no reset.
// Parameters:    DATA_W 64..4096, a power of two.
// Source:        IBTA A17.3.3; matrices in inc_icrc_pkg.
`default_nettype none

module inc_icrc_partial #(
  parameter int DATA_W = 512,
  parameter int CHUNKS = DATA_W / 64
) (
  input  wire                 clk,
  input  wire                 valid, // without it the result does not count (saves simulation time)
  input  wire [DATA_W-1:0]    data,
  input  wire [DATA_W/8-1:0]  take,
  output wire [32*CHUNKS-1:0] partial
);

  generate
    for (genvar c = 0; c < CHUNKS; c++) begin : gen_chunk
      localparam logic [2047:0] MATRIX = inc_icrc_pkg::icrc_chunk(CHUNKS - 1 - c);
      logic [31:0] sum_q;
      logic [63:0] chunk;
      assign partial[c*32 +: 32] = sum_q;
      always_comb begin
        for (int i = 0; i < 8; i++) begin
          chunk[i*8 +: 8] = data[(c*8+i)*8 +: 8] & {8{take[c*8+i]}};
        end
      end
      always_ff @(posedge clk) begin
        if (valid) begin
          for (int r = 0; r < 32; r++) begin
            sum_q[r] <= ^(chunk & MATRIX[r*64 +: 64]);
          end
        end
      end
    end
  endgenerate

endmodule

`default_nettype wire
