// inc_bypass, the store of whole frames: bit 0 of the port says whether a frame is to be handed on
// or forgotten, and the decision keeps to it. Frames of one or two beats.
`default_nettype none

module prove_bypass #(
  parameter int DATA_W = 64
) (
  input wire                clk,
  input wire                rst,
  input wire                watch,
  input wire                s_valid,
  input wire [DATA_W-1:0]   s_data,
  input wire [DATA_W/8-1:0] s_keep,
  input wire                s_last,
  input wire [7:0]          s_tid,
  input wire                decides,
  input wire                m_ready
);

  localparam int KEEP_W = DATA_W / 8;
  localparam int W = DATA_W + KEEP_W + 9;

  wire run;
  fv_reset u_reset (.clk, .rst, .run);

  wire              tap_ready, head_valid, head_fits, m_valid, m_last;
  wire [DATA_W-1:0] m_data;
  wire [KEEP_W-1:0] m_keep;
  wire [7:0]        m_tid;
  wire              beat = s_valid && tap_ready;
  wire              wanted, wanted_valid, list_ready;
  wire              decide = decides && head_valid && (!wanted || head_fits);
  inc_bypass #(.DATA_W(DATA_W), .RING_BYTES(128), .OUT_BYTES(128), .FRAME_MAX(16), .LIST(16))
  u_bypass (
    .clk, .rst, .s_tap_tdata(s_data), .s_tap_tkeep(s_keep), .s_tap_tvalid(beat),
    .s_tap_tlast(s_last), .s_tap_tid(s_tid), .tap_ready, .head_valid, .head_fits,
    .dec_valid(decide), .dec_bypass(wanted), .m_axis_bypass_tdata(m_data),
    .m_axis_bypass_tkeep(m_keep), .m_axis_bypass_tvalid(m_valid), .m_axis_bypass_tready(m_ready),
    .m_axis_bypass_tlast(m_last), .m_axis_bypass_tid(m_tid));

  // What is wanted of the frames that are not decided on: a bit each.
  logic [31:0] wants_q;
  logic [4:0]  frames_q;
  wire         ends = beat && s_last;
  assign wanted       = wants_q[0];
  assign wanted_valid = frames_q != 5'd0;
  assign list_ready   = frames_q != 5'd31;

  fv_stream #(.ASSUME(1), .DATA_W(DATA_W), .KEEP_W(KEEP_W)) u_in (
    .clk, .rst, .valid(beat), .ready(1'b1), .data(s_data), .keep(s_keep), .last(s_last));
  fv_stream #(.DATA_W(DATA_W + 8), .KEEP_W(KEEP_W)) u_out (
    .clk, .rst, .valid(m_valid), .ready(m_ready), .data({m_data, m_tid}), .keep(m_keep),
    .last(m_last));
  // Bytes that do not count are not kept.
  wire [DATA_W-1:0] s_bits, m_bits;
  generate
    for (genvar i = 0; i < KEEP_W; i++) begin : gen_bits
      assign s_bits[8*i +: 8] = s_keep[i] ? s_data[8*i +: 8] : 8'd0;
      assign m_bits[8*i +: 8] = m_keep[i] ? m_data[8*i +: 8] : 8'd0;
    end
  endgenerate
  fv_queue #(.DATA_W(W), .DEPTH(48)) u_queue (
    .clk, .rst, .watch, .in(beat && s_tid[0]), .in_data({s_bits, s_keep, s_last, s_tid}),
    .out(m_valid && m_ready), .out_data({m_bits, m_keep, m_last, m_tid}),
    .fill(), .followed(), .ahead(), .word());

`ifdef COVER
  // What a cover point is reached with: little data, one reset.
  always_ff @(posedge clk) assume (s_data[DATA_W-1:2] == '0 && s_tid[7:1] == '0 && (!run || !rst));
`endif

  logic       second_q;
  logic [7:0] tid_q;
  always_ff @(posedge clk) begin
    if (beat) begin
      second_q <= !s_last;
      tid_q    <= s_tid;
      if (second_q) assume (s_last && s_tid == tid_q);
    end
    if (decide) wants_q <= wants_q >> 1;
    if (ends) wants_q[frames_q - 5'(decide)] <= s_tid[0];
    frames_q <= frames_q + 5'(ends) - 5'(decide);
    if (rst) begin
      second_q <= 1'b0;
      frames_q <= 5'd0;
    end
    if (run && !rst) begin
      assert (list_ready);
      assert (!head_valid || wanted_valid);
      if (m_valid) assert (m_tid[0]);
      cover (m_valid && m_ready && m_last && frames_q > 5'd1);
    end
  end

endmodule

`default_nettype wire
