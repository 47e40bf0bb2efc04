// Round-robin arbiter: the first requester after the one granted last, so none starves.
//
// Ports:         req[i] wants; grant is one-hot (0 if none), grant_idx its number (0 if none),
//                grant_valid any. advance: the grant of this clock is used, it becomes the last
//                one. Without advance the pointer stays and the grant may move to a newer
//                requester.
// Latency:       combinational from req; two fixed-priority encoders side by side, one over the
//                requesters above the pointer.
// Reset:         synchronous; requester 0 is first.
// Parameters:    N 1.. requesters.
// Source:        docs/architecture.md; pacing is round robin between outs and pipes.
`default_nettype none

module inc_rr_arb #(
  parameter int N     = 4,
  parameter int IDX_W = (N > 1) ? $clog2(N) : 1
) (
  input  wire             clk,
  input  wire             rst,
  input  wire [N-1:0]     req,
  input  wire             advance,
  output wire             grant_valid,
  output wire [N-1:0]     grant,
  output wire [IDX_W-1:0] grant_idx
);

  logic [N-1:0] above_q;   // mask: requesters after the last grant
  logic [N-1:0] above_d;
  logic [IDX_W-1:0] idx;

  wire [N-1:0] hi    = req & above_q;
  wire [N-1:0] hi_1h = hi & (~hi + N'(1));    // lowest set bit
  wire [N-1:0] lo_1h = req & (~req + N'(1));

  assign grant       = (hi != '0) ? hi_1h : lo_1h;
  assign grant_valid = req != '0;
  assign grant_idx   = idx;

  always_comb begin
    // One-hot to binary as an OR of constants: no priority chain.
    idx = '0;
    for (int i = 0; i < N; i++) begin
      if (grant[i]) idx = idx | IDX_W'(i);
    end
    // Everything above the grant: ~(g-1) is g and above.
    above_d = above_q;
    if (advance && grant_valid) above_d = ~(grant - N'(1)) & ~grant;
  end

  always_ff @(posedge clk) begin
    above_q <= above_d;
    if (rst) above_q <= '0;
  end

`ifdef INC_ASSERT
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert ((grant & (grant - N'(1))) == '0);
      assert ((grant & ~req) == '0);
      assert (grant_valid == (grant != '0));
    end
  end
`endif

endmodule

`default_nettype wire
