// One Ethernet port: bytes of a gigabit MAC in its clocks, words of the engine in its clock.
//
// Streams:       mac_rx_* on rx_clk, mac_tx_* on tx_clk: bytes of frames without preamble and FCS;
//                tuser with the last byte: received wrong; to be sent with a bad FCS.
//                m_axis_*, s_axis_* on clk: the same frames, 8 bytes a word.
// Latency:       a whole frame each way: it is handed on when its last byte is in.
// Throughput:    rx, tx: 1 byte per clock; 1 word per clock.
// Back-pressure: a MAC does not wait: a received frame that does not fit is lost (stat_rx_lost, one
//                rx_clk clock). To send, s_axis_tready falls while the memory is full.
// Reset:         rst synchronous to clk, rx_rst to rx_clk, tx_rst to tx_clk; all together.
// Parameters:    WORDS 256.., a power of two: each direction holds 8 times as many bytes, and no
//                frame longer than that passes.
// Source:        docs/boards.md
`default_nettype none

module inc_mac_port #(
  parameter int WORDS = 512
) (
  input  wire        clk,
  input  wire        rst,
  input  wire        rx_clk,
  input  wire        rx_rst,
  input  wire        tx_clk,
  input  wire        tx_rst,

  input  wire [7:0]  mac_rx_tdata,
  input  wire        mac_rx_tvalid,
  input  wire        mac_rx_tlast,
  input  wire        mac_rx_tuser,

  output wire [7:0]  mac_tx_tdata,
  output wire        mac_tx_tvalid,
  input  wire        mac_tx_tready,
  output wire        mac_tx_tlast,
  output wire        mac_tx_tuser,

  output wire [63:0] m_axis_tdata,
  output wire [7:0]  m_axis_tkeep,
  output wire        m_axis_tvalid,
  input  wire        m_axis_tready,
  output wire        m_axis_tlast,
  output wire        m_axis_tuser,

  input  wire [63:0] s_axis_tdata,
  input  wire [7:0]  s_axis_tkeep,
  input  wire        s_axis_tvalid,
  output wire        s_axis_tready,
  input  wire        s_axis_tlast,
  input  wire        s_axis_tuser,

  output wire        stat_rx_lost
);

  // A word in the memories: tuser, index of the last byte, bytes.
  localparam int WORD_W = 1 + 3 + 64;

  // ---------------------------------------------------------------------------------------------
  // Received: bytes into words.

  logic [63:0] rx_data_q;
  logic [2:0]  rx_lane_q;
  logic        rx_valid_q, rx_last_q, rx_user_q;
  logic [2:0]  rx_end_q;
  wire         rx_room;

  always_ff @(posedge rx_clk) begin
    rx_valid_q <= mac_rx_tvalid && (mac_rx_tlast || rx_lane_q == 3'd7);
    if (mac_rx_tvalid) begin
      rx_data_q[8*rx_lane_q +: 8] <= mac_rx_tdata;
      rx_lane_q <= mac_rx_tlast ? 3'd0 : rx_lane_q + 3'd1;
      rx_last_q <= mac_rx_tlast;
      rx_user_q <= mac_rx_tuser;
      rx_end_q  <= rx_lane_q;
    end
    if (rx_rst) begin
      rx_valid_q <= 1'b0;
      rx_lane_q  <= 3'd0;
    end
  end

  wire [2:0] m_end;

  inc_frame_cdc #(.DATA_W(WORD_W), .DEPTH(WORDS), .LOSSY(1)) u_rx (
    .s_clk(rx_clk), .s_rst(rx_rst),
    .s_valid(rx_valid_q), .s_ready(rx_room), .s_last(rx_last_q), .s_drop(1'b0),
    .s_data({rx_last_q && rx_user_q, rx_end_q, rx_data_q}), .stat_dropped(stat_rx_lost),
    .m_clk(clk), .m_rst(rst), .m_valid(m_axis_tvalid), .m_ready(m_axis_tready),
    .m_last(m_axis_tlast), .m_data({m_axis_tuser, m_end, m_axis_tdata}));

  assign m_axis_tkeep = 8'hff >> (3'd7 - m_end);

  // ---------------------------------------------------------------------------------------------
  // To send: words into bytes.

  logic [2:0]  s_end;
  wire         word_valid, word_last, word_user, unused_tx_dropped;
  wire [2:0]   word_end;
  wire [63:0]  word;
  logic [2:0]  tx_lane_q;
  wire         final_byte = tx_lane_q == word_end;
  wire         word_ready = mac_tx_tready && final_byte;

  always_comb begin
    s_end = 3'd0;
    for (int i = 1; i < 8; i++) begin
      if (s_axis_tkeep[i]) s_end = 3'(i);
    end
  end

  inc_frame_cdc #(.DATA_W(WORD_W), .DEPTH(WORDS), .LOSSY(0)) u_tx (
    .s_clk(clk), .s_rst(rst),
    .s_valid(s_axis_tvalid), .s_ready(s_axis_tready), .s_last(s_axis_tlast), .s_drop(1'b0),
    .s_data({s_axis_tuser, s_end, s_axis_tdata}), .stat_dropped(unused_tx_dropped),
    .m_clk(tx_clk), .m_rst(tx_rst), .m_valid(word_valid), .m_ready(word_ready),
    .m_last(word_last), .m_data({word_user, word_end, word}));

  assign mac_tx_tdata  = word[8*tx_lane_q +: 8];
  assign mac_tx_tvalid = word_valid;
  assign mac_tx_tlast  = word_last && final_byte;
  assign mac_tx_tuser  = word_user && word_last && final_byte;

  always_ff @(posedge tx_clk) begin
    if (word_valid && mac_tx_tready) tx_lane_q <= final_byte ? 3'd0 : tx_lane_q + 3'd1;
    if (tx_rst) tx_lane_q <= 3'd0;
  end

  wire unused_ok = &{1'b0, rx_room};

endmodule

`default_nettype wire
