// What goes in comes out: once, in order, unchanged. For anything between a stream in and a stream
// out, of any word.
//
// Ports:         in, in_data: a word goes in in this clock; out, out_data: one comes out. watch is
//                free: one word that goes in while it is 1 is followed, so each is.
// Parameters:    DEPTH most words inside; DIRECT 1: a word may come out in the clock it goes in.
`default_nettype none

module fv_queue #(
  parameter int DATA_W = 4,
  parameter int DEPTH  = 2,
  parameter int DIRECT = 0,
  parameter int CW     = $clog2(DEPTH + 1)
) (
  input  wire              clk,
  input  wire              rst,
  input  wire              watch,
  input  wire              in,
  input  wire [DATA_W-1:0] in_data,
  input  wire              out,
  input  wire [DATA_W-1:0] out_data,
  output wire [CW-1:0]     fill,
  output wire              followed,
  output wire [CW-1:0]     ahead,        // words that come out before the one followed
  output wire [DATA_W-1:0] word
);

  logic [CW-1:0]     fill_q, ahead_q;
  logic              followed_q;
  logic [DATA_W-1:0] word_q;

  assign fill     = fill_q;
  assign followed = followed_q;
  assign ahead    = ahead_q;
  assign word     = word_q;

  always_ff @(posedge clk) begin
    fill_q <= fill_q + CW'(in) - CW'(out);
    if (followed_q) begin
      if (out) ahead_q <= ahead_q - CW'(1);
      if (out && ahead_q == '0) followed_q <= 1'b0;
    end else if (in && watch && !(out && fill_q == '0)) begin
      followed_q <= 1'b1;
      ahead_q    <= fill_q - CW'(out);
      word_q     <= in_data;
    end
    if (rst) begin
      fill_q   <= '0;
      followed_q <= 1'b0;
    end
    if (!rst) begin
      assert (!out || fill_q != '0 || (DIRECT != 0 && in));
      assert (!in || fill_q != CW'(DEPTH) || out);
      if (out && fill_q == '0) assert (out_data == in_data);
      if (out && followed_q && ahead_q == '0) assert (out_data == word_q);
      cover (out && followed_q && ahead_q == '0);
    end
  end

endmodule

`default_nettype wire
