// SlotState: valid, tag, bitmap, flip and meta of every slot.
//
// Ports:         wr_*   commit of a contribution (wr_clear: valid, tag and bitmap become 0).
//                rd_*   read for the frame inside, 1 clock; sees every commit up to the clock of
//                       rd_en. The answer stands for a clock. flip: which bank holds the visible
//                       copy of flip_block, combinational.
//                sc_*   read for the scan, as rd_*.
//                tx_*   meta and flip for the sender, 1 clock after tx_en && tx_ready; a slot to be
//                       sent has been at rest for two clocks.
// Latency:       1 clock. Throughput: all ports every clock, but tx in that after a commit.
// Back-pressure: tx_ready, a register.
// Memory:        state twice (two readers), meta once: the sender reads it on the port that writes
//                it. flip is apart, because the payload's old value is read with it in the clock
//                in which the state arrives.
// Reset:         none: a slot is unknown until its pipe is bound (protocol.md 4).
// Parameters:    BLOCKS in the pool, power of two: slots are named by their first block; FAN_IN
//                2..64 bits of a bitmap.
// Source:        protocol.md 4.
`default_nettype none

module inc_slot_state #(
  parameter int BLOCKS = 512,
  parameter int FAN_IN = 64,
  parameter int BLK_W  = $clog2(BLOCKS)
) (
  input  wire                 clk,
  input  wire                 rst,

  input  wire                 wr_en,
  input  wire                 wr_clear,
  input  wire [BLK_W-1:0]     wr_block,
  input  wire [22:0]          wr_tag,
  input  wire [FAN_IN-1:0]    wr_bitmap,
  input  wire                 wr_flip,
  input  inc_pkg::slot_meta_t wr_meta,

  input  wire                 rd_en,
  input  wire [BLK_W-1:0]     rd_block,
  output wire                 rd_valid,
  output wire [22:0]          rd_tag,
  output wire [FAN_IN-1:0]    rd_bitmap,
  output inc_pkg::slot_meta_t rd_meta,
  input  wire [BLK_W-1:0]     flip_block,
  output wire                 flip,

  input  wire                 sc_en,
  input  wire [BLK_W-1:0]     sc_block,
  output wire                 sc_valid,
  output wire [22:0]          sc_tag,
  output wire [FAN_IN-1:0]    sc_bitmap,
  output wire                 sc_last,
  output wire                 sc_ack_req,

  input  wire                 tx_en,
  output wire                 tx_ready,
  input  wire [BLK_W-1:0]     tx_block,
  output inc_pkg::slot_meta_t tx_meta,
  output wire                 tx_flip
);

  localparam int M_W = inc_pkg::SLOT_META_W;
  localparam int A_W = 24 + FAN_IN;     // valid, tag, bitmap
  localparam int B_W = A_W + 2;         // and Last, AckReq

  // A commit is written a clock later, from registers: what is read meanwhile is forwarded.
  logic             w_q, w_clear_q;
  logic [BLK_W-1:0] w_block_q;
  logic [B_W-1:0]   w_state_q;
  logic [M_W-1:0]   w_meta_q;
  wire  [B_W-1:0]   state = wr_clear ? '0
                            : {inc_spec_pkg::opcode_is_last({4'd0, wr_meta.opcode}),
                               wr_meta.ack_req, 1'b1, wr_tag, wr_bitmap};
  wire              meta_wr = w_q && !w_clear_q;

  wire rd_now = wr_en && wr_block == rd_block, rd_was = w_q && w_block_q == rd_block;
  wire sc_now = wr_en && wr_block == sc_block, sc_was = w_q && w_block_q == sc_block;
  logic           rd_now_q, rd_was_q, sc_now_q, sc_was_q;
  logic [B_W-1:0] was_state_q;        // of the commit before the one in w_state_q
  logic [M_W-1:0] was_meta_q;
  wire  [A_W-1:0] rd_ram;
  wire  [B_W-1:0] sc_ram;
  wire  [M_W-1:0] rd_meta_ram, tx_meta_ram;

  inc_ram_1r1w #(.DATA_W(A_W), .DEPTH(BLOCKS), .FORWARD(3)) u_frame (
    .clk(clk), .wr_en(w_q), .wr_addr(w_block_q), .wr_data(w_state_q[A_W-1:0]),
    .rd_en(rd_en), .rd_addr(rd_block), .rd_data(rd_ram));
  inc_ram_1r1w #(.DATA_W(B_W), .DEPTH(BLOCKS), .FORWARD(3)) u_scan (
    .clk(clk), .wr_en(w_q), .wr_addr(w_block_q), .wr_data(w_state_q),
    .rd_en(sc_en), .rd_addr(sc_block), .rd_data(sc_ram));

  assign tx_ready = !meta_wr;
  inc_ram_tdp #(.DATA_W(M_W), .DEPTH(BLOCKS)) u_meta (
    .clk(clk),
    .a_en(meta_wr || tx_en), .a_we(meta_wr), .a_addr(meta_wr ? w_block_q : tx_block),
    .a_wr_data(w_meta_q), .a_rd_data(tx_meta_ram),
    .b_en(rd_en && !rd_was), .b_we(1'b0), .b_addr(rd_block), .b_wr_data('0),
    .b_rd_data(rd_meta_ram));

  wire  tx_flip_now;
  logic tx_flip_q;
  inc_lutram #(.DATA_W(1), .DEPTH(BLOCKS), .R(2)) u_flip (
    .clk(clk), .wr_en(wr_en && !wr_clear), .wr_addr(wr_block), .wr_data(wr_flip),
    .rd_addr({tx_block, flip_block}), .rd_data({tx_flip_now, flip}));

  wire [A_W-1:0] rd = rd_now_q ? w_state_q[A_W-1:0] : rd_was_q ? was_state_q[A_W-1:0] : rd_ram;
  wire [B_W-1:0] sc = sc_now_q ? w_state_q : sc_was_q ? was_state_q : sc_ram;
  assign {rd_valid, rd_tag, rd_bitmap} = rd;
  assign {sc_last, sc_ack_req, sc_valid, sc_tag, sc_bitmap} = sc;
  assign rd_meta = rd_now_q ? w_meta_q : rd_was_q ? was_meta_q : rd_meta_ram;
  assign tx_meta = tx_meta_ram;
  assign tx_flip = tx_flip_q;

  always_ff @(posedge clk) begin
    w_q       <= wr_en;
    w_clear_q <= wr_clear;
    w_block_q <= wr_block;
    w_state_q <= state;
    w_meta_q  <= wr_meta;
    was_state_q <= w_state_q;
    was_meta_q  <= w_meta_q;
    rd_now_q    <= rd_now;
    rd_was_q    <= rd_was;
    sc_now_q    <= sc_now;
    sc_was_q    <= sc_was;
    tx_flip_q <= tx_flip_now;
    if (rst) w_q <= 1'b0;
  end

endmodule

`default_nettype wire
