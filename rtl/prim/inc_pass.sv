// Ready/valid register that only a word passes through which is not taken at once.
//
// Streams:       s_* in, m_* out, the same word.
// Latency:       0 clocks, else until it is taken: s_* to m_* is combinational, m_ready to s_ready
//                is not.
// Throughput:    1 word per clock.
// Back-pressure: s_ready is a register: it falls one clock after a word was not taken, which waits
//                inside.
// Reset:         synchronous, empties. The data register is not reset.
// Parameters:    DATA_W 1.. bits of the word.
// Source:        docs/microarchitecture.md "Cutting through".
`default_nettype none

module inc_pass #(
  parameter int DATA_W = 8
) (
  input  wire              clk,
  input  wire              rst,
  input  wire              s_valid,
  output wire              s_ready,
  input  wire [DATA_W-1:0] s_data,
  output wire              m_valid,
  input  wire              m_ready,
  output wire [DATA_W-1:0] m_data
);

  // A copy of held_q for each 64 bits (keep: synthesis would leave only one of equal registers),
  // and one for the control.
  localparam int COPIES = (DATA_W + 63) / 64;

  logic              held_q, held_d;
  logic [COPIES-1:0] held_copy_q;
  logic [DATA_W-1:0] data_q;
  logic [DATA_W-1:0] out;

  assign s_ready = !held_q;
  assign m_valid = held_q || s_valid;
  assign m_data  = out;
  assign held_d  = !rst && m_valid && !m_ready;

  (* keep *) always_ff @(posedge clk) begin
    held_q <= held_d;
  end

  generate
    for (genvar c = 0; c < COPIES; c++) begin : gen_copies
      (* keep *) always_ff @(posedge clk) begin
        held_copy_q[c] <= held_d;
      end
      localparam int W = (DATA_W - c*64 < 64) ? DATA_W - c*64 : 64;
      assign out[c*64 +: W] = held_copy_q[c] ? data_q[c*64 +: W] : s_data[c*64 +: W];
      always_ff @(posedge clk) begin
        if (!held_copy_q[c]) data_q[c*64 +: W] <= s_data[c*64 +: W];
      end
    end
  endgenerate

`ifdef INC_ASSERT
  logic              f_past_q;
  logic              f_stall_q;
  logic [DATA_W-1:0] f_data_q;
  always_ff @(posedge clk) begin
    f_past_q  <= !rst;
    f_stall_q <= m_valid && !m_ready && !rst;
    f_data_q  <= m_data;
    if (!rst && f_past_q && f_stall_q) assert (m_valid && m_data == f_data_q);
  end
`endif

endmodule

`default_nettype wire
