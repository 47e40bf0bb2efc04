// One stream of the ports' frames, in turn, frame by frame.
//
// Streams:       s_axis_*: a stream a port, side by side. m_axis_*: all of them, tid the port.
// Latency:       none behind a frame of the same port; a clock before each frame.
// Throughput:    1 word per clock, and 1 clock a frame.
// Back-pressure: s_axis_tready of the port whose turn it is follows m_axis_tready.
// Reset:         synchronous; port 0 is first.
// Parameters:    PORTS 1..64.
// Source:        docs/boards.md
`default_nettype none

module inc_rx_merge #(
  parameter int PORTS = 4
) (
  input  wire                clk,
  input  wire                rst,

  input  wire [PORTS*64-1:0] s_axis_tdata,
  input  wire [PORTS*8-1:0]  s_axis_tkeep,
  input  wire [PORTS-1:0]    s_axis_tvalid,
  output wire [PORTS-1:0]    s_axis_tready,
  input  wire [PORTS-1:0]    s_axis_tlast,
  input  wire [PORTS-1:0]    s_axis_tuser,

  output wire [63:0]         m_axis_tdata,
  output wire [7:0]          m_axis_tkeep,
  output wire                m_axis_tvalid,
  input  wire                m_axis_tready,
  output wire                m_axis_tlast,
  output wire                m_axis_tuser,
  output wire [7:0]          m_axis_tid
);

  localparam int IDX_W = (PORTS > 1) ? $clog2(PORTS) : 1;

  logic             taken_q;         // it is somebody's turn
  logic [IDX_W-1:0] turn_q;
  wire              any;
  wire [PORTS-1:0]  unused_grant;
  wire [IDX_W-1:0]  next;

  inc_rr_arb #(.N(PORTS)) u_arb (
    .clk(clk), .rst(rst), .req(s_axis_tvalid), .advance(!taken_q && any),
    .grant_valid(any), .grant(unused_grant), .grant_idx(next));

  always_ff @(posedge clk) begin
    if (!taken_q) begin
      taken_q <= any;
      turn_q  <= next;
    end else if (m_axis_tvalid && m_axis_tready && m_axis_tlast) begin
      taken_q <= 1'b0;
    end
    if (rst) taken_q <= 1'b0;
  end

  assign m_axis_tdata  = s_axis_tdata[64*turn_q +: 64];
  assign m_axis_tkeep  = s_axis_tkeep[8*turn_q +: 8];
  assign m_axis_tvalid = taken_q && s_axis_tvalid[turn_q];
  assign m_axis_tlast  = s_axis_tlast[turn_q];
  assign m_axis_tuser  = s_axis_tuser[turn_q];
  assign m_axis_tid    = 8'(turn_q);
  assign s_axis_tready = (taken_q && m_axis_tready) ? PORTS'(1) << turn_q : '0;

endmodule

`default_nettype wire
