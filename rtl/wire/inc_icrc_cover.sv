// What the ICRC takes of each beat of a frame: which bytes as they are, and what the others add.
//
// Ports:         in: VLAN tags before IP, IPv6, number of the beat in its frame (it may stop
//                counting at 15). out, a clock later: take, bit i: byte i of the beat is taken as
//                it is (bytes before IP and masked fields are not); two clocks later: constant,
//                what seed and masked bytes of the beat add to the CRC state at its end.
// Latency:       take 1, constant 2 clocks; both are registers.
// Throughput:    1 beat per clock; no back-pressure, no reset.
// Parameters:    DATA_W 64..4096, a power of two.
// Source:        IBTA A17.3.3; tables in inc_icrc_pkg.
`default_nettype none

module inc_icrc_cover #(
  parameter int DATA_W = 512,
  parameter int BYTES  = DATA_W / 8
) (
  input  wire             clk,
  input  wire [1:0]       tags,
  input  wire             is_v6,
  input  wire [3:0]       beat,
  output wire [BYTES-1:0] take,
  output wire [31:0]      constant
);

  localparam int BEATS = (inc_icrc_pkg::ICRC_TAKE_BYTES + BYTES - 1) / BYTES;

  // What one bit is in each of 64 rows {tags, beat}. Three tags, which there are not, are as two:
  // fewer gates.
  function automatic logic [63:0] take_column(input int lane, input int v6);
    logic [inc_icrc_pkg::ICRC_TAKE_BYTES-1:0] frame;
    take_column = '1;
    for (int t = 0; t < 4; t++) begin
      frame = inc_icrc_pkg::icrc_take(2*((t < 3) ? t : 2) + v6);
      for (int b = 0; b < BEATS; b++) begin
        if (b*BYTES + lane < inc_icrc_pkg::ICRC_TAKE_BYTES) begin
          take_column[16*t + b] = frame[b*BYTES + lane];
        end
      end
    end
  endfunction

  function automatic logic [63:0] constant_column(input logic [4:0] index, input int v6);
    logic [31:0] row;
    constant_column = '0;
    for (int t = 0; t < 4; t++) begin
      for (int b = 0; b < BEATS; b++) begin
        row = inc_icrc_pkg::icrc_constant(BYTES, 2*((t < 3) ? t : 2) + v6, b);
        constant_column[16*t + b] = row[index];
      end
    end
  endfunction

  // One-hot: a table read by its index would become block RAM.
  logic [63:0] hot, hot_q;
  logic        is_v6_q;

  always_comb begin
    for (int r = 0; r < 64; r++) hot[r] = {tags, beat} == 6'(r);
  end

  always_ff @(posedge clk) begin
    hot_q   <= hot;
    is_v6_q <= is_v6;
  end

  generate
    for (genvar i = 0; i < BYTES; i++) begin : gen_take
      localparam logic [63:0] V4 = take_column(i, 0);
      localparam logic [63:0] V6 = take_column(i, 1);
      logic take_q;
      assign take[i] = take_q;
      always_ff @(posedge clk) begin
        take_q <= |(hot & (is_v6 ? V6 : V4));
      end
    end
    for (genvar i = 0; i < 32; i++) begin : gen_constant
      localparam logic [63:0] V4 = constant_column(5'(i), 0);
      localparam logic [63:0] V6 = constant_column(5'(i), 1);
      logic constant_q;
      assign constant[i] = constant_q;
      always_ff @(posedge clk) begin
        constant_q <= is_v6_q ? |(hot_q & V6) : |(hot_q & V4);
      end
    end
  endgenerate

endmodule

`default_nettype wire
