// The decision of inc_pipe on one frame, from any state of its registers and memories: what becomes
// of the slot's bitmap. Its other inputs are open, so anything.
`default_nettype none

module prove_degree #(
  parameter int FAN_IN = 64
) (
  input wire clk,
  input wire rst
);

  inc_pipe #(.DATA_W(64), .ENDPOINTS(4), .PIPES(2), .BLOCKS(16), .FAN_IN(FAN_IN)) u_pipe (
    .clk(clk), .rst(rst));

  wire [FAN_IN-1:0] prior  = u_pipe.a_bitmap;     // of the slot, as it was read
  wire [FAN_IN-1:0] after  = u_pipe.d_bitmap;     // as it is written if the frame is taken
  wire [FAN_IN-1:0] in_bit = u_pipe.c_bit_q;
  wire [FAN_IN-1:0] all    = u_pipe.c_all_q;      // the low F bits
  wire [7:0]        count_prior = 8'($countones(prior));
  wire [7:0]        count_after  = 8'($countones(after));
  wire              ok     = u_pipe.d_verdict == inc_spec_pkg::VERDICT_OK && !u_pipe.c_copy;
  wire              start  = u_pipe.d_start;
  wire [6:0]        fan_in = u_pipe.c_q.fan_in;

  always_ff @(posedge clk) begin
    // The in is one of the F (who writes the tables sees to it); the invariant, before the frame.
    assume ($countones(in_bit) == 1 && (in_bit & ~all) == '0);
    assume (fan_in >= 7'd1 && fan_in <= 7'(FAN_IN) && all == ~({FAN_IN{1'b1}} << fan_in));
    assume ((prior & ~all) == '0);
    assert ((after & ~all) == '0);
    assert (count_after <= 8'(fan_in));
    assert (u_pipe.d_full == (count_after == 8'(fan_in)));
    if (ok && start) assert (count_after == 8'd1);
    if (ok && !start) assert (count_after == count_prior + 8'd1);
    cover (ok && !start && u_pipe.d_full && fan_in == 7'd3);
    cover (ok && start);
  end

endmodule

`default_nettype wire
