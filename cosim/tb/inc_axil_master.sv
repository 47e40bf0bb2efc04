// AXI4-Lite master: one access at a time, in the order in which the link hands them over.
//
// Latency: address and data of a write leave together, one clock after the link has the request.
// Throughput: one access in flight; the next is asked for when the answer is in.
// Back-pressure: each channel holds valid until ready.
// Reset: synchronous, active high.
// Parameters: ADDR_W 1..31 bits of a byte address.
`default_nettype none

module inc_axil_master #(
  parameter int ADDR_W = 16
) (
  input  wire logic              clk,
  input  wire logic              rst,
  input  wire logic [63:0]       handle,
  output logic [ADDR_W-1:0]      m_axil_awaddr,
  output logic                   m_axil_awvalid,
  input  wire logic              m_axil_awready,
  output logic [2:0]             m_axil_awprot,
  output logic [31:0]            m_axil_wdata,
  output logic [3:0]             m_axil_wstrb,
  output logic                   m_axil_wvalid,
  input  wire logic              m_axil_wready,
  input  wire logic [1:0]        m_axil_bresp,
  input  wire logic              m_axil_bvalid,
  output logic                   m_axil_bready,
  output logic [ADDR_W-1:0]      m_axil_araddr,
  output logic                   m_axil_arvalid,
  input  wire logic              m_axil_arready,
  output logic [2:0]             m_axil_arprot,
  input  wire logic [31:0]       m_axil_rdata,
  input  wire logic [1:0]        m_axil_rresp,
  input  wire logic              m_axil_rvalid,
  output logic                   m_axil_rready
);

  import "DPI-C" function bit inc_dpi_next_access(
    input longint handle, output bit is_write, output int unsigned addr, output int unsigned data);
  import "DPI-C" function void inc_dpi_end_access(
    input longint handle, input int unsigned data, input byte resp);

  logic        busy_q;
  bit          got;
  bit          is_write;
  int unsigned addr;
  int unsigned data;

  wire unused_ok = &{1'b0, addr[31:ADDR_W]};

  assign m_axil_awprot = 3'b000;
  assign m_axil_arprot = 3'b000;
  assign m_axil_wstrb  = 4'b1111;
  assign m_axil_bready = 1'b1;
  assign m_axil_rready = 1'b1;

  /* verilator lint_off BLKSEQ */
  always_ff @(posedge clk) begin
    if (m_axil_awready) m_axil_awvalid <= 1'b0;
    if (m_axil_wready)  m_axil_wvalid  <= 1'b0;
    if (m_axil_arready) m_axil_arvalid <= 1'b0;
    if (busy_q && m_axil_bvalid && !rst) begin
      inc_dpi_end_access(handle, 32'd0, {6'd0, m_axil_bresp});
      busy_q <= 1'b0;
    end
    if (busy_q && m_axil_rvalid && !rst) begin
      inc_dpi_end_access(handle, m_axil_rdata, {6'd0, m_axil_rresp});
      busy_q <= 1'b0;
    end
    if (!busy_q && !rst) begin
      got = inc_dpi_next_access(handle, is_write, addr, data);
      if (got) begin
        busy_q         <= 1'b1;
        m_axil_awvalid <= is_write;
        m_axil_wvalid  <= is_write;
        m_axil_arvalid <= !is_write;
        m_axil_awaddr  <= addr[ADDR_W-1:0];
        m_axil_araddr  <= addr[ADDR_W-1:0];
        m_axil_wdata   <= data;
      end
    end
    if (rst) begin
      busy_q         <= 1'b0;
      m_axil_awvalid <= 1'b0;
      m_axil_wvalid  <= 1'b0;
      m_axil_arvalid <= 1'b0;
    end
  end
  /* verilator lint_on BLKSEQ */

  always_ff @(posedge clk) begin
    if (!rst) begin
      a_answer_asked_for: assert (busy_q || (!m_axil_bvalid && !m_axil_rvalid))
        else $error("AXI4-Lite: answer without a request");
    end
  end

endmodule

`default_nettype wire
