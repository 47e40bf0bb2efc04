// inc_fifo with and without its output register, and inc_parse_queue.
`default_nettype none

module prove_fifo #(
  parameter int DATA_W = 2,
  parameter int DEPTH  = 4
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

  generate
    for (genvar r = 0; r < 2; r++) begin : gen_fifo
      wire              ready, valid;
      wire [DATA_W-1:0] data;
      wire [2:0]        count, fill;
      inc_fifo #(.DATA_W(DATA_W), .DEPTH(DEPTH), .OUT_REG(r)) u_fifo (
        .clk, .rst, .s_valid, .s_ready(ready), .s_data,
        .m_valid(valid), .m_ready, .m_data(data), .count(count));
      fv_queue #(.DATA_W(DATA_W), .DEPTH(DEPTH)) u_queue (
        .clk, .rst, .watch, .in(s_valid && ready), .in_data(s_data),
        .out(valid && m_ready), .out_data(data),
        .fill(fill), .followed(), .ahead(), .word());
      fv_stream #(.DATA_W(DATA_W)) u_law (
        .clk, .rst, .valid(valid), .ready(m_ready), .data(data), .keep(1'b1), .last(1'b1));
      always_ff @(posedge clk) begin
        if (run && !rst) begin
          assert (count == fill);
          assert (ready == (fill != 3'(DEPTH)));
          assert (valid == (fill != 3'd0));
          cover (count == 3'(DEPTH) && m_ready);
        end
      end
    end
  endgenerate

  // The queue of the parser has no ready: who writes to it keeps to its count.
  wire              q_valid, next_valid;
  wire [DATA_W-1:0] q_data, next_data;
  wire [2:0]        q_count, q_fill;
  wire              q_in = s_valid && q_count != 3'(DEPTH);
  inc_parse_queue #(.DATA_W(DATA_W), .DEPTH(DEPTH)) u_parse_queue (
    .clk, .rst, .s_valid(q_in), .s_data, .m_valid(q_valid), .m_ready, .m_data(q_data),
    .next_valid, .next_data, .count(q_count));
  fv_queue #(.DATA_W(DATA_W), .DEPTH(DEPTH), .DIRECT(1)) u_parse_law (
    .clk, .rst, .watch, .in(q_in), .in_data(s_data), .out(q_valid && m_ready), .out_data(q_data),
    .fill(q_fill), .followed(), .ahead(), .word());

  // next_*: what the output shows in the clock after the word that it shows is taken, if that is
  // known already.
  logic              next_q;
  logic [DATA_W-1:0] next_data_q;
  always_ff @(posedge clk) begin
    next_q      <= q_valid && m_ready && next_valid && !rst;
    next_data_q <= next_data;
    if (run && !rst) begin
      assert (q_count == q_fill);
      assert (q_valid == (q_fill != 3'd0 || q_in));
      if (next_q) assert (q_valid && q_data == next_data_q);
      cover (next_q && q_count == 3'd2);
    end
  end

endmodule

`default_nettype wire
