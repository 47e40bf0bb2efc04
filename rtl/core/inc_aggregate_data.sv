// AggregateData: reduces the payload of a contribution into its slot, beat by beat.
//
// Streams:       s_claim: there may be a beat in this clock; s_valid, s_data:
//                one beat, its s_dtype and s_op; s_addr its place in the slot memory, s_bank the
//                visible copy (read; the other is written); s_start: first contribution, write
//                instead of reduce (never 0 + x); s_compare: a further one leaves what the slot
//                holds, and m_sum_diff names the 32-bit words that differ. s_last and s_id come out
//                with the beat. m_sum_*: every beat as it is written, in order: data, place, the
//                bank written, last, diff.
// Latency:       L is inc_alu's: 1, 2 or 6 clocks by type and operator. m_sum_* is valid L + 1
//                clocks after the beat, and is written in this clock; a read that is issued L + 2
//                clocks after the beat sees it.
// Throughput:    1 beat per clock.
// Back-pressure: none: every beat is taken; the tx port waits as inc_slot_ram says.
// Hazards, which the sequencer keeps (asserted):
//                the same beat of a slot may not come again, nor be read for sending, within L + 1
//                clocks: inc_pkg::sum_distance is L + 2;
//                a beat of another type or operator must not overtake: see inc_alu. With
//                float_busy low a beat may come 1 clock later, whatever it is, unless a beat comes
//                in this clock.
// Reset:         the stages empty.
// Parameters:    DATA_W 64..4096, FLOAT 0 or 1; ID_W bits that go with a beat; DEPTH beats a bank.
//                Above 2048 bits a beat is more than a block of 256 bytes: a slot takes at least
//                one beat, and its address is that of the block, divided by the blocks of a beat.
// Source:        protocol.md 4, 11; microarchitecture.md "Commit order".
`default_nettype none

module inc_aggregate_data #(
  parameter int DATA_W = 512,
  parameter int DEPTH  = 2048,
  parameter int FLOAT  = 0,
  parameter int ID_W   = 4,
  parameter int ADDR_W = $clog2(DEPTH)
) (
  input  wire                 clk,
  input  wire                 rst,
  input  wire                 s_claim,
  input  wire                 s_valid,
  input  wire [3:0]           s_dtype,
  input  wire [3:0]           s_op,
  input  wire                 s_start,
  input  wire                 s_compare,
  input  wire                 s_bank,
  input  wire [ADDR_W-1:0]    s_addr,
  input  wire [DATA_W-1:0]    s_data,
  input  wire                 s_last,
  input  wire [ID_W-1:0]      s_id,
  output wire                 float_busy,

  output wire                 m_sum_valid,
  output wire                 m_sum_bank,
  output wire [ADDR_W-1:0]    m_sum_addr,
  output wire [DATA_W-1:0]    m_sum_data,
  output wire                 m_sum_last,
  output wire [ID_W-1:0]      m_sum_id,
  output wire [DATA_W/32-1:0] m_sum_diff,

  input  wire                 tx_valid,
  output wire                 tx_ready,
  input  wire                 tx_bank,
  input  wire [ADDR_W-1:0]    tx_addr,
  output wire                 tx_rd_valid,
  output wire [DATA_W-1:0]    tx_rd_data
);

  logic              a_valid_q, a_start_q, a_compare_q, a_bank_q, a_last_q;
  logic [3:0]        a_dtype_q, a_op_q;
  logic [ADDR_W-1:0] a_addr_q;
  logic [ID_W-1:0]   a_id_q;
  logic [DATA_W-1:0] a_data_q;
  wire  [DATA_W-1:0] old;
  wire               alu_busy;
  assign float_busy = alu_busy || (a_valid_q && !a_compare_q && FLOAT != 0
                                   && inc_pkg::is_float(a_dtype_q));

  inc_slot_ram #(.DATA_W(DATA_W), .DEPTH(DEPTH)) u_ram (
    .clk(clk), .rst(rst),
    .wr_en(m_sum_valid), .wr_bank(m_sum_bank), .wr_addr(m_sum_addr), .wr_data(m_sum_data),
    .rmw_claim(s_claim), .rmw_en(s_valid && !s_start), .rmw_bank(s_bank),
    .rmw_addr(s_addr), .rmw_data(old),
    .tx_valid(tx_valid), .tx_ready(tx_ready), .tx_bank(tx_bank), .tx_addr(tx_addr),
    .tx_rd_valid(tx_rd_valid), .tx_rd_data(tx_rd_data));

  inc_alu #(.DATA_W(DATA_W), .FLOAT(FLOAT), .TAG_W(ID_W + ADDR_W + 2)) u_alu (
    .clk(clk), .rst(rst),
    .s_valid(a_valid_q), .s_dtype(a_dtype_q), .s_op(a_op_q), .s_start(a_start_q),
    .s_compare(a_compare_q), .s_tag({a_id_q, a_last_q, !a_bank_q, a_addr_q}),
    .s_a(old), .s_x(a_data_q),
    .float_busy(alu_busy),
    .m_valid(m_sum_valid), .m_tag({m_sum_id, m_sum_last, m_sum_bank, m_sum_addr}),
    .m_data(m_sum_data),
    .m_diff(m_sum_diff));

  always_ff @(posedge clk) begin
    a_valid_q   <= s_valid;
    a_dtype_q   <= s_dtype;
    a_op_q      <= s_op;
    a_start_q   <= s_start;
    a_compare_q <= s_compare;
    a_bank_q    <= s_bank;
    a_addr_q    <= s_addr;
    a_data_q    <= s_data;
    a_last_q    <= s_last;
    a_id_q      <= s_id;
    if (rst) a_valid_q <= 1'b0;
  end

`ifdef INC_ASSERT
  // The beats of the last clocks, and where each is being written.
  localparam int PAST = 8;
  logic [PAST-1:0]        p_valid_q, p_bank_q;
  logic [PAST*ADDR_W-1:0] p_addr_q;
  logic [PAST*4-1:0]      p_left_q;          // clocks for which nobody may read there
  always_ff @(posedge clk) begin
    p_valid_q <= {p_valid_q[PAST-2:0], s_valid};
    p_bank_q  <= {p_bank_q[PAST-2:0], !s_bank};
    p_addr_q  <= {p_addr_q[(PAST-1)*ADDR_W-1:0], s_addr};
    for (int i = 1; i < PAST; i++) p_left_q[4*i +: 4] <= p_left_q[4*i-4 +: 4] - 4'd1;
    p_left_q[3:0] <= inc_pkg::sum_distance(s_dtype, s_op, s_compare, FLOAT != 0) - 4'd1;
    for (int i = 0; i < PAST; i++) begin
      if (!rst && p_valid_q[i] && p_left_q[4*i +: 4] != 4'd0 && !p_left_q[4*i+3]) begin
        if (s_valid && !s_start)
          assert (!(s_addr == p_addr_q[ADDR_W*i +: ADDR_W] && s_bank == p_bank_q[i]));
        if (tx_valid && tx_ready)
          assert (!(tx_addr == p_addr_q[ADDR_W*i +: ADDR_W] && tx_bank == p_bank_q[i]));
      end
    end
    if (rst) p_valid_q <= '0;
  end
`endif

endmodule

`default_nettype wire
