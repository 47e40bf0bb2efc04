// Simple dual-port RAM: one write port, one read port, one clock, synchronous read.
//
// Latency:       rd_data is valid the clock after rd_en, and kept while rd_en is 0.
// Throughput:    1 read and 1 write per clock.
// Collision:     FORWARD 0: reading the address being written returns the OLD word.
//                FORWARD 1: it returns the new word (a compare and a mux behind the RAM).
//                FORWARD 2: it returns an unspecified word: the caller must not (asserted).
//                FORWARD 3: it returns an unspecified word, which the caller replaces.
//                Block RAM of the ECP5 has no old word to give: 0 costs a register and a mux a bit.
// Reset:         none: contents and rd_data are unknown until written (real memories are too).
// Parameters:    DATA_W 1.. ; DEPTH 2.. words, any number; FORWARD 0..3;
//                RAM_STYLE "auto", "block" or "distributed": advice to synthesis.
`default_nettype none

module inc_ram_1r1w #(
  parameter int DATA_W    = 8,
  parameter int DEPTH     = 16,
  parameter int FORWARD   = 0,
  parameter     RAM_STYLE = "auto",
  parameter int ADDR_W    = (DEPTH > 1) ? $clog2(DEPTH) : 1
) (
  input  wire              clk,
  input  wire              wr_en,
  input  wire [ADDR_W-1:0] wr_addr,
  input  wire [DATA_W-1:0] wr_data,
  input  wire              rd_en,
  input  wire [ADDR_W-1:0] rd_addr,
  output wire [DATA_W-1:0] rd_data
);

  (* ram_style = RAM_STYLE, no_rw_check = FORWARD != 0 *)
  logic [DATA_W-1:0] mem [DEPTH];
  logic [DATA_W-1:0] rd_q;

  always_ff @(posedge clk) begin
    if (wr_en) mem[wr_addr] <= wr_data;
  end

  always_ff @(posedge clk) begin
    if (rd_en) rd_q <= mem[rd_addr];
  end

  generate
    if (FORWARD == 1) begin : gen_forward
      logic              hit_q;
      logic [DATA_W-1:0] fwd_q;
      always_ff @(posedge clk) begin
        if (rd_en) begin
          hit_q <= wr_en && wr_addr == rd_addr;
          fwd_q <= wr_data;
        end
      end
      assign rd_data = hit_q ? fwd_q : rd_q;
    end else begin : gen_plain
      assign rd_data = rd_q;
    end
  endgenerate

`ifdef INC_ASSERT
  always_ff @(posedge clk) begin
    if (wr_en) assert (32'(wr_addr) < DEPTH);
    if (rd_en) assert (32'(rd_addr) < DEPTH);
    if (FORWARD == 2) assert (!(wr_en && rd_en && wr_addr == rd_addr));
  end
`endif

endmodule

`default_nettype wire
