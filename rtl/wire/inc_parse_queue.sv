// The queue at an output of inc_parse: a word that finds it empty is at the output at once.
//
// Streams:       s_* in, without ready: the caller keeps to count. m_* out. next_*: the word that
//                m_* shows behind the one that it shows now, if it has come.
// Latency:       0 clocks while it is empty (s_* to m_* combinational: s_* are registers or a few
//                levels behind some), else the word waits for those before it.
// Throughput:    1 word per clock in and out at the same time, at any fill.
// Back-pressure: a word that is not taken at once is kept; count: words kept, 0..DEPTH.
// Reset:         synchronous, empties. The memory is not reset.
// Parameters:    DATA_W 1.. ; DEPTH 2.. a power of two.
// Source:        docs/microarchitecture.md (the header is read in the clock after its beat).
`default_nettype none

module inc_parse_queue #(
  parameter int DATA_W = 8,
  parameter int DEPTH  = 16
) (
  input  wire                       clk,
  input  wire                       rst,
  input  wire                       s_valid,
  input  wire [DATA_W-1:0]          s_data,
  output wire                       m_valid,
  input  wire                       m_ready,
  output wire [DATA_W-1:0]          m_data,
  output wire                       next_valid,
  output wire [DATA_W-1:0]          next_data,
  output wire [$clog2(DEPTH+1)-1:0] count
);

  localparam int AW = $clog2(DEPTH);
  localparam int CW = $clog2(DEPTH+1);

  logic [DATA_W-1:0] mem [DEPTH];
  logic [AW-1:0]     wr_q, rd_q;
  logic [CW-1:0]     count_q, more, less;
  logic              held_q;             // out_q holds the oldest word
  logic [DATA_W-1:0] out_q;
  logic              stored_q, stored_d; // the memory holds words behind it

  wire free   = !held_q || m_ready;
  wire kept   = s_valid && (held_q || !m_ready);
  wire direct = s_valid && !stored_q && (held_q == m_ready); // kept in out_q
  wire fetch  = stored_q && free;
  wire store  = kept && !direct;
  wire pop    = held_q && m_ready;

  assign m_valid    = held_q || s_valid;
  assign m_data     = held_q ? out_q : s_data;
  assign next_valid = stored_q || (held_q && s_valid);
  assign next_data  = stored_q ? mem[rd_q] : s_data;
  assign count      = count_q;

  // As in inc_fifo: one more and one less stand by.
  always_comb begin
    for (int i = 0; i < CW; i++) begin
      more[i] = count_q[i] ^ (&(count_q | ({CW{1'b1}} << i)));
      less[i] = count_q[i] ^ !(|(count_q & ~({CW{1'b1}} << i)));
    end
  end

  // The last stored word leaves and none comes: what is left is the one in out_q.
  always_comb begin
    stored_d = stored_q;
    if (store) stored_d = 1'b1;
    else if (fetch) stored_d = count_q > CW'(2);
  end

  always_ff @(posedge clk) begin
    if (store) mem[wr_q] <= s_data;
  end

  always_ff @(posedge clk) begin
    if (free) out_q <= stored_q ? mem[rd_q] : s_data;
    held_q   <= fetch || direct || (held_q && !m_ready);
    stored_q <= stored_d;
    if (store) wr_q <= wr_q + AW'(1);
    if (fetch) rd_q <= rd_q + AW'(1);
    if (kept && !pop) count_q <= more;
    if (pop && !kept) count_q <= less;
    if (rst) begin
      held_q   <= 1'b0;
      stored_q <= 1'b0;
      wr_q     <= '0;
      rd_q     <= '0;
      count_q  <= '0;
    end
  end

`ifdef INC_ASSERT
  initial begin
    assert (DEPTH >= 2 && (DEPTH & (DEPTH - 1)) == 0);
  end
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!stored_q || held_q);
      assert (stored_q == (count_q > CW'(1)));
      assert (!kept || pop || count_q != CW'(DEPTH));
    end
  end
`endif

endmodule

`default_nettype wire
