// Checks the ICRC of frames that pass by: compares the CRC state after the ICRC with its residue,
// so no tail needs a matrix of its own: bytes after the end count as zeros, and the residue knows
// how many.
//
// Ports:         one beat a clock with beat_valid: beat_first (first of its frame), beat_data,
//                beat_take (bit i: byte i counts; 0 before IP, in masked fields, after the ICRC),
//                beat_constant (of inc_icrc_cover). beat_update: the beat is not behind the one
//                in which the ICRC ends (later ones change nothing); beat_zeros: bytes after the
//                ICRC in that beat are 2 + 4*beat_zeros, taken from the last beat with
//                beat_update. good, 4 clocks after a beat: state and residue agree.
// Latency:       4 clocks; good is a register.
// Throughput:    1 beat per clock; no back-pressure. No reset: beat_first starts anew.
// Parameters:    DATA_W 64..4096, a power of two.
// Source:        IBTA A17.3.3.
`default_nettype none

module inc_icrc_check #(
  parameter int DATA_W  = 512,
  parameter int ZEROS_W = $clog2(DATA_W / 32)
) (
  input  wire                clk,
  input  wire                beat_valid,
  input  wire                beat_first,
  input  wire                beat_update,
  input  wire [DATA_W-1:0]   beat_data,
  input  wire [DATA_W/8-1:0] beat_take,
  input  wire [31:0]         beat_constant,
  input  wire [ZEROS_W-1:0]  beat_zeros,
  output wire                good
);

  localparam int PARTS = DATA_W / 32;
  // Columns of the first four bytes of a beat: what the old state becomes.
  localparam logic [2047:0] MATRIX = inc_icrc_pkg::icrc_chunk(PARTS / 2 - 1);

  function automatic logic [32*(1<<ZEROS_W)-1:0] residue_table(input int count);
    for (int n = 0; n < count; n++) begin
      residue_table[n*32 +: 32] = inc_icrc_pkg::icrc_residue(n);
    end
  endfunction

  localparam logic [32*(1<<ZEROS_W)-1:0] RESIDUE = residue_table(1 << ZEROS_W);

  wire [32*PARTS-1:0]  partial;
  // Registers 1 stand beside the partial sums, registers 2 beside their sum.
  logic                first1_q, first2_q;
  logic                update1_q, update2_q;
  logic [31:0]         constant1_q;
  logic [ZEROS_W-1:0]  zeros1_q, zeros2_q;
  logic [31:0]         sum2_q, sum2_d;
  logic [31:0]         state_q, state_d;
  logic [31:0]         wanted_q;
  logic                good_q;

  inc_icrc_partial #(
    .DATA_W(DATA_W)
  ) u_partial (
    .clk    (clk),
    .valid  (beat_valid),
    .data   (beat_data),
    .take   (beat_take),
    .partial(partial)
  );

  assign good = good_q;

  always_comb begin
    sum2_d = constant1_q;
    for (int p = 0; p < PARTS; p++) begin
      sum2_d = sum2_d ^ partial[p*32 +: 32];
    end
    state_d = sum2_q;
    if (!first2_q) begin
      for (int r = 0; r < 32; r++) begin
        state_d[r] = state_d[r] ^ (^(state_q & MATRIX[r*64 +: 32]));
      end
    end
  end

  always_ff @(posedge clk) begin
    first1_q    <= beat_first;
    first2_q    <= first1_q;
    update1_q   <= beat_valid && beat_update;
    update2_q   <= update1_q;
    constant1_q <= beat_constant;
    zeros1_q    <= beat_zeros;
    zeros2_q    <= zeros1_q;
    sum2_q      <= sum2_d;
    good_q      <= state_q == wanted_q;
    if (update2_q) begin
      state_q  <= state_d;
      wanted_q <= RESIDUE[32'(zeros2_q)*32 +: 32];
    end
  end

endmodule

`default_nettype wire
