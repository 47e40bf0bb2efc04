// Learning bridge for the frames that are not the engine's: says where each one goes.
//
// Streams:       s_axis_* in, tid the port it came from. m_axis_* out, the same frame, with a bit in
//                m_mask for each port it is to leave by: the one where its destination was last seen,
//                or, not seen or a group address, all but its own. A frame that would leave where it
//                came from is taken and forgotten.
// Latency:       3 clocks.
// Throughput:    1 word per clock, and 2 clocks a frame.
// Back-pressure: s_axis_tready is 0 while the frame before waits.
// Reset:         synchronous; forgets what it has learned.
// Parameters:    PORTS 2..64; ADDRESSES 2.., a power of two: what it remembers, the oldest goes
//                first.
// Source:        docs/boards.md
`default_nettype none

module inc_l2_forward #(
  parameter int PORTS     = 4,
  parameter int ADDRESSES = 8
) (
  input  wire             clk,
  input  wire             rst,

  input  wire [63:0]      s_axis_tdata,
  input  wire [7:0]       s_axis_tkeep,
  input  wire             s_axis_tvalid,
  output wire             s_axis_tready,
  input  wire             s_axis_tlast,
  input  wire [7:0]       s_axis_tid,

  output wire [63:0]      m_axis_tdata,
  output wire [7:0]       m_axis_tkeep,
  output wire             m_axis_tvalid,
  input  wire             m_axis_tready,
  output wire             m_axis_tlast,
  output wire [PORTS-1:0] m_mask
);

  localparam int AW = $clog2(ADDRESSES);

  typedef enum logic [1:0] {
    FIRST, // takes the first word
    LOOK,  // the second is there: both addresses are known
    SEND,  // the first leaves
    REST
  } state_e;

  state_e           state_q, state_d;
  logic [63:0]      first_q;
  logic [PORTS-1:0] mask_q, mask_d;
  logic [47:0]      mac_q  [ADDRESSES];
  logic [PORTS-1:0] at_q   [ADDRESSES]; // one bit, or none: not in use
  logic [AW-1:0]    oldest_q;

  // Byte 0 of an address is in the low bits, as in tdata.
  wire [47:0]       dst = first_q[47:0];
  wire [47:0]       src = {s_axis_tdata[31:0], first_q[63:48]};
  wire [PORTS-1:0]  own = PORTS'(1) << s_axis_tid;
  logic [PORTS-1:0] found;
  logic             known; // the source has an entry

  always_comb begin
    found = '0;
    known = 1'b0;
    for (int i = 0; i < ADDRESSES; i++) begin
      if (mac_q[i] == dst) found = found | at_q[i];
      if (mac_q[i] == src && at_q[i] != '0) known = 1'b1;
    end
  end

  wire look = state_q == LOOK && s_axis_tvalid;

  always_comb begin
    state_d = state_q;
    mask_d  = mask_q;
    case (state_q)
      FIRST: if (s_axis_tvalid && !s_axis_tlast) state_d = LOOK; // less than 14 bytes: forgotten
      LOOK: if (s_axis_tvalid) begin
        state_d = SEND;
        mask_d  = ((found == '0 || dst[0]) ? '1 : found) & ~own;
        if (mask_d == '0) state_d = REST; // only to be taken to its end
      end
      SEND: if (m_axis_tready) state_d = REST;
      default: if (s_axis_tvalid && s_axis_tready && s_axis_tlast) state_d = FIRST;
    endcase
  end

  always_ff @(posedge clk) begin
    state_q <= state_d;
    mask_q  <= mask_d;
    if (state_q == FIRST) first_q <= s_axis_tdata;
    if (look && !src[0]) begin
      for (int i = 0; i < ADDRESSES; i++) begin
        if (known ? (mac_q[i] == src && at_q[i] != '0) : oldest_q == AW'(i)) begin
          mac_q[i] <= src;
          at_q[i]  <= own;
        end
      end
      if (!known) oldest_q <= oldest_q + AW'(1);
    end
    if (rst) begin
      state_q  <= FIRST;
      oldest_q <= '0;
      for (int i = 0; i < ADDRESSES; i++) at_q[i] <= '0;
    end
  end

  wire rest = state_q == REST;

  assign s_axis_tready = state_q == FIRST || (rest && (m_axis_tready || mask_q == '0));
  assign m_axis_tvalid = state_q == SEND || (rest && s_axis_tvalid && mask_q != '0);
  assign m_axis_tdata  = rest ? s_axis_tdata : first_q;
  assign m_axis_tkeep  = rest ? s_axis_tkeep : 8'hff;
  assign m_axis_tlast  = rest && s_axis_tlast;
  assign m_mask        = mask_q;

endmodule

`default_nettype wire
