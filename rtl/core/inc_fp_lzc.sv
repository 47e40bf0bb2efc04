// Leading zeros of 32 bits, as a tree: bits in fours, then halves.
//
// Latency:       0 clocks.
// Source:        none.
`default_nettype none

module inc_fp_lzc (
  input  wire [31:0] v,
  output wire [4:0]  count,          // from bit 31 down; 31 if v is 0
  output wire        zero
);

  wire [7:0]  any4;
  wire [15:0] pos4;
  wire [3:0]  any8;
  wire [11:0] pos8;
  wire [1:0]  any16;
  wire [7:0]  pos16;

  generate
    for (genvar i = 0; i < 8; i++) begin : gen_4
      wire [3:0] b = v[4*i +: 4];
      assign any4[i] = b != 4'd0;
      assign pos4[2*i +: 2] = {b[3:2] == 2'b00, b[3:2] == 2'b00 ? !b[1] : !b[3]};
    end
    for (genvar i = 0; i < 4; i++) begin : gen_8
      assign any8[i] = any4[2*i+1] || any4[2*i];
      assign pos8[3*i +: 3] = any4[2*i+1] ? {1'b0, pos4[4*i+2 +: 2]} : {1'b1, pos4[4*i +: 2]};
    end
    for (genvar i = 0; i < 2; i++) begin : gen_16
      assign any16[i] = any8[2*i+1] || any8[2*i];
      assign pos16[4*i +: 4] = any8[2*i+1] ? {1'b0, pos8[6*i+3 +: 3]} : {1'b1, pos8[6*i +: 3]};
    end
  endgenerate
  assign count = any16[1] ? {1'b0, pos16[7:4]} : {1'b1, pos16[3:0]};
  assign zero  = any16 == 2'b00;

endmodule

`default_nettype wire
