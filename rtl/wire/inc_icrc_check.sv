// Checks the ICRC of frames that pass by: compares the CRC state after the ICRC with its residue,
// so no tail needs a matrix of its own: bytes after the end count as zeros, and the residue knows
// how many.
//
// Ports:         one beat a clock with beat_valid: beat_first (first of its frame), beat_data,
//                beat_take (bit i: byte i counts; 0 before IP, in masked fields, after the ICRC),
//                beat_constant (of inc_icrc_cover). beat_update: the beat is not behind the one
//                in which the ICRC ends (later ones change nothing); beat_zeros: bytes after the
//                ICRC in that beat are 2 + 4*beat_zeros, taken from the last beat with
//                beat_update. good, 2 clocks after a beat: state and residue agree.
// Latency:       2 clocks, then combinational from registers.
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

  localparam int CHUNKS = DATA_W / 64;
  // Columns of the first four bytes of a beat: what the old state becomes.
  localparam logic [2047:0] MATRIX = inc_icrc_pkg::icrc_chunk(CHUNKS - 1);

  function automatic logic [32*(1<<ZEROS_W)-1:0] residue_table(input int count);
    for (int n = 0; n < count; n++) begin
      residue_table[n*32 +: 32] = inc_icrc_pkg::icrc_residue(n);
    end
  endfunction

  localparam logic [32*(1<<ZEROS_W)-1:0] RESIDUE = residue_table(1 << ZEROS_W);

  wire [32*CHUNKS-1:0] partial;
  logic                first_q;
  logic                update_q;
  logic [31:0]         constant_q;
  logic [ZEROS_W-1:0]  zeros_q;
  logic [31:0]         state_q, state_d;
  logic [31:0]         wanted_q;

  inc_icrc_partial #(
    .DATA_W(DATA_W)
  ) u_partial (
    .clk    (clk),
    .valid  (beat_valid),
    .data   (beat_data),
    .take   (beat_take),
    .partial(partial)
  );

  assign good = state_q == wanted_q;

  always_comb begin
    state_d = constant_q;
    for (int c = 0; c < CHUNKS; c++) begin
      state_d = state_d ^ partial[c*32 +: 32];
    end
    if (!first_q) begin
      for (int r = 0; r < 32; r++) begin
        state_d[r] = state_d[r] ^ (^(state_q & MATRIX[r*64 +: 32]));
      end
    end
  end

  always_ff @(posedge clk) begin
    first_q    <= beat_first;
    update_q   <= beat_valid && beat_update;
    constant_q <= beat_constant;
    zeros_q    <= beat_zeros;
    if (update_q) begin
      state_q  <= state_d;
      wanted_q <= RESIDUE[32'(zeros_q)*32 +: 32];
    end
  end

endmodule

`default_nettype wire
