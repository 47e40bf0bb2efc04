// True dual-port RAM: two ports on one clock, each reads or writes one word per clock.
//
// Latency:       x_rd_data is valid the clock after x_en with x_we 0, and kept otherwise.
// Throughput:    one access per port and clock.
// Collision:     a port that writes keeps its x_rd_data (no-change). Reading with one port the
//                address the other writes in the same clock returns an unspecified word, and two
//                writes of one address leave an unspecified word: the caller must not (asserted).
// Reset:         none.
// Parameters:    DATA_W 1.. ; DEPTH 2.. words, any number; RAM_STYLE "auto" or "block".
// The shape (one process per port, enable around, write or read) is what yosys maps to a true
// dual-port ECP5 DP16KD.
`default_nettype none

module inc_ram_tdp #(
  parameter int DATA_W    = 8,
  parameter int DEPTH     = 16,
  parameter     RAM_STYLE = "block",
  parameter int ADDR_W    = (DEPTH > 1) ? $clog2(DEPTH) : 1
) (
  input  wire              clk,
  input  wire              a_en,
  input  wire              a_we,
  input  wire [ADDR_W-1:0] a_addr,
  input  wire [DATA_W-1:0] a_wr_data,
  output wire [DATA_W-1:0] a_rd_data,
  input  wire              b_en,
  input  wire              b_we,
  input  wire [ADDR_W-1:0] b_addr,
  input  wire [DATA_W-1:0] b_wr_data,
  output wire [DATA_W-1:0] b_rd_data
);

  (* ram_style = RAM_STYLE, no_rw_check *)
  logic [DATA_W-1:0] mem [DEPTH];
  logic [DATA_W-1:0] a_q;
  logic [DATA_W-1:0] b_q;

  assign a_rd_data = a_q;
  assign b_rd_data = b_q;

  // Plain always: two always_ff processes may not write one memory.
  always @(posedge clk) begin
    if (a_en) begin
      if (a_we) mem[a_addr] <= a_wr_data;
      else      a_q <= mem[a_addr];
    end
  end

  always @(posedge clk) begin
    if (b_en) begin
      if (b_we) mem[b_addr] <= b_wr_data;
      else      b_q <= mem[b_addr];
    end
  end

`ifdef INC_ASSERT
  always_ff @(posedge clk) begin
    if (a_en) assert (32'(a_addr) < DEPTH);
    if (b_en) assert (32'(b_addr) < DEPTH);
    if (a_en && b_en && a_addr == b_addr) assert (!a_we && !b_we);
  end
`endif

endmodule

`default_nettype wire
