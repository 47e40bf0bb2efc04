// The law of a stream (AMBA AXI4-Stream, IHI 0051): what is offered stays as it is until it is
// taken; of a packet every byte of a beat counts but in the last, which has its bytes at the low
// end and at least one.
//
// Parameters:    ASSUME 1: of what drives the part, 0: of what the part drives (asserted).
//                KEEP_W 1 with keep 1: a stream without tkeep.
`default_nettype none

module fv_stream #(
  parameter int ASSUME = 0,
  parameter int DATA_W = 8,
  parameter int KEEP_W = 1
) (
  input wire              clk,
  input wire              rst,
  input wire              valid,
  input wire              ready,
  input wire [DATA_W-1:0] data,
  input wire [KEEP_W-1:0] keep,
  input wire              last
);

  logic                       stalled_q;
  logic [DATA_W+KEEP_W:0]     held_q;
  wire  [DATA_W+KEEP_W:0]     now  = {data, keep, last};
  wire  [KEEP_W:0]            more = {1'b0, keep} + (KEEP_W+1)'(1);
  wire                        keep_ok = keep[0] && ({1'b0, keep} & more) == '0
                                        && (last || &keep);
  wire                        stays = !stalled_q || (valid && held_q == now);

  always_ff @(posedge clk) begin
    stalled_q <= valid && !ready && !rst;
    held_q    <= now;
    if (rst) stalled_q <= 1'b0;
    if (!rst) begin
      if (ASSUME != 0) begin
        assume (stays);
        assume (!valid || keep_ok);
      end else begin
        assert (stays);
        assert (!valid || keep_ok);
        cover (stalled_q && valid && ready);
      end
    end
  end

endmodule

`default_nettype wire
