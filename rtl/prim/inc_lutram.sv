// Small RAM with asynchronous read: one write port, R read ports (one copy of the memory each).
//
// Latency:       rd_data follows rd_addr combinationally; a write is seen from the next clock on.
// Throughput:    1 write and R reads per clock.
// Reset:         none: contents unknown until written.
// Parameters:    DATA_W 1.. ; DEPTH 2.. words, any number; R 1.. read ports.
//                Port r is rd_addr[r*ADDR_W +: ADDR_W] and rd_data[r*DATA_W +: DATA_W].
`default_nettype none

module inc_lutram #(
  parameter int DATA_W = 8,
  parameter int DEPTH  = 16,
  parameter int R      = 1,
  parameter int ADDR_W = (DEPTH > 1) ? $clog2(DEPTH) : 1
) (
  input  wire                clk,
  input  wire                wr_en,
  input  wire [ADDR_W-1:0]   wr_addr,
  input  wire [DATA_W-1:0]   wr_data,
  input  wire [R*ADDR_W-1:0] rd_addr,
  output wire [R*DATA_W-1:0] rd_data
);

  generate
    for (genvar r = 0; r < R; r++) begin : gen_port
      (* ram_style = "distributed" *)
      logic [DATA_W-1:0] mem [DEPTH];
      always_ff @(posedge clk) begin
        if (wr_en) mem[wr_addr] <= wr_data;
      end
      assign rd_data[r*DATA_W +: DATA_W] = mem[rd_addr[r*ADDR_W +: ADDR_W]];
    end
  endgenerate

`ifdef INC_ASSERT
  always_ff @(posedge clk) begin
    if (wr_en) assert (32'(wr_addr) < DEPTH);
  end
`endif

endmodule

`default_nettype wire
