// Ready/valid register slice: cuts every combinational path between its two sides.
//
// Streams:       s_* in, m_* out, the same word.
// Latency:       1 clock.
// Throughput:    1 word per clock.
// Back-pressure: s_ready is a register: it falls one clock after m_ready did, the word that arrives
//                meanwhile waits in a second register.
// Reset:         synchronous, empties both registers. Data registers are not reset.
// Parameters:    DATA_W 1.. bits of the word.
// Source:        docs/architecture.md "RTL" (no combinational path from a ready to a valid).
`default_nettype none

module inc_skid #(
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

  logic              ready_q, ready_d;    // the spare register is free
  logic              valid_q, valid_d;
  logic [DATA_W-1:0] data_q, data_d;
  logic [DATA_W-1:0] spare_q, spare_d;

  assign s_ready = ready_q;
  assign m_valid = valid_q;
  assign m_data  = data_q;

  always_comb begin
    ready_d = ready_q;
    valid_d = valid_q;
    data_d  = data_q;
    spare_d = spare_q;
    if (ready_q) begin
      // s_data is parked whenever the spare is free: it counts only if ready_d falls.
      spare_d = s_data;
    end
    if (m_ready || !valid_q) begin
      data_d  = ready_q ? s_data : spare_q;
      valid_d = s_valid || !ready_q;
      ready_d = 1'b1;
    end else if (s_valid && ready_q) begin
      ready_d = 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    data_q  <= data_d;
    spare_q <= spare_d;
  end

  // keep: a wide word may be cut into slices that go in step, each with control of its own, which
  // synthesis would else make one again.
  (* keep *) always_ff @(posedge clk) begin
    ready_q <= ready_d;
    valid_q <= valid_d;
    if (rst) begin
      ready_q <= 1'b1;
      valid_q <= 1'b0;
    end
  end

`ifdef INC_ASSERT
  logic              f_past_q;
  logic              f_stall_q;
  logic [DATA_W-1:0] f_data_q;
  always_ff @(posedge clk) begin
    f_past_q  <= !rst;
    f_stall_q <= m_valid && !m_ready && !rst;
    f_data_q  <= m_data;
    if (!rst && f_past_q) begin
      assert (ready_q || valid_q); // the spare fills only behind a full output
      if (f_stall_q) assert (m_valid && m_data == f_data_q);
    end
  end
`endif

endmodule

`default_nettype wire
