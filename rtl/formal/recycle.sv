// inc_recycle_buffer, with any minima, jobs and writes. A published psnStart is followed: what was
// granted before its walk ended has been read when it is published. PSNs are only copied and
// compared for equality there, so two bits of them stand for all.
`default_nettype none

module prove_recycle #(
  parameter int PIPES = 2,
  parameter int JOB_W = 3
) (
  input wire        clk,
  input wire        rst,
  input wire        who,            // free: the pipe that is followed
  input wire        min_valid,
  input wire        min_pipe,
  input wire [23:0] min_psn,
  input wire        job_granted,
  input wire        job_done,
  input wire        init_valid,
  input wire        init_pipe,
  input wire [23:0] init_psn,
  input wire        take_valid,
  input wire        take_pipe
);

  localparam int MOST = (1 << (JOB_W - 1)) - 1;   // jobs in flight, as its users keep to

  wire run;
  fv_reset u_reset (.clk, .rst, .run);

  logic        who_q;
  wire  [23:0] pub_psn;
  wire  [1:0]  pend;
  wire         jobs_idle;
  inc_recycle_buffer #(.PIPES(PIPES), .JOB_W(JOB_W)) u_recycle (
    .clk, .rst, .min_valid, .min_pipe, .min_psn, .job_granted, .job_done, .init_valid, .init_pipe,
    .init_psn, .pub_pipe(who_q), .pub_psn, .pend, .jobs_idle, .take_valid, .take_pipe);

  logic [JOB_W-1:0] left_q;         // jobs not read
  logic [23:0]      pub_q;
  logic             init_q, known_q;
  // One value, any, is followed: until the jobs that were there when a walk first brought it have
  // been read it is not to be seen.
  logic             seen_q;         // a walk has brought it since the pipe was written
  logic [JOB_W-1:0] owed_q;         // jobs granted by then, not read yet
  logic [23:0]      psn_q;          // the value
  wire              offered = min_valid && min_pipe == who_q && min_psn == psn_q;

  // What the fence waits for: for the induction.
  wire [JOB_W-1:0] fence_left = u_recycle.fence_job_q - u_recycle.done_q;
  always_ff @(posedge clk) begin
    if (run && !rst) begin
      assert (JOB_W'(u_recycle.granted_q - u_recycle.done_q) == left_q);
      assert (left_q <= JOB_W'(MOST) && owed_q <= left_q);
      if (u_recycle.fence_q && u_recycle.fence_pipe_q == who_q && u_recycle.fence_psn_q == psn_q)
        assert (seen_q && (owed_q == '0 || (!fence_left[JOB_W-1] && owed_q <= fence_left)));
    end
  end

  always_ff @(posedge clk) begin
    who_q <= run ? who_q : who;
    psn_q <= run ? psn_q : min_psn;
    left_q <= left_q + JOB_W'(job_granted) - JOB_W'(job_done);
    if (!run || rst) left_q <= '0;
    assume (min_psn[23:2] == '0 && init_psn[23:2] == '0);
    assume (!job_done || left_q != '0);
    assume (left_q < JOB_W'(MOST) || !job_granted);

    init_q <= init_valid && init_pipe == who_q;
    pub_q  <= pub_psn;
    known_q <= run && !rst;

    // psn_q is offered for the first time: the jobs granted until now, this clock's with them.
    if (owed_q != '0 && job_done) owed_q <= owed_q - JOB_W'(1);
    if (offered && !seen_q) begin
      seen_q <= 1'b1;
      owed_q <= left_q + JOB_W'(job_granted) - JOB_W'(job_done);
    end
    if (init_valid && init_pipe == who_q) begin
      seen_q <= 1'b0;
    end
    if (rst) begin
      seen_q <= 1'b0;
      owed_q <= '0;
    end

    if (run && !rst && known_q && pub_psn == psn_q && pub_q != psn_q && !init_q) begin
      // Published now.
      assert (seen_q);
      assert (owed_q == '0);
      assert (pend[who_q]);
      cover (left_q != '0);
    end
    // What is published changes by a write or a publication only, and a publication is told.
    if (run && !rst && known_q && pub_psn != pub_q && !init_q) assert (pend[who_q]);
    if (run && !rst) assert (jobs_idle == (left_q == '0));
  end

endmodule

`default_nettype wire
