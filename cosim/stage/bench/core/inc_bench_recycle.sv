// inc_recycle_buffer between streams. The taker takes the lowest pending pipe.
// Streams: 0 taken {pipe, psnStart}; 1 status, every clock in which it changed; sources 8 minima of
// walks, 9 pulses of jobs, 10 table writes.
`default_nettype none

module inc_bench_recycle (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;
  localparam int PIPE_W = $clog2(PIPES);

  pipe_psn_t       min, init, take;
  jobs_t           jobs;
  recycle_status_t status, status_q;
  wire             min_valid, jobs_valid, init_valid, take_ready;
  logic [PIPE_W-1:0] pipe;
  wire             take_valid = status.pend != '0;

  inc_bench_source #(.STREAM(8), .W($bits(min))) u_min (
    .clk(clk), .rst(rst), .handle(handle), .valid(min_valid), .ready(1'b1), .data(min));
  inc_bench_source #(.STREAM(9), .W($bits(jobs))) u_jobs (
    .clk(clk), .rst(rst), .handle(handle), .valid(jobs_valid), .ready(1'b1), .data(jobs));
  inc_bench_source #(.STREAM(10), .W($bits(init))) u_init (
    .clk(clk), .rst(rst), .handle(handle), .valid(init_valid), .ready(1'b1), .data(init));

  always_comb begin
    pipe = '0;
    for (int i = PIPES - 1; i >= 0; i--) begin
      if (status.pend[i]) pipe = PIPE_W'(i);
    end
  end
  assign take.pipe = 8'(pipe);

  inc_recycle_buffer #(.PIPES(PIPES)) u_dut (
    .clk(clk), .rst(rst),
    .min_valid(min_valid), .min_pipe(min.pipe[PIPE_W-1:0]), .min_psn(min.psn),
    .job_granted(jobs_valid && jobs.granted), .job_done(jobs_valid && jobs.done),
    .init_valid(init_valid), .init_pipe(init.pipe[PIPE_W-1:0]), .init_psn(init.psn),
    .pub_pipe(pipe), .pub_psn(take.psn), .pend(status.pend), .jobs_idle(status.jobs_idle),
    .take_valid(take_valid && take_ready), .take_pipe(pipe));

  always_ff @(posedge clk) status_q <= rst ? '0 : status;

  inc_bench_sink #(.STREAM(0), .W($bits(take)), .LAW(0)) u_take (
    .clk(clk), .rst(rst), .handle(handle), .valid(take_valid), .ready(take_ready), .data(take));
  inc_bench_watch #(.STREAM(1), .W($bits(status))) u_status (
    .clk(clk), .rst(rst), .handle(handle), .valid(status != status_q), .data(status));

endmodule

`default_nettype wire
