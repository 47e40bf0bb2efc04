// RecycleBuffer: turns "every out has acknowledged" into a psnStart the pipe may take.
//
// The walk over a pipe's outs (Retransmission) finds min(lastAcked)+1. A frame of a recycled slot
// may still wait to be read for sending, so the minimum passes a fence first: it is published
// once every job granted before the end of the walk has been read out. Later jobs are of later
// PSNs (cursor is always beyond lastAcked), so the slots below the published value can be
// overwritten.
//
// Ports:         min_*  end of a walk: pipe and its minimum (dropped while the fence is busy: the
//                next walk brings it again). job_granted, job_done: one-clock pulses, jobs end in
//                order.
//                pub_*  async read of the published psnStart of a pipe, for comparison with its
//                       psnStart.
//                pend   bit per pipe: published since the pipe last took it (take_*).
// Latency:       walk end to pend: 2 clocks plus the jobs before it.
// Reset:         nothing pending; init_* sets a pipe's published value.
// Parameters:    PIPES 2..256, power of two; JOB_W bits of the job counters (more than the jobs
//                in flight).
// Source:        protocol.md 6 (psnStart = min over outs of lastAcked + 1), 4 (recycling is
//                O(1)).
`default_nettype none

module inc_recycle_buffer #(
  parameter int PIPES  = 16,
  parameter int JOB_W  = 8,
  parameter int PIPE_W = $clog2(PIPES)
) (
  input  wire              clk,
  input  wire              rst,

  input  wire              min_valid,
  input  wire [PIPE_W-1:0] min_pipe,
  input  wire [23:0]       min_psn,

  input  wire              job_granted,
  input  wire              job_done,

  input  wire              init_valid,
  input  wire [PIPE_W-1:0] init_pipe,
  input  wire [23:0]       init_psn,

  input  wire [PIPE_W-1:0] pub_pipe,
  output wire [23:0]       pub_psn,
  output wire [PIPES-1:0]  pend,
  output wire              jobs_idle,     // nothing granted is unread
  input  wire              take_valid,
  input  wire [PIPE_W-1:0] take_pipe
);

  logic [JOB_W-1:0]  granted_q, done_q;
  logic              fence_q;
  logic [PIPE_W-1:0] fence_pipe_q;
  logic [23:0]       fence_psn_q;
  logic [JOB_W-1:0]  fence_job_q;
  logic [PIPES-1:0]  pend_q;

  wire [JOB_W-1:0] granted_d = granted_q + JOB_W'(job_granted);
  wire [JOB_W-1:0] left      = done_q - fence_job_q;      // serial: >= 0 once all are done
  wire             open      = fence_q && !left[JOB_W-1];
  // a table write re-initialises a pipe: a minimum of its former life must not follow
  wire             cancel    = init_valid && init_pipe == fence_pipe_q;
  wire             publish   = open && !cancel && !init_valid;

  wire [23:0] min_pub;

  inc_lutram #(.DATA_W(24), .DEPTH(PIPES), .R(2)) u_pub (
    .clk(clk), .wr_en(init_valid || publish),
    .wr_addr(init_valid ? init_pipe : fence_pipe_q),
    .wr_data(init_valid ? init_psn : fence_psn_q),
    .rd_addr({min_pipe, pub_pipe}), .rd_data({min_pub, pub_psn}));

  assign pend      = pend_q;
  assign jobs_idle = granted_q == done_q;

  always_ff @(posedge clk) begin
    granted_q <= granted_d;
    done_q    <= done_q + JOB_W'(job_done);
    if (take_valid) pend_q[take_pipe] <= 1'b0;
    if (publish) begin
      fence_q <= 1'b0;
      pend_q[fence_pipe_q] <= 1'b1;
    end
    if (cancel) fence_q <= 1'b0;
    if (init_valid) pend_q[init_pipe] <= 1'b0;
    if (!fence_q && min_valid && min_psn != min_pub && !init_valid) begin
      fence_q      <= 1'b1;
      fence_pipe_q <= min_pipe;
      fence_psn_q  <= min_psn;
      fence_job_q  <= granted_d;
    end
    if (rst) begin
      granted_q <= '0;
      done_q    <= '0;
      fence_q   <= 1'b0;
      pend_q    <= '0;
    end
  end

endmodule

`default_nettype wire
