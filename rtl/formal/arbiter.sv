// inc_rr_arb for 1 to 5 requesters.
`default_nettype none

module prove_arbiter (
  input wire       clk,
  input wire       rst,
  input wire [4:0] req,
  input wire       advance,
  input wire [2:0] who        // free: the requester that is followed
);

  wire run;
  fv_reset u_reset (.clk, .rst, .run);

  generate
    for (genvar n = 1; n <= 5; n++) begin : gen_arb
      localparam int IW = n > 1 ? $clog2(n) : 1;
      wire          valid;
      wire [n-1:0]  grant;
      wire [IW-1:0] index;
      inc_rr_arb #(.N(n)) u_arb (
        .clk, .rst, .req(req[n-1:0]), .advance, .grant_valid(valid), .grant(grant),
        .grant_idx(index));

      logic [2:0] who_q, others_q;   // grants of others that were used while it has been asking
      always_ff @(posedge clk) begin
        who_q <= run ? who_q : who % 3'(n);
        if (rst || !req[who_q] || (advance && grant[who_q])) others_q <= 3'd0;
        else if (advance) others_q <= others_q + 3'd1;
        if (run && !rst) begin
          assert (valid == (req[n-1:0] != '0));
          assert ($countones(grant) == (valid ? 1 : 0));
          assert ((grant & ~req[n-1:0]) == '0);
          assert (!valid || grant[index]);
          assert (valid || index == '0);
          // In turn: before a requester is served every other is at most once.
          if (req[who_q]) assert (others_q < 3'(n));
          if (n > 1) cover (others_q == 3'(n - 1) && grant[who_q]);
        end
      end
    end
  endgenerate

endmodule

`default_nettype wire
