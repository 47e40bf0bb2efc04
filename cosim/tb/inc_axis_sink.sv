// Takes frames from an AXI4-Stream, hands them to the link and checks the stream's law.
//
// Streams: s_axis_* in, byte 0 of a frame is tdata[7:0].
// Latency: a beat is handed over in the clock it is accepted. Throughput: a beat a clock.
// Back-pressure: tready is a register, low with the probability that the link names for this
//   stream, drawn every clock, whatever valid does.
// Checks: once valid, nothing changes until ready; tkeep is contiguous, not empty, and full but on
//   the last beat. A violation is an error of the simulation, which ends it.
// Reset: synchronous, active high.
// Parameters: DATA_W 64..4096, a power of two. STREAM 0 m_axis_tx, 1 m_axis_bypass (frame_out.stream).
`default_nettype none

module inc_axis_sink #(
  parameter int DATA_W = 512,
  parameter int STREAM = 0
) (
  input  wire logic                clk,
  input  wire logic                rst,
  input  wire logic [63:0]         handle,
  input  wire logic [DATA_W-1:0]   s_axis_tdata,
  input  wire logic [DATA_W/8-1:0] s_axis_tkeep,
  input  wire logic                s_axis_tvalid,
  output logic                     s_axis_tready,
  input  wire logic                s_axis_tlast,
  input  wire logic                s_axis_tuser,
  input  wire logic [7:0]          s_axis_tport   // tdest or tid: the port, held over a frame
);

  import "DPI-C" function longint inc_dpi_param(input longint handle, input int which);
  import "DPI-C" function void inc_dpi_take_beat(
    input longint handle, input int stream,
    input bit [DATA_W-1:0] data, input bit [DATA_W/8-1:0] keep,
    input bit last, input bit user, input byte tport);

  localparam int KEEP_W = DATA_W / 8;

  logic [31:0]         random_q;
  logic [31:0]         stall_below_q;
  logic                capture_q;
  logic                stalled_q;   // valid was there without ready: nothing may change
  logic                inside_q;    // between the first and the last beat of a frame
  logic [DATA_W-1:0]   data_q;
  logic [KEEP_W-1:0]   keep_q;
  logic [9:0]          flags_q;     // last, user, port of the stalled beat
  logic [7:0]          port_q;      // port of the frame's first beat

  always_ff @(posedge clk) begin
    random_q      <= inc_tb_pkg::xorshift32(random_q);
    s_axis_tready <= random_q >= stall_below_q;

    stalled_q <= s_axis_tvalid && !s_axis_tready;
    if (s_axis_tvalid && !s_axis_tready) begin
      data_q  <= s_axis_tdata;
      keep_q  <= s_axis_tkeep;
      flags_q <= {s_axis_tlast, s_axis_tuser, s_axis_tport};
    end
    if (s_axis_tvalid && s_axis_tready) begin
      inside_q <= !s_axis_tlast;
      port_q   <= s_axis_tport;
      if (capture_q && !rst) begin
        inc_dpi_take_beat(handle, STREAM, s_axis_tdata, s_axis_tkeep, s_axis_tlast,
                          s_axis_tuser, s_axis_tport);
      end
    end

    if (rst) begin
      s_axis_tready <= 1'b0;
      stalled_q     <= 1'b0;
      inside_q      <= 1'b0;
      random_q      <= inc_tb_pkg::seed32(inc_dpi_param(handle, inc_tb_pkg::PARAM_SEED), 32'h0000_0100 + STREAM);
      stall_below_q <= inc_tb_pkg::ppm_to_threshold(inc_dpi_param(handle,
        (STREAM == 0) ? inc_tb_pkg::PARAM_BACKPRESSURE_PPM : inc_tb_pkg::PARAM_BYPASS_PPM));
      capture_q     <= inc_dpi_param(handle, inc_tb_pkg::PARAM_CAPTURE) != 0;
    end
  end

  // The stream's law. Immediate, so that every tool reads it.
  always_ff @(posedge clk) begin
    if (!rst) begin
      if (stalled_q) begin
        a_valid_held: assert (s_axis_tvalid)
          else $error("stream %0d: valid fell before ready", STREAM);
        a_beat_held: assert (!s_axis_tvalid || (data_q == s_axis_tdata && keep_q == s_axis_tkeep
                             && flags_q == {s_axis_tlast, s_axis_tuser, s_axis_tport}))
          else $error("stream %0d: beat changed before ready", STREAM);
      end
      if (s_axis_tvalid && s_axis_tready) begin
        a_keep: assert (s_axis_tkeep[0] && (s_axis_tkeep & (s_axis_tkeep + 1'b1)) == 0
                        && (s_axis_tlast || (&s_axis_tkeep)))
          else $error("stream %0d: tkeep %h with tlast %b", STREAM, s_axis_tkeep, s_axis_tlast);
        a_port: assert (!inside_q || port_q == s_axis_tport)
          else $error("stream %0d: port changed within a frame", STREAM);
      end
    end
  end

endmodule

`default_nettype wire
