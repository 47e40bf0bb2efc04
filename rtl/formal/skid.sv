// inc_skid, and inc_pass, which has the same use without its latency.
`default_nettype none

module prove_skid #(
  parameter int DATA_W = 4
) (
  input wire              clk,
  input wire              rst,
  input wire              watch,
  input wire              s_valid,
  input wire [DATA_W-1:0] s_data,
  input wire              m_ready
);

  wire run;
  fv_reset u_reset (.clk, .rst, .run);

  wire              skid_ready, skid_valid, pass_ready, pass_valid;
  wire [DATA_W-1:0] skid_data, pass_data;
  inc_skid #(.DATA_W(DATA_W)) u_skid (
    .clk, .rst, .s_valid, .s_ready(skid_ready), .s_data,
    .m_valid(skid_valid), .m_ready, .m_data(skid_data));
  inc_pass #(.DATA_W(DATA_W)) u_pass (
    .clk, .rst, .s_valid, .s_ready(pass_ready), .s_data,
    .m_valid(pass_valid), .m_ready, .m_data(pass_data));

  wire [1:0] skid_fill;
  wire       pass_fill;
  fv_queue #(.DATA_W(DATA_W), .DEPTH(2)) u_skid_queue (
    .clk, .rst, .watch, .in(s_valid && skid_ready), .in_data(s_data),
    .out(skid_valid && m_ready), .out_data(skid_data),
    .fill(skid_fill), .followed(), .ahead(), .word());
  fv_queue #(.DATA_W(DATA_W), .DEPTH(1), .DIRECT(1)) u_pass_queue (
    .clk, .rst, .watch, .in(s_valid && pass_ready), .in_data(s_data),
    .out(pass_valid && m_ready), .out_data(pass_data),
    .fill(pass_fill), .followed(), .ahead(), .word());
  fv_stream #(.DATA_W(DATA_W)) u_skid_law (
    .clk, .rst, .valid(skid_valid), .ready(m_ready), .data(skid_data), .keep(1'b1), .last(1'b1));

  logic              pass_stalled_q;
  logic [DATA_W-1:0] pass_data_q;
  always_ff @(posedge clk) begin
    pass_stalled_q <= pass_valid && !m_ready && !rst;
    pass_data_q    <= pass_data;
    if (run && !rst) begin
      // As fast as they are said to be: ready but with every place taken, valid with any.
      assert (skid_ready == (skid_fill != 2'd2));
      assert (skid_valid == (skid_fill != 2'd0));
      assert (pass_ready == !pass_fill);
      assert (pass_valid == (pass_fill || s_valid));
      assert (!pass_stalled_q || (pass_valid && pass_data == pass_data_q));
      cover (!skid_ready && m_ready);
      cover (pass_fill && s_valid && m_ready);
    end
  end


endmodule

`default_nettype wire
