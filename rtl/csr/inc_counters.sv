// Counters of the engine: one per verdict, one per event, 48 bits each, read without tearing.
//
// A clock retires at most one frame, so the verdicts' counters are in a RAM that each retired frame
// adds one to. Events come many in a clock: each has a few bits of its own in registers, which
// count in the clock of the pulse, and a sweep visits the events in turn, adds the register's count
// to a second RAM and clears it. A visit gives the exact count, so a read waits for its event's.
// Nothing clears the RAMs: a bit per verdict and the first sweep after reset say what is in them.
//
// Streams:       stat_* one-clock pulses; s_rd_* a read request (index), m_rd_* its answer.
// Latency:       a read of a verdict is answered 6 clocks after it is taken, of an event within
//                EVENT_COUNT + 4; it counts all pulses before the clock in which it was taken.
//                After reset an event's waits for the first sweep too.
// Throughput:    one verdict and all events every clock; one read at a time.
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

  localparam int VERDICTS = inc_spec_pkg::VERDICT_COUNT;
  localparam int EVENTS   = inc_spec_pkg::EVENT_COUNT;
  localparam int V_W      = $clog2(VERDICTS);
  localparam int E_W      = $clog2(EVENTS);
  localparam int OWN_W    = $clog2(EVENTS + 1);  // an event is visited every EVENTS clocks

  // ---------------------------------------------------------------- verdicts
  // Three clocks: taken in; its counter read; one added and written. The counter of the frame just
  // before is not in the RAM yet: it is taken from the adder.
  logic              v0_valid_q, v1_valid_q, v2_valid_q;
  logic [V_W-1:0]    v0_index_q, v1_index_q, v2_index_q;
  logic              v1_known_q;  // its counter has been written since reset
  logic              v1_again_q;  // it is the counter of the frame just before
  logic [47:0]       v2_old_q;
  logic [VERDICTS-1:0] known_q;

  logic [V_W-1:0]    rd_verdict_q;
  wire  [47:0]       v1_ram, rd_ram;
  wire  [47:0]       v2_new = v2_old_q + 48'd1;

  inc_lutram #(.DATA_W(48), .DEPTH(VERDICTS), .R(2)) u_verdicts (
    .clk(clk), .wr_en(v2_valid_q), .wr_addr(v2_index_q), .wr_data(v2_new),
    .rd_addr({rd_verdict_q, v1_index_q}), .rd_data({rd_ram, v1_ram}));

  generate
    for (genvar i = 0; i < VERDICTS; i++) begin : gen_known
      always_ff @(posedge clk) begin
        // Not before: a read in the next clock takes what is in the RAM.
        if (v1_valid_q && v1_index_q == V_W'(i)) known_q[i] <= 1'b1;
        if (rst) known_q[i] <= 1'b0;
      end
    end
  endgenerate

  always_ff @(posedge clk) begin
    v0_valid_q <= stat_valid;
    v0_index_q <= stat_verdict[V_W-1:0];
    v1_valid_q <= v0_valid_q;
    v1_index_q <= v0_index_q;
    v1_known_q <= known_q[v0_index_q];
    v1_again_q <= v1_valid_q && v1_index_q == v0_index_q;
    v2_valid_q <= v1_valid_q;
    v2_index_q <= v1_index_q;
    v2_old_q   <= v1_again_q ? v2_new : v1_known_q ? v1_ram : 48'd0;
    if (rst) begin
      v0_valid_q <= 1'b0;
      v1_valid_q <= 1'b0;
      v2_valid_q <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- events
  logic [EVENTS-1:0] pulse_q;
  logic [EVENTS-1:0] here_q;      // one-hot: the event visited in this clock
  logic [E_W-1:0]    turn_q;      // the same, as a number
  logic              first_q;     // first sweep: the RAM holds nothing
  logic              sum_valid_q; // a visit is in its second clock
  logic [E_W-1:0]    sum_turn_q;
  logic [47:0]       sum_ram_q;
  logic [OWN_W-1:0]  sum_own_q;

  wire  [47:0]       e_ram;
  wire  [47:0]       sum = sum_ram_q + 48'(sum_own_q);

  inc_lutram #(.DATA_W(48), .DEPTH(EVENTS), .R(1)) u_events (
    .clk(clk), .wr_en(sum_valid_q), .wr_addr(sum_turn_q), .wr_data(sum),
    .rd_addr(turn_q), .rd_data(e_ram));

  wire [EVENTS*OWN_W-1:0] own;
  generate
    for (genvar i = 0; i < EVENTS; i++) begin : gen_own
      logic [OWN_W-1:0] own_q;
      always_ff @(posedge clk) begin
        // A pulse in the clock of the visit belongs to the next one.
        own_q <= (here_q[i] ? '0 : own_q) + OWN_W'(pulse_q[i]);
        if (rst) own_q <= '0;
      end
      assign own[i*OWN_W +: OWN_W] = own_q & {OWN_W{here_q[i]}};
`ifdef INC_ASSERT
      always_ff @(posedge clk) begin
        if (!rst) assert_own_fits: assert (32'(own_q) <= EVENTS);
      end
`endif
    end
  endgenerate

  logic [OWN_W-1:0] own_here;  // that of the event visited
  always_comb begin
    own_here = '0;
    for (int i = 0; i < EVENTS; i++) own_here = own_here | own[i*OWN_W +: OWN_W];
  end

  always_ff @(posedge clk) begin
    pulse_q     <= stat_event;
    here_q      <= {here_q[EVENTS-2:0], here_q[EVENTS-1]};
    turn_q      <= here_q[EVENTS-1] ? '0 : turn_q + 1'b1;
    if (here_q[EVENTS-1]) first_q <= 1'b0;
    sum_valid_q <= 1'b1;
    sum_turn_q  <= turn_q;
    sum_ram_q   <= first_q ? 48'd0 : e_ram;
    sum_own_q   <= own_here;
    if (rst) begin
      pulse_q     <= '0;
      here_q      <= EVENTS'(1);
      turn_q      <= '0;
      first_q     <= 1'b1;
      sum_valid_q <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- reads
  // Age of the read: what was pulsed before it has reached the RAM, or its event's own register, by
  // the last.
  localparam int AGE_N = 5;
  logic              busy_q;
  logic [AGE_N-1:0]  age_q;
  logic [7:0]        rd_index_q;
  logic              rd_is_verdict_q, rd_is_event_q;
  logic [E_W-1:0]    rd_event_q;
  logic              rd_known_q;
  logic              sum_rd_q;     // the visit in its second clock is the one that the read wants
  logic              rd_wait_q;    // it has not come yet
  logic              rsp_valid_q;
  logic [47:0]       rsp_data_q;

  wire visited = rd_wait_q && turn_q == rd_event_q && !first_q;
  wire old     = age_q[AGE_N-1];

  always_ff @(posedge clk) begin
    age_q           <= {age_q[AGE_N-2:0], s_rd_valid && s_rd_ready};
    if (s_rd_valid && s_rd_ready) begin
      busy_q     <= 1'b1;
      rd_index_q <= s_rd_index;
    end
    rd_is_verdict_q <= rd_index_q < 8'(VERDICTS);
    rd_is_event_q   <= rd_index_q >= 8'(VERDICTS) && rd_index_q < 8'(VERDICTS + EVENTS);
    rd_verdict_q    <= rd_is_verdict_q ? rd_index_q[V_W-1:0] : '0;
    rd_event_q      <= E_W'(rd_index_q - 8'(VERDICTS));
    rd_known_q      <= known_q[rd_verdict_q] && rd_is_verdict_q;
    if (old && rd_is_event_q) rd_wait_q <= 1'b1;
    if (visited) rd_wait_q <= 1'b0;
    sum_rd_q        <= visited;
    rsp_valid_q     <= sum_rd_q || (old && !rd_is_event_q);
    rsp_data_q      <= sum_rd_q ? sum : rd_known_q ? rd_ram : 48'd0;
    if (rsp_valid_q) busy_q <= 1'b0;
    if (rst) begin
      busy_q      <= 1'b0;
      age_q       <= '0;
      rd_wait_q   <= 1'b0;
      sum_rd_q    <= 1'b0;
      rsp_valid_q <= 1'b0;
    end
  end

  assign s_rd_ready = !busy_q;
  assign m_rd_valid = rsp_valid_q;
  assign m_rd_data  = rsp_data_q;

`ifdef INC_ASSERT
  always_ff @(posedge clk) begin
    if (!rst && stat_valid) assert_verdict: assert (stat_verdict < 8'(VERDICTS));
  end
`endif

endmodule

`default_nettype wire
