// ValidWalk: goes once over the slots of a pipe that is being bound, so that their valid bits are
// cleared.
//
// Ports:         start, with the pipe, its first block and sizes; busy until done. step: the slot
//                at block is cleared in this clock; last: none is left; done ends the walk.
// Latency:       a clock per slot and one for the end, when PK and the other events leave them.
// Reset:         not busy.
// Parameters:    PIPES, BLOCKS powers of two.
// Source:        protocol.md 4 (binding is the only time valid bits are cleared), 9.
`default_nettype none

module inc_valid_walk #(
  parameter int PIPES  = 16,
  parameter int BLOCKS = 512,
  parameter int PIPE_W = $clog2(PIPES),
  parameter int BLK_W  = $clog2(BLOCKS)
) (
  input  wire                     clk,
  input  wire                     rst,
  input  wire                     start,
  input  wire [PIPE_W-1:0]        start_pipe,
  input  inc_spec_pkg::pipe_cfg_t start_cfg,
  input  wire                     step,
  input  wire                     done,
  output wire                     busy,
  output wire                     last,
  output wire [PIPE_W-1:0]        pipe,
  output wire [23:0]              slot,
  output wire [BLK_W-1:0]         block
);

  logic              busy_q;
  logic [PIPE_W-1:0] pipe_q;
  logic [22:0]       slot_q, left_q;
  logic [BLK_W-1:0]  block_q, stride_q;

  assign busy  = busy_q;
  assign last  = left_q == '0;
  assign pipe  = pipe_q;
  assign slot  = 24'(slot_q);
  assign block = block_q;

  always_ff @(posedge clk) begin
    if (step) begin
      slot_q  <= slot_q + 23'd1;
      left_q  <= left_q - 23'd1;
      block_q <= block_q + stride_q;
    end
    if (done) busy_q <= 1'b0;
    if (start) begin
      busy_q   <= 1'b1;
      pipe_q   <= start_pipe;
      slot_q   <= '0;
      left_q   <= 23'd1 << start_cfg.n_log2;
      block_q  <= start_cfg.base_block[BLK_W-1:0];
      stride_q <= BLK_W'(32'd1 << (start_cfg.mtu_log2 - 4'd8));
    end
    if (rst) busy_q <= 1'b0;
  end

  wire unused_ok = &{1'b0, start_cfg};

endmodule

`default_nettype wire
