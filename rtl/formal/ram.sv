// inc_lutram, inc_ram_1r1w in its four collisions, inc_ram_tdp. One word is followed: any, its
// address is free.
`default_nettype none

module prove_ram #(
  parameter int DATA_W = 2,
  parameter int DEPTH  = 5,
  parameter int AW     = 3
) (
  input wire              clk,
  input wire [AW-1:0]     at,
  input wire              wr_en,
  input wire [AW-1:0]     wr_addr,
  input wire [DATA_W-1:0] wr_data,
  input wire              rd_en,
  input wire [AW-1:0]     rd_addr,
  input wire              b_we,
  input wire [DATA_W-1:0] b_data
);

  logic              run_q = 1'b0;
  logic [AW-1:0]     at_q;
  logic              known_q = 1'b0;       // the word has been written
  logic [DATA_W-1:0] word_q;
  logic              keep_q = 1'b0;        // nothing is read in the clock before
  wire               writes = wr_en && wr_addr == at_q;
  always_ff @(posedge clk) begin
    run_q <= 1'b1;
    if (!run_q) at_q <= at;
    if (run_q && writes) begin
      known_q <= 1'b1;
      word_q  <= wr_data;
    end
    keep_q <= run_q && !rd_en;
    assume (32'(wr_addr) < DEPTH);
    assume (32'(rd_addr) < DEPTH);
  end

  wire [3:0][DATA_W-1:0] one;
  wire [2*DATA_W-1:0]    lut;
  generate
    for (genvar f = 0; f < 4; f++) begin : gen_1r1w
      // 2 forbids what 0, 1 and 3 answer.
      wire reads = rd_en && !(f == 2 && wr_en && wr_addr == rd_addr);
      inc_ram_1r1w #(.DATA_W(DATA_W), .DEPTH(DEPTH), .FORWARD(f)) u_ram (
        .clk, .wr_en, .wr_addr, .wr_data, .rd_en(reads), .rd_addr, .rd_data(one[f]));
      logic              mine_q = 1'b0;   // what the last read must give is known, and is
      logic [DATA_W-1:0] wanted_q;
      always_ff @(posedge clk) begin
        if (run_q && reads) begin
          mine_q <= rd_addr == at_q
                    && (f == 1 ? known_q || writes : f == 3 ? known_q && !writes : known_q);
          wanted_q <= f == 1 && writes ? wr_data : word_q;
        end
        if (mine_q) assert (one[f] == wanted_q);
        cover (mine_q && keep_q && wanted_q != word_q);
      end
    end
  endgenerate

  inc_lutram #(.DATA_W(DATA_W), .DEPTH(DEPTH), .R(2)) u_lut (
    .clk, .wr_en, .wr_addr, .wr_data, .rd_addr({rd_addr, at_q}), .rd_data(lut));
  always_ff @(posedge clk) begin
    if (known_q && run_q) assert (lut[0 +: DATA_W] == word_q);
    if (known_q && run_q && rd_addr == at_q) assert (lut[DATA_W +: DATA_W] == word_q);
  end

  // Port a writes and reads as wr_*; port b as rd_*, with b_we.
  wire [DATA_W-1:0]  a_rd, b_rd;
  wire               clash = rd_en && wr_addr == rd_addr;
  logic              t_known_q = 1'b0, a_mine_q = 1'b0, b_mine_q = 1'b0;
  logic [DATA_W-1:0] t_word_q, a_wanted_q, b_wanted_q;
  inc_ram_tdp #(.DATA_W(DATA_W), .DEPTH(DEPTH)) u_tdp (
    .clk, .a_en(!clash), .a_we(wr_en), .a_addr(wr_addr), .a_wr_data(wr_data), .a_rd_data(a_rd),
    .b_en(rd_en), .b_we, .b_addr(rd_addr), .b_wr_data(b_data), .b_rd_data(b_rd));
  always_ff @(posedge clk) begin
    if (run_q && !clash && writes) begin
      t_known_q <= 1'b1;
      t_word_q  <= wr_data;
    end
    if (run_q && rd_en && b_we && rd_addr == at_q) begin
      t_known_q <= 1'b1;
      t_word_q  <= b_data;
    end
    if (run_q && !clash && !wr_en) begin
      a_mine_q   <= t_known_q && wr_addr == at_q;
      a_wanted_q <= t_word_q;
    end
    if (run_q && rd_en && !b_we) begin
      b_mine_q   <= t_known_q && rd_addr == at_q;
      b_wanted_q <= t_word_q;
    end
    if (a_mine_q) assert (a_rd == a_wanted_q);
    if (b_mine_q) assert (b_rd == b_wanted_q);
    cover (a_mine_q && b_mine_q && a_wanted_q != b_wanted_q && wr_en);
  end

endmodule

`default_nettype wire
