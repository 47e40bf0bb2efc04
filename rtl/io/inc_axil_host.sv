// AXI4-Lite from one request at a time: the registers' host.
//
// Streams:       s_* a request; rsp_* its answer, for one clock. m_axil_* the bus.
// Latency:       the bus has a request the clock after it is taken, rsp_* the answer the clock
//                after it is on the bus.
// Throughput:    one access at a time.
// Back-pressure: s_ready is 0 while one is under way. Nobody can stop rsp_*.
// Reset:         synchronous; no access under way.
// Parameters:    ADDR_W 3..32 bits of the address; TIMEOUT clocks after which a bus counts as dead.
//                Until it answers what it owes, every access is answered so.
// Source:        AMBA AXI4-Lite (IHI 0022).
`default_nettype none

module inc_axil_host #(
  parameter int ADDR_W  = 16,
  parameter int TIMEOUT = 65536
) (
  input  wire              clk,
  input  wire              rst,
  input  wire              s_valid,
  output wire              s_ready,
  input  wire              s_write,
  input  wire [ADDR_W-1:0] s_addr,
  input  wire [31:0]       s_wdata,
  output wire              rsp_valid,
  output wire              rsp_error,    // not OKAY
  output wire              rsp_timeout,
  output wire [31:0]       rsp_rdata,

  output wire              m_axil_awvalid,
  input  wire              m_axil_awready,
  output wire [ADDR_W-1:0] m_axil_awaddr,
  output wire [2:0]        m_axil_awprot,
  output wire              m_axil_wvalid,
  input  wire              m_axil_wready,
  output wire [31:0]       m_axil_wdata,
  output wire [3:0]        m_axil_wstrb,
  input  wire              m_axil_bvalid,
  output wire              m_axil_bready,
  input  wire [1:0]        m_axil_bresp,
  output wire              m_axil_arvalid,
  input  wire              m_axil_arready,
  output wire [ADDR_W-1:0] m_axil_araddr,
  output wire [2:0]        m_axil_arprot,
  input  wire              m_axil_rvalid,
  output wire              m_axil_rready,
  input  wire [31:0]       m_axil_rdata,
  input  wire [1:0]        m_axil_rresp
);

  localparam int TW = $clog2(TIMEOUT + 1);

  logic              owed_q;    // the bus owes an answer
  logic              asked_q;   // somebody waits for an answer
  logic              stale_q;   // what the bus owes is not what is waited for
  logic              aw_q, w_q, ar_q;
  logic [ADDR_W-1:0] addr_q;
  logic [31:0]       wdata_q, rdata_q;
  logic [TW-1:0]     left_q;
  logic              rsp_q, error_q, timeout_q;

  wire take   = s_valid && s_ready;
  wire answer = owed_q && (m_axil_bvalid || m_axil_rvalid);
  wire right  = answer && !stale_q;
  wire late   = asked_q && !right && left_q == '0;

  assign s_ready     = !asked_q;
  assign rsp_valid   = rsp_q;
  assign rsp_error   = error_q;
  assign rsp_timeout = timeout_q;
  assign rsp_rdata   = rdata_q;

  assign m_axil_awvalid = aw_q;
  assign m_axil_awaddr  = addr_q;
  assign m_axil_awprot  = 3'b000;
  assign m_axil_wvalid  = w_q;
  assign m_axil_wdata   = wdata_q;
  assign m_axil_wstrb   = 4'b1111;
  assign m_axil_bready  = owed_q;
  assign m_axil_arvalid = ar_q;
  assign m_axil_araddr  = addr_q;
  assign m_axil_arprot  = 3'b000;
  assign m_axil_rready  = owed_q;

  always_ff @(posedge clk) begin
    rsp_q <= 1'b0;
    if (m_axil_awready) aw_q <= 1'b0;
    if (m_axil_wready) w_q <= 1'b0;
    if (m_axil_arready) ar_q <= 1'b0;
    if (asked_q && left_q != '0) left_q <= left_q - TW'(1);
    if (take) begin
      asked_q <= 1'b1;
      left_q  <= owed_q ? '0 : TW'(TIMEOUT);
      if (!owed_q) begin
        owed_q  <= 1'b1;
        aw_q    <= s_write;
        w_q     <= s_write;
        ar_q    <= !s_write;
        addr_q  <= s_addr;
        wdata_q <= s_wdata;
      end
    end
    if (answer) begin
      owed_q  <= 1'b0;
      stale_q <= 1'b0;
      rdata_q <= m_axil_rdata;
    end
    if (late && owed_q && !answer) stale_q <= 1'b1;
    if (asked_q && (right || late)) begin
      asked_q   <= 1'b0;
      rsp_q     <= 1'b1;
      timeout_q <= late;
      error_q   <= m_axil_bvalid ? m_axil_bresp != 2'b00 : m_axil_rresp != 2'b00;
    end
    if (rst) begin
      owed_q  <= 1'b0;
      asked_q <= 1'b0;
      stale_q <= 1'b0;
      aw_q    <= 1'b0;
      w_q     <= 1'b0;
      ar_q    <= 1'b0;
      rsp_q   <= 1'b0;
    end
  end

endmodule

`default_nettype wire
