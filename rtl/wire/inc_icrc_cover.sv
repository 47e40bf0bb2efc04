// What the ICRC takes of each beat of a frame: which bytes as they are, and what the others add.
//
// Ports:         in: VLAN tags before IP, IPv6, number of the beat in its frame (it may stop
//                counting at 15). out, a clock later: take, bit i: byte i of the beat is taken as
//                it is (bytes before IP and masked fields are not); constant, what seed and
//                masked bytes of the beat add to the CRC state at its end.
// Latency:       1 clock.
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

  // Beats that hold something masked or before IP: 10, 5, 3, 2, 1...
  localparam int BEATS  = (inc_icrc_pkg::ICRC_TAKE_BYTES + BYTES - 1) / BYTES;
  localparam int BEAT_W = (BEATS > 1) ? $clog2(BEATS) : 0;
  localparam int ROWS   = 8 << BEAT_W;

  function automatic logic [ROWS*BYTES-1:0] take_table(input int bytes);
    logic [BEATS*BYTES-1:0] frame;
    take_table = '1;
    for (int l = 0; l < 6; l++) begin
      frame = '1;
      frame[inc_icrc_pkg::ICRC_TAKE_BYTES-1:0] = inc_icrc_pkg::icrc_take(l);
      for (int b = 0; b < BEATS; b++) begin
        take_table[((l << BEAT_W) + b)*bytes +: BYTES] = frame[b*bytes +: BYTES];
      end
    end
  endfunction

  function automatic logic [ROWS*32-1:0] constant_table(input int bytes);
    constant_table = '0;
    for (int l = 0; l < 6; l++) begin
      for (int b = 0; b < BEATS; b++) begin
        constant_table[((l << BEAT_W) + b)*32 +: 32] = inc_icrc_pkg::icrc_constant(bytes, l, b);
      end
    end
  endfunction

  localparam logic [ROWS*BYTES-1:0] TAKE     = take_table(BYTES);
  localparam logic [ROWS*32-1:0]    CONSTANT = constant_table(BYTES);

  logic [BYTES-1:0] take_q;
  logic [31:0]      constant_q;
  wire              past = beat >= 4'(BEATS);
  wire [2+BEAT_W:0] row;

  generate
    if (BEAT_W > 0) begin : gen_row
      assign row = {tags, is_v6, beat[BEAT_W-1:0]};
    end else begin : gen_row
      assign row = {tags, is_v6};
    end
  endgenerate

  assign take     = take_q;
  assign constant = constant_q;

  always_ff @(posedge clk) begin
    take_q     <= past ? '1 : TAKE[32'(row)*BYTES +: BYTES];
    constant_q <= past ? '0 : CONSTANT[32'(row)*32 +: 32];
  end

endmodule

`default_nettype wire
