// AggregateData: adds the payload of a contribution into its slot, beat by beat.
//
// Stream:        s_valid, s_data: one beat; s_addr its place in the slot memory, s_bank the
//                visible copy (read), s_start: first contribution, write instead of add (never 0
//                + x). Always ready.
// Latency:       the sum is written 2 clocks after the beat; a read that is issued 3 clocks after
//                it sees it.
// Throughput:    1 beat per clock.
// Back-pressure: none: every beat is taken; the tx port waits as inc_slot_ram says.
// Hazard:        the same beat of a slot must not come again within 3 clocks: the pipe stage
//                sees to it (asserted).
// Reset:         the stages empty.
// Parameters:    DATA_W 64..4096; DEPTH beats a bank; FLOAT 0 or 1: left out or built in.
// Source:        protocol.md 4, 11; microarchitecture.md "Commit order".
`default_nettype none

module inc_aggregate_data #(
  parameter int DATA_W = 512,
  parameter int DEPTH  = 2048,
  parameter int FLOAT  = 0,
  parameter int ADDR_W = $clog2(DEPTH)
) (
  input  wire              clk,
  input  wire              rst,
  input  wire              s_valid,
  input  wire              s_start,
  input  wire              s_bank,
  input  wire [ADDR_W-1:0] s_addr,
  input  wire [DATA_W-1:0] s_data,

  input  wire              tx_valid,
  output wire              tx_ready,
  input  wire              tx_bank,
  input  wire [ADDR_W-1:0] tx_addr,
  output wire              tx_rd_valid,
  output wire [DATA_W-1:0] tx_rd_data
);

  logic              a_valid_q, w_valid_q;
  logic              a_start_q;
  logic              a_bank_q, w_bank_q;
  logic [ADDR_W-1:0] a_addr_q, w_addr_q;
  logic [DATA_W-1:0] a_data_q, w_data_q;
  wire  [DATA_W-1:0] old, sum;

  inc_slot_ram #(.DATA_W(DATA_W), .DEPTH(DEPTH)) u_ram (
    .clk(clk), .rst(rst),
    .wr_en(w_valid_q), .wr_bank(!w_bank_q), .wr_addr(w_addr_q), .wr_data(w_data_q),
    .rmw_en(s_valid && !s_start), .rmw_bank(s_bank), .rmw_addr(s_addr), .rmw_data(old),
    .tx_valid(tx_valid), .tx_ready(tx_ready), .tx_bank(tx_bank), .tx_addr(tx_addr),
    .tx_rd_valid(tx_rd_valid), .tx_rd_data(tx_rd_data));

  inc_alu #(.DATA_W(DATA_W)) u_alu (.a(old), .b(a_data_q), .y(sum));

  always_ff @(posedge clk) begin
    a_valid_q <= s_valid;
    a_start_q <= s_start;
    a_bank_q  <= s_bank;
    a_addr_q  <= s_addr;
    a_data_q  <= s_data;
    w_valid_q <= a_valid_q;
    w_bank_q  <= a_bank_q;
    w_addr_q  <= a_addr_q;
    w_data_q  <= a_start_q ? a_data_q : sum;
    if (rst) begin
      a_valid_q <= 1'b0;
      w_valid_q <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst && s_valid && !s_start && a_valid_q)
      assert (!(s_addr == a_addr_q && s_bank != a_bank_q));
    if (!rst && s_valid && !s_start && w_valid_q)
      assert (!(s_addr == w_addr_q && s_bank != w_bank_q));
`endif
  end

endmodule

`default_nettype wire
