// Fold: reduces the copies of a complete slot of a reproducible pipe, in the order of its ins.
//
// The contributions lie in one bank, copy c stride beats behind copy c - 1. Pass k reads copy k as
// AggregateData's contribution and adds it to what the passes before left in copy 0: this goes from
// bank to bank, as every sum does. So F - 1 passes fold F copies, and nothing is rounded in another
// order than the one of the ins, whatever the order of arrival.
//
// Streams:       rd_* reads of the slot memory; add_* names the place of the beat that was read,
//                in the clock in which it arrives.
// Latency:       (beats + GAP + 1) x passes + GAP + 1 clocks.
// Throughput:    1 beat per clock; the pipes wait meanwhile.
// Back-pressure: rd_ready low holds a read.
// Reset:         idle.
// Parameters:    ADDR_W bits of a beat address; GAP clocks after which every sum is in memory.
// Source:        protocol.md 11 (reproducible).
`default_nettype none

module inc_fold #(
  parameter int ADDR_W = 11,
  parameter int GAP    = 10
) (
  input  wire              clk,
  input  wire              rst,
  input  wire              start,
  input  wire [ADDR_W-1:0] first,         // beat of copy 0
  input  wire [ADDR_W-1:0] stride,
  input  wire [15:0]       beats,         // 1 or more
  input  wire [6:0]        passes,        // 1 or more
  input  wire              bank,          // of the copies
  output wire              done,          // one clock
  output wire              rd_valid,
  input  wire              rd_ready,
  output wire              rd_bank,
  output wire [ADDR_W-1:0] rd_addr,
  output wire              add_valid,
  output wire              add_bank,      // of what was folded so far
  output wire [ADDR_W-1:0] add_addr
);

  localparam int GAP_W = $clog2(GAP + 1);

  logic              read_q, gap_q, add_q;
  logic              bank_q, from_q;
  logic [ADDR_W-1:0] copy_q, rd_addr_q, to_q, add_addr_q;
  logic [15:0]       left_q;
  logic [6:0]        passes_q;
  logic [GAP_W-1:0]  wait_q;
  wire go       = read_q && rd_ready;
  wire pass_end = gap_q && wait_q == '0;

  assign rd_valid  = read_q;
  assign rd_bank   = bank_q;
  assign rd_addr   = rd_addr_q;
  assign add_valid = add_q;
  assign add_bank  = from_q;
  assign add_addr  = add_addr_q;
  assign done      = pass_end && passes_q == 7'd1;

  always_ff @(posedge clk) begin
    add_q      <= go;
    add_addr_q <= to_q;
    if (go) begin
      rd_addr_q <= rd_addr_q + ADDR_W'(1);
      to_q      <= to_q + ADDR_W'(1);
      left_q    <= left_q - 16'd1;
      if (left_q == 16'd1) begin
        read_q <= 1'b0;
        gap_q  <= 1'b1;
        wait_q <= GAP_W'(GAP);
      end
    end
    if (gap_q) wait_q <= wait_q - GAP_W'(1);
    if (pass_end) begin
      gap_q     <= 1'b0;
      read_q    <= passes_q != 7'd1;
      passes_q  <= passes_q - 7'd1;
      from_q    <= !from_q;
      copy_q    <= copy_q + stride;
      rd_addr_q <= copy_q + stride;
      to_q      <= first;
      left_q    <= beats;
    end
    if (start) begin                      // the last contribution may not be in memory yet
      gap_q    <= 1'b1;
      wait_q   <= GAP_W'(GAP);
      bank_q   <= bank;
      from_q   <= !bank;
      copy_q   <= first;
      passes_q <= passes + 7'd1;
    end
    if (rst) begin
      read_q <= 1'b0;
      gap_q  <= 1'b0;
      add_q  <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst && start) assert (beats != 16'd0 && passes != 7'd0);
`endif
  end

endmodule

`default_nettype wire
