// Drives the frames that the link hands over onto an AXI4-Stream, in order, none before its time.
//
// Streams: m_axis_* out, frames without FCS, byte 0 of a frame is tdata[7:0]; tkeep is full but on
//   the last beat; tuser on the last beat is the frame's MAC error flag; tid its ingress port.
// Latency: one clock from the link to the port. Throughput: a beat a clock when frames are there.
// Back-pressure: a beat is held until ready, as the ready/valid law wants.
// Pacing: IDLE draws before every beat with probability idle_ppm; between frames a pause of
//   pacing 0: none; 1 (gap): 0..15 clocks, even; 2 (burst): none but after every eighth frame,
//   then 0..511 clocks.
// Reset: synchronous, active high; random numbers restart from the seed.
// Parameters: DATA_W 64..4096, a power of two.
// The handle names the instance of the link (cosim/dpi); the same seed gives the same clocks.
`default_nettype none

module inc_axis_source #(
  parameter int DATA_W = 512
) (
  input  wire logic                clk,
  input  wire logic                rst,
  input  wire logic [63:0]         handle,
  output logic [DATA_W-1:0]        m_axis_tdata,
  output logic [DATA_W/8-1:0]      m_axis_tkeep,
  output logic                     m_axis_tvalid,
  input  wire logic                m_axis_tready,
  output logic                     m_axis_tlast,
  output logic                     m_axis_tuser,
  output logic [7:0]               m_axis_tid
);

  import "DPI-C" function longint inc_dpi_param(input longint handle, input int which);
  import "DPI-C" function bit inc_dpi_step_source(
    input longint handle, input bit accepted, input bit want,
    output bit [DATA_W-1:0] data, output bit [DATA_W/8-1:0] keep,
    output bit last, output bit user, output byte tid);

  logic [31:0] random_q;
  logic [31:0] idle_below_q;  // a draw below this idles; 2^32 is one
  logic [31:0] pacing_q;
  logic [2:0]  frame_q;       // frames since the last pause, mod 8
  logic [8:0]  pause_q;       // clocks left of the pause between two frames

  logic                accepted;
  logic                want;
  bit                  got;
  bit [DATA_W-1:0]     data;
  bit [DATA_W/8-1:0]   keep;
  bit                  last;
  bit                  user;
  byte                 tid;

  // The link's state moves with the call, so everything here is one clocked process with blocking
  // work variables; only the outputs and the registers are non-blocking.
  /* verilator lint_off BLKSEQ */
  always_ff @(posedge clk) begin
    random_q <= inc_tb_pkg::xorshift32(random_q);
    accepted = m_axis_tvalid && m_axis_tready;
    if (pause_q != 0) begin
      pause_q <= pause_q - 9'd1;
    end
    want = pause_q == 0 && random_q >= idle_below_q;
    if (accepted && m_axis_tlast) begin
      frame_q <= frame_q + 3'd1;
      if (pacing_q == inc_tb_pkg::PACING_GAP && random_q[19:16] != 0) begin
        pause_q <= {5'd0, random_q[19:16]};
        want = 1'b0;
      end
      if (pacing_q == inc_tb_pkg::PACING_BURST && frame_q == 3'd7 && random_q[24:16] != 0) begin
        pause_q <= random_q[24:16];
        want = 1'b0;
      end
    end
    if (!rst && (accepted || (!m_axis_tvalid && want))) begin
      got = inc_dpi_step_source(handle, accepted, want, data, keep, last, user, tid);
      m_axis_tvalid <= got;
      if (got) begin
        m_axis_tdata <= data;
        m_axis_tkeep <= keep;
        m_axis_tlast <= last;
        m_axis_tuser <= user;
        m_axis_tid   <= tid;
      end
    end
    if (rst) begin
      m_axis_tvalid <= 1'b0;
      frame_q       <= 3'd0;
      pause_q       <= 9'd0;
      random_q      <= inc_tb_pkg::seed32(inc_dpi_param(handle, inc_tb_pkg::PARAM_SEED), 32'h0000_0001);
      idle_below_q  <= inc_tb_pkg::ppm_to_threshold(inc_dpi_param(handle, inc_tb_pkg::PARAM_IDLE_PPM));
      pacing_q      <= 32'(inc_dpi_param(handle, inc_tb_pkg::PARAM_PACING));
    end
  end
  /* verilator lint_on BLKSEQ */

endmodule

`default_nettype wire
