// The wire stages and the primitives side by side, each with its ports at the top: main.cpp drives them.
// The stages of rtl/core are in inc_bench (core/), each with its own clock.
// Structs are flattened to vectors; the Go side reads their fields from rtl/pkg/inc_pkg.sv.
`default_nettype none

module inc_stage_bench #(
  parameter int DATA_W = 512,
  parameter int HDR_W  = $bits(inc_pkg::hdr_t),
  parameter int TXH_W  = $bits(inc_pkg::txhdr_t)
) (
  input  wire                clk,
  input  wire                rst,

  input  wire [15:0]         core_clk,
  input  wire                core_rst,
  input  wire [63:0]         core_handle,

  // inc_parse and inc_bypass share the stream, as in the engine.
  input  wire [DATA_W-1:0]   rx_tdata,
  input  wire [DATA_W/8-1:0] rx_tkeep,
  input  wire                rx_tvalid,
  output wire                rx_tready,
  output wire                parse_tready,
  input  wire                rx_tlast,
  input  wire                rx_tuser,
  input  wire [7:0]          rx_tid,
  output wire                hdr_valid,
  input  wire                hdr_ready,
  output wire [HDR_W-1:0]    hdr,
  output wire                early_valid,
  output wire [23:0]         early_qpn,
  output wire                pay_valid,
  input  wire                pay_ready,
  output wire [DATA_W-1:0]   pay_data,
  output wire                pay_last,
  output wire                eof_valid,
  input  wire                eof_ready,
  output wire [7:0]          eof_verdict,
  output wire                head_valid,
  output wire                head_fits,
  input  wire                dec_valid,
  input  wire                dec_bypass,
  output wire [DATA_W-1:0]   byp_tdata,
  output wire [DATA_W/8-1:0] byp_tkeep,
  output wire                byp_tvalid,
  input  wire                byp_tready,
  output wire                byp_tlast,
  output wire [7:0]          byp_tid,

  input  wire                txh_valid,
  output wire                txh_ready,
  input  wire [TXH_W-1:0]    txh,
  input  wire                txp_valid,
  output wire                txp_ready,
  input  wire [DATA_W-1:0]   txp_data,
  input  wire                txp_last,
  input  wire                end_valid,
  output wire                end_ready,
  input  wire                end_poison,
  output wire [DATA_W-1:0]   tx_tdata,
  output wire [DATA_W/8-1:0] tx_tkeep,
  output wire                tx_tvalid,
  input  wire                tx_tready,
  output wire                tx_tlast,
  output wire                tx_tuser,
  output wire [7:0]          tx_tdest,

  // Queues: 0 inc_skid, 1 inc_fifo, 2 inc_fifo with OUT_REG.
  input  wire [2:0]          q_s_valid,
  output wire [2:0]          q_s_ready,
  input  wire [3*16-1:0]     q_s_data,
  output wire [2:0]          q_m_valid,
  input  wire [2:0]          q_m_ready,
  output wire [3*16-1:0]     q_m_data,
  output wire [2*4-1:0]      q_count,

  input  wire [4:0]          arb_req,
  input  wire                arb_advance,
  output wire                arb_valid,
  output wire [4:0]          arb_grant,
  output wire [2:0]          arb_idx,

  // RAMs of 24 words: 1r1w old, 1r1w forwarding, lutram (2 reads) share one write port.
  input  wire                ram_wr_en,
  input  wire [4:0]          ram_wr_addr,
  input  wire [15:0]         ram_wr_data,
  input  wire                ram_rd_en,
  input  wire [4:0]          ram_rd_addr,
  input  wire [4:0]          ram_rd_addr2,
  output wire [15:0]         ram_old,
  output wire [15:0]         ram_new,
  output wire [31:0]         ram_lut,
  input  wire                tdp_a_en,
  input  wire                tdp_a_we,
  input  wire [4:0]          tdp_a_addr,
  input  wire [15:0]         tdp_a_wr_data,
  output wire [15:0]         tdp_a_rd_data,
  input  wire                tdp_b_en,
  input  wire                tdp_b_we,
  input  wire [4:0]          tdp_b_addr,
  input  wire [15:0]         tdp_b_wr_data,
  output wire [15:0]         tdp_b_rd_data
);

  wire            tap_ready;
  inc_pkg::hdr_t  hdr_s;
  inc_pkg::txhdr_t txh_s;
  assign rx_tready = parse_tready && tap_ready;
  assign hdr = hdr_s;
  assign txh_s = txh;

  inc_bench u_core (.clk(core_clk), .rst(core_rst), .handle(core_handle));

  inc_parse #(.DATA_W(DATA_W)) u_parse (
    .clk(clk), .rst(rst),
    .s_axis_rx_tdata(rx_tdata), .s_axis_rx_tkeep(rx_tkeep),
    .s_axis_rx_tvalid(rx_tvalid && tap_ready), .s_axis_rx_tready(parse_tready),
    .s_axis_rx_tlast(rx_tlast), .s_axis_rx_tuser(rx_tuser), .s_axis_rx_tid(rx_tid),
    .m_hdr_valid(hdr_valid), .m_hdr_ready(hdr_ready), .m_hdr(hdr_s),
    .m_early_valid(early_valid), .m_early_qpn(early_qpn),
    .m_pay_valid(pay_valid), .m_pay_ready(pay_ready), .m_pay_data(pay_data), .m_pay_last(pay_last),
    .m_eof_valid(eof_valid), .m_eof_ready(eof_ready), .m_eof_verdict(eof_verdict));

  inc_bypass #(.DATA_W(DATA_W)) u_bypass (
    .clk(clk), .rst(rst),
    .s_tap_tdata(rx_tdata), .s_tap_tkeep(rx_tkeep), .s_tap_tvalid(rx_tvalid && rx_tready),
    .s_tap_tlast(rx_tlast), .s_tap_tid(rx_tid), .tap_ready(tap_ready),
    .head_valid(head_valid), .head_fits(head_fits), .dec_valid(dec_valid), .dec_bypass(dec_bypass),
    .m_axis_bypass_tdata(byp_tdata), .m_axis_bypass_tkeep(byp_tkeep),
    .m_axis_bypass_tvalid(byp_tvalid), .m_axis_bypass_tready(byp_tready),
    .m_axis_bypass_tlast(byp_tlast), .m_axis_bypass_tid(byp_tid));

  inc_pkg::txshape_t txh_shape;
  inc_frame_shape u_shape (.hdr(txh_s), .ce(1'b0), .shape(txh_shape));
  inc_deparse #(.DATA_W(DATA_W)) u_deparse (
    .clk(clk), .rst(rst),
    .s_hdr_valid(txh_valid), .s_hdr_ready(txh_ready), .s_hdr(txh_s),
    .s_shape(txh_shape),
    .s_pay_valid(txp_valid), .s_pay_ready(txp_ready), .s_pay_data(txp_data), .s_pay_last(txp_last),
    .s_end_valid(end_valid), .s_end_ready(end_ready), .s_end_poison(end_poison),
    .m_axis_tx_tdata(tx_tdata), .m_axis_tx_tkeep(tx_tkeep), .m_axis_tx_tvalid(tx_tvalid),
    .m_axis_tx_tready(tx_tready), .m_axis_tx_tlast(tx_tlast), .m_axis_tx_tuser(tx_tuser),
    .m_axis_tx_tdest(tx_tdest));

  inc_skid #(.DATA_W(16)) u_skid (
    .clk(clk), .rst(rst), .s_valid(q_s_valid[0]), .s_ready(q_s_ready[0]), .s_data(q_s_data[15:0]),
    .m_valid(q_m_valid[0]), .m_ready(q_m_ready[0]), .m_data(q_m_data[15:0]));
  inc_fifo #(.DATA_W(16), .DEPTH(8)) u_fifo (
    .clk(clk), .rst(rst), .s_valid(q_s_valid[1]), .s_ready(q_s_ready[1]), .s_data(q_s_data[31:16]),
    .m_valid(q_m_valid[1]), .m_ready(q_m_ready[1]), .m_data(q_m_data[31:16]), .count(q_count[3:0]));
  inc_fifo #(.DATA_W(16), .DEPTH(8), .OUT_REG(1)) u_fifo_reg (
    .clk(clk), .rst(rst), .s_valid(q_s_valid[2]), .s_ready(q_s_ready[2]), .s_data(q_s_data[47:32]),
    .m_valid(q_m_valid[2]), .m_ready(q_m_ready[2]), .m_data(q_m_data[47:32]), .count(q_count[7:4]));

  inc_rr_arb #(.N(5)) u_arb (
    .clk(clk), .rst(rst), .req(arb_req), .advance(arb_advance),
    .grant_valid(arb_valid), .grant(arb_grant), .grant_idx(arb_idx));

  inc_ram_1r1w #(.DATA_W(16), .DEPTH(24)) u_ram_old (
    .clk(clk), .wr_en(ram_wr_en), .wr_addr(ram_wr_addr), .wr_data(ram_wr_data),
    .rd_en(ram_rd_en), .rd_addr(ram_rd_addr), .rd_data(ram_old));
  inc_ram_1r1w #(.DATA_W(16), .DEPTH(24), .FORWARD(1)) u_ram_new (
    .clk(clk), .wr_en(ram_wr_en), .wr_addr(ram_wr_addr), .wr_data(ram_wr_data),
    .rd_en(ram_rd_en), .rd_addr(ram_rd_addr), .rd_data(ram_new));
  inc_lutram #(.DATA_W(16), .DEPTH(24), .R(2)) u_ram_lut (
    .clk(clk), .wr_en(ram_wr_en), .wr_addr(ram_wr_addr), .wr_data(ram_wr_data),
    .rd_addr({ram_rd_addr2, ram_rd_addr}), .rd_data(ram_lut));
  inc_ram_tdp #(.DATA_W(16), .DEPTH(24)) u_ram_tdp (
    .clk(clk), .a_en(tdp_a_en), .a_we(tdp_a_we), .a_addr(tdp_a_addr), .a_wr_data(tdp_a_wr_data),
    .a_rd_data(tdp_a_rd_data), .b_en(tdp_b_en), .b_we(tdp_b_we), .b_addr(tdp_b_addr),
    .b_wr_data(tdp_b_wr_data), .b_rd_data(tdp_b_rd_data));

endmodule

`default_nettype wire
