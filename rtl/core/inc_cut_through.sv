// CutThrough: the first copy of a result leaves while the contribution that completes it arrives.
//
// When a frame completes a slot whose result is next to leave, and nothing else is leaving, the
// header of the first out's copy is given to the deparser in the clock behind the decision, and the
// sums follow as they are made. Only then the end of the frame is known. If it is good, the frame
// is committed and the slot released as ever, and the copy that has left is entered at its out by a
// send (Mode-III) or a forward (Mode-II) without a job; the other outs are served from the slot. If
// it is bad, nothing was committed: the copy leaves poisoned, and a record says so. Meanwhile no
// other frame is begun, so frames leave in the order of their records.
//
// Streams:       decide_*, result_* from Pipe, in two clocks behind each other; s_sum_* the sums of
//                every frame, of which those with the frame's id are kept; s_pay_* payload from
//                ReplicateData, m_pay_* to the deparser: the sums of the copy, then what comes by
//                s_pay; m_end_* to the deparser, one word for each copy.
// Latency:       result_* to go: 0; a sum to m_pay: 0.
// Throughput:    one beat per clock.
// Back-pressure: the deparser's holds the sums in a queue of a whole payload: never what arrives.
// Reset:         no copy is leaving.
// Parameters:    DATA_W 64..4096; EP_W, PIPE_W, ID_W bits of an endpoint, a pipe, a frame's id;
//                PAY_MAX bytes of the longest payload.
// Source:        protocol.md 3 and 6 (poisoned); docs/microarchitecture.md "Cutting through".
`default_nettype none

module inc_cut_through #(
  parameter int DATA_W  = 512,
  parameter int EP_W    = 6,
  parameter int PIPE_W  = 4,
  parameter int ID_W    = 4,
  parameter int PAY_MAX = 4096
) (
  input  wire                    clk,
  input  wire                    rst,

  // a data frame is being decided on (clock 1), and what came of it (clock 2)
  input  wire                    decide_valid,
  input  wire                    result_valid,
  input  wire                    result_leaves,  // it completes a result that is next to leave
  input  wire                    result_mode2,
  input  wire [EP_W-1:0]         result_ep,      // the first out
  input  wire [PIPE_W-1:0]       result_pipe,
  input  wire [23:0]             result_psn,
  input  wire [23:0]             result_slot,
  input  wire [ID_W-1:0]         result_id,
  input  wire                    result_pays,    // it has payload
  input  wire                    end_valid,      // a frame is committed or dropped
  input  wire                    end_good,
  input  wire                    release_valid,  // a slot is released
  input  wire [PIPE_W-1:0]       release_pipe,

  // what else leaves
  input  wire                    jobs_idle,      // no job waits, and none is being read
  input  wire                    forwards_idle,
  input  wire                    translate_quiet,
  input  wire                    replicate_quiet,
  input  wire                    out_ok,         // clock 2: the first out can take it (Mode-III)
  input  wire                    upset,          // an out changes: out_ok may be old
  input  wire                    job_granted,    // something else begins to leave
  input  wire [31:0]             job_number,

  output wire                    load,           // clock 1: header of a copy, perhaps
  output wire                    go,             // clock 2: it leaves
  output wire                    hold,           // nothing else begins to leave
  output wire [EP_W-1:0]         hold_ep,        // and the out does not change
  output wire                    busy,           // the copy leaves; its frame has not ended
  output wire                    owed,           // the copy left, and is not entered at its out
  output wire [EP_W-1:0]         ep,             // of the copy, as the rest
  output wire [PIPE_W-1:0]       pipe,
  output wire [31:0]             number,
  output wire                    send_valid,     // Mode-III: enter it, held until sent
  input  wire                    sent,
  input  wire                    forwarded,

  input  wire                    s_sum_valid,
  input  wire [ID_W-1:0]         s_sum_id,
  input  wire                    s_sum_last,
  input  wire [DATA_W-1:0]       s_sum_data,
  input  wire                    s_pay_valid,
  output wire                    s_pay_ready,
  input  wire [DATA_W-1:0]       s_pay_data,
  input  wire                    s_pay_last,
  output wire                    m_pay_valid,
  input  wire                    m_pay_ready,
  output wire [DATA_W-1:0]       m_pay_data,
  output wire                    m_pay_last,
  output wire                    m_end_valid,
  input  wire                    m_end_ready,
  output wire                    m_end_poison,

  output wire                    stat_poisoned,
  output wire                    ret_valid,      // the record of a poisoned copy
  output inc_spec_pkg::record_t  ret_rec
);

  localparam int DEPTH = PAY_MAX * 8 / DATA_W < 16 ? 16 : PAY_MAX * 8 / DATA_W;

  logic              try_q, upset_q;
  logic              busy_q, owed_q, released_q, poison_q, mode2_q;
  logic              gather_q, pay_q;           // sums are to come; payload is the copy's
  logic              end_q, end_poison_q;
  logic [EP_W-1:0]   ep_q;
  logic [PIPE_W-1:0] pipe_q;
  logic [23:0]       psn_q, slot_q;
  logic [ID_W-1:0]   id_q;
  logic [31:0]       number_q;

  // ------------------------------------------------------------------ does it leave
  wire free = !busy_q && !owed_q && !poison_q && !pay_q && !end_q;
  wire room = free && jobs_idle && forwards_idle && translate_quiet && replicate_quiet;
  assign load = decide_valid && room;
  assign go   = try_q && result_valid && result_leaves && !upset_q && !upset
                && (result_mode2 || out_ok);
  assign hold = try_q || busy_q || owed_q || poison_q;
  assign hold_ep = busy_q || owed_q ? ep_q : result_ep;
  assign busy = busy_q;
  assign owed = owed_q;
  assign ep   = ep_q;
  assign pipe = pipe_q;
  assign number = number_q;
  assign send_valid = owed_q && !mode2_q && released_q;

  always_ff @(posedge clk) begin
    try_q    <= load;
    upset_q  <= upset || job_granted;
    poison_q <= 1'b0;
    if (go) begin
      busy_q     <= 1'b1;
      released_q <= 1'b0;
      mode2_q    <= result_mode2;
      ep_q       <= result_ep;
      pipe_q     <= result_pipe;
      psn_q      <= result_psn;
      slot_q     <= result_slot;
      id_q       <= result_id;
      number_q   <= job_number;
    end
    if (busy_q && end_valid) begin
      busy_q       <= 1'b0;
      owed_q       <= end_good;
      poison_q     <= !end_good;
      end_poison_q <= !end_good;
    end
    if (owed_q && release_valid && release_pipe == pipe_q) released_q <= 1'b1;
    if (sent || forwarded) owed_q <= 1'b0;

    end_q <= (busy_q && end_valid) || (end_q && !m_end_ready);

    if (rst) begin
      try_q    <= 1'b0;
      busy_q   <= 1'b0;
      owed_q   <= 1'b0;
      poison_q <= 1'b0;
      end_q    <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst) begin
      assert (!go || !end_valid);
      assert (!(sent || forwarded) || owed_q);
    end
`endif
  end

  assign m_end_valid  = end_q;
  assign m_end_poison = end_poison_q;

  // ------------------------------------------------------------------ sums
  wire                       q_push = gather_q && s_sum_valid && s_sum_id == id_q;
  wire                       q_valid, q_last;
  wire [DATA_W-1:0]          q_data;
  wire                       unused_next_valid;
  wire [DATA_W:0]            unused_next;
  wire [$clog2(DEPTH+1)-1:0] unused_count;
  inc_parse_queue #(.DATA_W(DATA_W + 1), .DEPTH(DEPTH)) u_sums (
    .clk(clk), .rst(rst), .s_valid(q_push), .s_data({s_sum_last, s_sum_data}),
    .m_valid(q_valid), .m_ready(m_pay_ready && pay_q), .m_data({q_last, q_data}),
    .next_valid(unused_next_valid), .next_data(unused_next), .count(unused_count));

  assign m_pay_valid = pay_q ? q_valid : s_pay_valid;
  assign m_pay_data  = pay_q ? q_data : s_pay_data;
  assign m_pay_last  = pay_q ? q_last : s_pay_last;
  assign s_pay_ready = !pay_q && m_pay_ready;

  always_ff @(posedge clk) begin
    if (q_push && s_sum_last) gather_q <= 1'b0;
    if (pay_q && q_valid && m_pay_ready && q_last) pay_q <= 1'b0;
    if (go && result_pays) begin
      gather_q <= 1'b1;
      pay_q    <= 1'b1;
    end
    if (rst) begin
      gather_q <= 1'b0;
      pay_q    <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ retirement
  assign stat_poisoned = poison_q;
  assign ret_valid     = poison_q;
  always_comb begin
    ret_rec          = '0;
    ret_rec.cause    = mode2_q ? 32'(inc_spec_pkg::CAUSE_FORWARD) : 32'(inc_spec_pkg::CAUSE_SEND);
    ret_rec.verdict  = 32'(inc_spec_pkg::VERDICT_POISONED);
    ret_rec.frame    = number_q;
    ret_rec.pipe_id  = 32'(pipe_q);
    ret_rec.endpoint = 32'(ep_q);
    ret_rec.psn      = 32'(psn_q);
    ret_rec.slot     = 32'(slot_q);
  end

  wire unused_ok = &{1'b0, unused_next_valid, unused_next, unused_count};

endmodule

`default_nettype wire
