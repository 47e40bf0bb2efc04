// Computes the ICRC of frames that pass by.
//
// The last beat is filled with zeros; the CRC state is taken back over them. Powers of one matrix
// commute, so each beat's share is taken back before it meets the state, in as many short steps
// as needed, and the state's own loop stays one matrix long.
//
// Ports:         one beat a clock with beat_valid: beat_first, beat_last (holds the last covered
//                byte; no beat of the frame follows), beat_data, beat_take (as
//                inc_icrc_cover has it), beat_constant (the same, a clock behind), beat_zeros: the
//                frame's covered bytes end 2 + 4*beat_zeros bytes before the end of a beat (the
//                same with every beat of a frame). icrc_valid (one clock for each frame) and
//                icrc, its first byte on the wire in [7:0].
// Latency:       3 + ceil($clog2(DATA_W/32) / 2) clocks from the last beat to icrc_valid, at
//                which icrc is combinational from registers.
// Throughput:    1 beat per clock; no back-pressure.
// Reset:         synchronous: forgets what is on its way.
// Parameters:    DATA_W 64..4096, a power of two.
// Source:        IBTA A17.3.3.
`default_nettype none

module inc_icrc_gen #(
  parameter int DATA_W  = 512,
  parameter int ZEROS_W = $clog2(DATA_W / 32)
) (
  input  wire                clk,
  input  wire                rst,
  input  wire                beat_valid,
  input  wire                beat_first,
  input  wire                beat_last,
  input  wire [DATA_W-1:0]   beat_data,
  input  wire [DATA_W/8-1:0] beat_take,
  input  wire [31:0]         beat_constant,
  input  wire [ZEROS_W-1:0]  beat_zeros,
  output wire                icrc_valid,
  output wire [31:0]         icrc
);

  localparam int PARTS = DATA_W / 32;
  localparam int STEPS = (ZEROS_W + 1) / 2;
  localparam logic [2047:0] MATRIX = inc_icrc_pkg::icrc_chunk(PARTS / 2 - 1);

  wire [32*PARTS-1:0] partial;

  inc_icrc_partial #(
    .DATA_W(DATA_W)
  ) u_partial (
    .clk    (clk),
    .valid  (beat_valid),
    .data   (beat_data),
    .take   (beat_take),
    .partial(partial)
  );

  // Stage 0 stands beside the partial sums, stage 1 beside their sum; stage s+2 is behind step s.
  logic [STEPS+1:0]           valid_q;
  logic [STEPS+1:0]           first_q;
  logic [STEPS+1:0]           last_q;
  logic [31:0]                sum_q, sum_d;
  wire  [(STEPS+1)*32-1:0]    share;      // [s*32 +: 32]: the beat's share before step s
  logic [31:0]                state_q, state_d;

  always_comb begin
    sum_d = beat_constant;
    for (int p = 0; p < PARTS; p++) begin
      sum_d = sum_d ^ partial[p*32 +: 32];
    end
  end

  wire [2*STEPS-1:0] zeros = (2*STEPS)'(beat_zeros);

  assign share[31:0] = sum_q;

  always_ff @(posedge clk) begin
    sum_q      <= sum_d;
    valid_q    <= {valid_q[STEPS:0], beat_valid};
    first_q    <= {first_q[STEPS:0], beat_first};
    last_q     <= {last_q[STEPS:0], beat_last};
    if (rst) valid_q <= '0;
  end

  generate
    for (genvar s = 0; s < STEPS; s++) begin : gen_step
      // Step 0 takes back 2, 6, 10 or 14 bytes; step s > 0: 0, 1, 2 or 3 times 4 * 4^s.
      localparam int UNIT = 4 << (2*s);
      localparam int BACK0 = (s == 0) ? 2 : 0;
      localparam logic [1023:0] M1 = inc_icrc_pkg::icrc_back(BACK0 + UNIT);
      localparam logic [1023:0] M2 = inc_icrc_pkg::icrc_back(BACK0 + 2*UNIT);
      localparam logic [1023:0] M3 = inc_icrc_pkg::icrc_back(BACK0 + 3*UNIT);
      logic [2*s+3:0] n_q;   // its two bits of beat_zeros, s + 2 clocks old in the highest two
      wire  [1:0]  n = n_q[2*s+2 +: 2];
      wire  [31:0] x = share[s*32 +: 32];
      wire  [31:0] y0;
      logic [31:0] y_q, y_d;
      if (s == 0) begin : gen_y0
        localparam logic [1023:0] M0 = inc_icrc_pkg::icrc_back(2);
        for (genvar r = 0; r < 32; r++) begin : gen_row
          assign y0[r] = ^(x & M0[r*32 +: 32]);
        end
      end else begin : gen_y0
        assign y0 = x;
      end
      always_comb begin
        y_d = y0;
        for (int r = 0; r < 32; r++) begin
          if (n == 2'd1) y_d[r] = ^(x & M1[r*32 +: 32]);
          if (n == 2'd2) y_d[r] = ^(x & M2[r*32 +: 32]);
          if (n == 2'd3) y_d[r] = ^(x & M3[r*32 +: 32]);
        end
      end
      always_ff @(posedge clk) begin
        y_q <= y_d;
        n_q <= (2*s+4)'({n_q, zeros[2*s +: 2]});
      end
      assign share[(s+1)*32 +: 32] = y_q;
    end
  endgenerate

  always_comb begin
    state_d = share[STEPS*32 +: 32];
    if (!first_q[STEPS+1]) begin
      for (int r = 0; r < 32; r++) begin
        state_d[r] = state_d[r] ^ (^(state_q & MATRIX[r*64 +: 32]));
      end
    end
  end

  always_ff @(posedge clk) begin
    if (valid_q[STEPS+1]) state_q <= state_d;
  end

  assign icrc_valid = valid_q[STEPS+1] && last_q[STEPS+1];
  assign icrc       = ~state_d;

endmodule

`default_nettype wire
