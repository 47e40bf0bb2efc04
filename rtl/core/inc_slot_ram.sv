// Payload memory of the slots: two copies of every slot, one bank each.
//
// A slot's visible copy is bank `flip`; a contribution reads bank flip and writes bank !flip, and
// only its commit turns flip. So a frame whose ICRC turns out wrong leaves no trace.
//
// Ports:         wr_*  write one beat into bank wr_bank (always taken).
//                rmw_* read for the adder (always taken), data one clock later. rmw_claim: there
//                      may be one in this clock, and its port is kept for it.
//                tx_*  read for the sender; tx_ready low when the bank's two ports are both
//                      taken.
//                tx_rd_valid marks the data one clock after a taken read.
// Latency:       1 clock.
// Throughput:    1 write, 1 rmw read, and 1 tx read but in the clocks where all three want one
//                bank (a claim counts).
// Back-pressure: tx_ready alone.
// Reset:         none: payload is never cleared (protocol.md 4).
// Parameters:    DATA_W 64..4096; DEPTH beats a bank.
// Source:        protocol.md 4; microarchitecture.md "The ports of a bank".
//
// Each bank is one true dual-port RAM: port A writes or serves tx, port B serves rmw or tx.
`default_nettype none

module inc_slot_ram #(
  parameter int DATA_W = 512,
  parameter int DEPTH  = 2048,
  parameter int ADDR_W = $clog2(DEPTH)
) (
  input  wire              clk,
  input  wire              rst,
  input  wire              wr_en,
  input  wire              wr_bank,
  input  wire [ADDR_W-1:0] wr_addr,
  input  wire [DATA_W-1:0] wr_data,
  input  wire              rmw_claim,
  input  wire              rmw_en,
  input  wire              rmw_bank,
  input  wire [ADDR_W-1:0] rmw_addr,
  output wire [DATA_W-1:0] rmw_data,
  input  wire              tx_valid,
  output wire              tx_ready,
  input  wire              tx_bank,
  input  wire [ADDR_W-1:0] tx_addr,
  output wire              tx_rd_valid,
  output wire [DATA_W-1:0] tx_rd_data
);

  wire [1:0] wr_b  = {wr_en && wr_bank, wr_en && !wr_bank};
  wire [1:0] rmw_b = {rmw_claim && rmw_bank, rmw_claim && !rmw_bank};
  wire [1:0] tx_b  = {tx_bank, !tx_bank};
  wire [1:0] full  = wr_b & rmw_b;
  assign tx_ready  = (tx_b & full) == 2'b00;
  wire tx_go       = tx_valid && tx_ready;

  // tx takes port B of its bank unless the adder reads there
  wire [1:0] tx_on_b = tx_go ? tx_b & ~rmw_b : 2'b00;
  wire [1:0] tx_on_a = tx_go ? tx_b & rmw_b  : 2'b00;

  wire [DATA_W-1:0] qa0, qb0, qa1, qb1;

  inc_ram_tdp #(.DATA_W(DATA_W), .DEPTH(DEPTH)) u_bank0 (
    .clk(clk),
    .a_en(wr_b[0] || tx_on_a[0]), .a_we(wr_b[0]),
    .a_addr(wr_b[0] ? wr_addr : tx_addr), .a_wr_data(wr_data), .a_rd_data(qa0),
    .b_en((rmw_b[0] && rmw_en) || tx_on_b[0]), .b_we(1'b0),
    .b_addr(rmw_b[0] ? rmw_addr : tx_addr), .b_wr_data('0), .b_rd_data(qb0));

  inc_ram_tdp #(.DATA_W(DATA_W), .DEPTH(DEPTH)) u_bank1 (
    .clk(clk),
    .a_en(wr_b[1] || tx_on_a[1]), .a_we(wr_b[1]),
    .a_addr(wr_b[1] ? wr_addr : tx_addr), .a_wr_data(wr_data), .a_rd_data(qa1),
    .b_en((rmw_b[1] && rmw_en) || tx_on_b[1]), .b_we(1'b0),
    .b_addr(rmw_b[1] ? rmw_addr : tx_addr), .b_wr_data('0), .b_rd_data(qb1));

  logic       rmw_bank_q;
  logic       tx_valid_q;
  logic [1:0] tx_sel_q;      // {bank, port A}

  assign rmw_data    = rmw_bank_q ? qb1 : qb0;
  assign tx_rd_valid = tx_valid_q;
  assign tx_rd_data  = tx_sel_q[1] ? (tx_sel_q[0] ? qa1 : qb1)
                                   : (tx_sel_q[0] ? qa0 : qb0);

  always_ff @(posedge clk) begin
    rmw_bank_q <= rmw_bank;
    tx_valid_q <= tx_go;
    tx_sel_q   <= {tx_bank, tx_on_a != 2'b00};
    if (rst) tx_valid_q <= 1'b0;
  end

endmodule

`default_nettype wire
