// Counters of the engine: one per verdict, one per event, 48 bits each, read without tearing.
//
// Every counter has a few bits of its own in registers, which count in the clock of the pulse; the
// 48 bits are in one small RAM that a sweep visits in turn, adding the register's count and
// clearing it. A visit gives the exact count up to its clock, so a read is a visit out of turn.
// The RAM is cleared by the first sweep after reset.
//
// Streams:       stat_* one-clock pulses; s_rd_* a read request (index), m_rd_* its answer.
// Latency:       a read is answered 2 or 3 clocks after it is taken, with all pulses before the
//                clock ahead of the answer. After reset a read waits for the first sweep
//                (COUNTER_COUNT clocks).
// Throughput:    one verdict and all events every clock; one read in 3 clocks.
// Back-pressure: none on pulses; s_rd_ready is low while a read is under way; answers are not held.
// Reset:         synchronous; all counters 0.
// Parameters:    none; the counters are those of inc_spec_pkg.
// Source:        protocol.md 12 (every drop has a named counter).
`default_nettype none

module inc_counters (
  input  wire                                 clk,
  input  wire                                 rst,
  input  wire                                 stat_valid,    // a frame was retired
  input  wire  [7:0]                          stat_verdict,  // with this verdict
  input  wire  [inc_spec_pkg::EVENT_COUNT-1:0] stat_event,   // bit EVENT_*: it happened
  input  wire                                 s_rd_valid,
  output wire                                 s_rd_ready,
  input  wire  [7:0]                          s_rd_index,    // verdict, or VERDICT_COUNT + event
  output wire                                 m_rd_valid,
  output wire  [47:0]                         m_rd_data      // 0 for an index without a counter
);

  localparam int N = inc_spec_pkg::COUNTER_COUNT;
  localparam int VERDICTS = inc_spec_pkg::VERDICT_COUNT;
  localparam int IDX_W = $clog2(N);
  // Of any three clocks at most one goes to a read and one is lost to it, so the sweep comes round
  // in 3 N clocks: what a counter's own bits must hold.
  localparam int OWN_W = $clog2(3 * N + 2);
  localparam logic [IDX_W-1:0] LAST = IDX_W'(N - 1);

  // What counts in this clock.
  wire [N-1:0] pulse;
  generate
    for (genvar i = 0; i < VERDICTS; i++) begin : gen_verdict
      assign pulse[i] = stat_valid && (stat_verdict == 8'(i));
    end
  endgenerate
  assign pulse[N-1:VERDICTS] = stat_event;

  // The visit of this clock: the read that waits, else the next in turn. Never the counter that was
  // visited in the clock before: its sum is not in the RAM yet.
  logic [IDX_W-1:0] turn_q;
  logic             first_q;      // first sweep: the RAM holds nothing
  logic             rd_pend_q;    // a read waits for its visit
  logic             rd_none_q;    // it asks for a counter that does not exist
  logic [IDX_W-1:0] rd_index_q;
  logic             busy_q;       // a read is under way

  logic             sum_valid_q;  // a visit is in its second clock
  logic [IDX_W-1:0] sum_index_q;
  logic             sum_read_q;   // it answers a read
  logic [47:0]      sum_ram_q;
  logic [OWN_W-1:0] sum_own_q;

  wire rd_visit = rd_pend_q && !first_q && !(sum_valid_q && (sum_index_q == rd_index_q));
  wire turn_visit = !rd_visit && !(sum_valid_q && (sum_index_q == turn_q));
  wire visit = rd_visit || turn_visit;
  wire [IDX_W-1:0] index = rd_visit ? rd_index_q : turn_q;

  wire [N*OWN_W-1:0] own;
  generate
    for (genvar i = 0; i < N; i++) begin : gen_own
      logic [OWN_W-1:0] own_q;
      wire here = visit && (index == IDX_W'(i));
      always_ff @(posedge clk) begin
        // A pulse in the clock of the visit belongs to the next one.
        if (here) own_q <= OWN_W'(pulse[i]);
        else if (pulse[i]) own_q <= own_q + 1'b1;
        if (rst) own_q <= '0;
      end
      assign own[i*OWN_W +: OWN_W] = own_q;
`ifdef INC_ASSERT
      always_ff @(posedge clk) begin
        if (!rst) assert_own_fits: assert (!(&own_q));
      end
`endif
    end
  endgenerate

  wire [47:0] ram;
  wire [47:0] sum = sum_ram_q + 48'(sum_own_q);
  inc_lutram #(
    .DATA_W(48),
    .DEPTH (N),
    .R     (1)
  ) u_ram (
    .clk    (clk),
    .wr_en  (sum_valid_q),
    .wr_addr(sum_index_q),
    .wr_data(sum),
    .rd_addr(index),
    .rd_data(ram)
  );

  always_ff @(posedge clk) begin
    sum_valid_q <= visit;
    sum_index_q <= index;
    sum_read_q  <= rd_visit;
    sum_ram_q   <= first_q ? 48'd0 : ram;
    sum_own_q   <= own[index*OWN_W +: OWN_W];

    if (turn_visit) begin
      turn_q <= (turn_q == LAST) ? '0 : turn_q + 1'b1;
      if (turn_q == LAST) first_q <= 1'b0;
    end

    if (s_rd_valid && s_rd_ready) begin
      busy_q     <= 1'b1;
      rd_pend_q  <= 1'b1;
      rd_none_q  <= s_rd_index > 8'(N - 1);
      rd_index_q <= (s_rd_index > 8'(N - 1)) ? '0 : s_rd_index[IDX_W-1:0];
    end
    if (rd_visit) rd_pend_q <= 1'b0;
    if (m_rd_valid) busy_q <= 1'b0;

    if (rst) begin
      turn_q      <= '0;
      first_q     <= 1'b1;
      busy_q      <= 1'b0;
      rd_pend_q   <= 1'b0;
      sum_valid_q <= 1'b0;
      sum_read_q  <= 1'b0;
    end
  end

  assign s_rd_ready = !busy_q;
  assign m_rd_valid = sum_valid_q && sum_read_q;
  assign m_rd_data  = rd_none_q ? 48'd0 : sum;

`ifdef INC_ASSERT
  always_ff @(posedge clk) begin
    if (!rst && stat_valid) assert_verdict: assert (stat_verdict < 8'(VERDICTS));
  end
`endif

endmodule

`default_nettype wire
