// The register block and the counters, connected as in the engine, for csr_tb.cpp.
//
// Streams:       those of inc_csr_block, without the counters' own, and the pulses of inc_counters.
// Latency:       none of its own.
// Throughput:    that of the two.
// Back-pressure: that of the two.
// Reset:         synchronous.
// Source:        protocol.md 9 and 12.
`default_nettype none

module inc_csr_tb (
  input  wire           clk,
  input  wire           rst,
  input  wire           s_axil_awvalid,
  output wire           s_axil_awready,
  input  wire  [11:0]   s_axil_awaddr,
  input  wire           s_axil_wvalid,
  output wire           s_axil_wready,
  input  wire  [31:0]   s_axil_wdata,
  input  wire  [3:0]    s_axil_wstrb,
  output wire           s_axil_bvalid,
  input  wire           s_axil_bready,
  output wire  [1:0]    s_axil_bresp,
  input  wire           s_axil_arvalid,
  output wire           s_axil_arready,
  input  wire  [11:0]   s_axil_araddr,
  output wire           s_axil_rvalid,
  input  wire           s_axil_rready,
  output wire  [31:0]   s_axil_rdata,
  output wire  [1:0]    s_axil_rresp,
  output wire  [31:0]   cfg_tick_clocks,
  output wire           m_tbl_valid,
  input  wire           m_tbl_ready,
  output wire           m_tbl_write,
  output wire  [3:0]    m_tbl_id,
  output wire  [11:0]   m_tbl_index,
  output wire  [1023:0] m_tbl_wdata,
  input  wire           s_tbl_rsp_valid,
  input  wire  [1:0]    s_tbl_rsp_error,
  input  wire  [1023:0] s_tbl_rsp_rdata,
  input  wire  [39:0]   status_pipe_error,
  input  wire  [39:0]   status_pipe_drained,
  input  wire           stat_error_valid,
  input  wire  [7:0]    stat_error_kind,
  input  wire  [7:0]    stat_error_pipe,
  input  wire  [11:0]   stat_error_endpoint,
  input  wire  [23:0]   stat_error_psn,
  input  wire  [31:0]   stat_error_got,
  input  wire  [31:0]   stat_error_wanted,
  input  wire           stat_valid,
  input  wire  [7:0]    stat_verdict,
  input  wire  [31:0]   stat_event,
  output wire           irq
);

  wire        cnt_valid;
  wire        cnt_ready;
  wire [7:0]  cnt_index;
  wire        cnt_rsp_valid;
  wire [47:0] cnt_rsp_data;

  inc_csr_block #(
    .DATA_W   (256),
    .PORTS    (5),
    .ENDPOINTS(64),
    .PIPES    (40),
    .OUTS     (100),
    .POOL_KB  (128),
    .FAN_IN   (48),
    .MTU      (1024),
    .MODE2    (1),
    .MODE3    (1),
    .FLOAT    (0),
    .CUT_THROUGH(1)
  ) u_block (
    .clk                (clk),
    .rst                (rst),
    .s_axil_awvalid     (s_axil_awvalid),
    .s_axil_awready     (s_axil_awready),
    .s_axil_awaddr      (s_axil_awaddr),
    .s_axil_awprot      (3'd0),
    .s_axil_wvalid      (s_axil_wvalid),
    .s_axil_wready      (s_axil_wready),
    .s_axil_wdata       (s_axil_wdata),
    .s_axil_wstrb       (s_axil_wstrb),
    .s_axil_bvalid      (s_axil_bvalid),
    .s_axil_bready      (s_axil_bready),
    .s_axil_bresp       (s_axil_bresp),
    .s_axil_arvalid     (s_axil_arvalid),
    .s_axil_arready     (s_axil_arready),
    .s_axil_araddr      (s_axil_araddr),
    .s_axil_arprot      (3'd0),
    .s_axil_rvalid      (s_axil_rvalid),
    .s_axil_rready      (s_axil_rready),
    .s_axil_rdata       (s_axil_rdata),
    .s_axil_rresp       (s_axil_rresp),
    .cfg_tick_clocks    (cfg_tick_clocks),
    .m_tbl_valid        (m_tbl_valid),
    .m_tbl_ready        (m_tbl_ready),
    .m_tbl_write        (m_tbl_write),
    .m_tbl_id           (m_tbl_id),
    .m_tbl_index        (m_tbl_index),
    .m_tbl_wdata        (m_tbl_wdata),
    .s_tbl_rsp_valid    (s_tbl_rsp_valid),
    .s_tbl_rsp_error    (s_tbl_rsp_error),
    .s_tbl_rsp_rdata    (s_tbl_rsp_rdata),
    .m_cnt_valid        (cnt_valid),
    .m_cnt_ready        (cnt_ready),
    .m_cnt_index        (cnt_index),
    .s_cnt_rsp_valid    (cnt_rsp_valid),
    .s_cnt_rsp_data     (cnt_rsp_data),
    .status_pipe_error  (status_pipe_error),
    .status_pipe_drained(status_pipe_drained),
    .stat_bind_done     (stat_event[inc_spec_pkg::EVENT_BIND_DONE]),
    .stat_error_valid   (stat_error_valid),
    .stat_error_kind    (stat_error_kind),
    .stat_error_pipe    (stat_error_pipe),
    .stat_error_endpoint(stat_error_endpoint),
    .stat_error_psn     (stat_error_psn),
    .stat_error_got     (stat_error_got),
    .stat_error_wanted  (stat_error_wanted),
    .irq                (irq)
  );

  inc_counters u_counters (
    .clk         (clk),
    .rst         (rst),
    .stat_valid  (stat_valid),
    .stat_verdict(stat_verdict),
    .stat_event  (stat_event[inc_spec_pkg::EVENT_COUNT-1:0]),
    .s_rd_valid  (cnt_valid),
    .s_rd_ready  (cnt_ready),
    .s_rd_index  (cnt_index),
    .m_rd_valid  (cnt_rsp_valid),
    .m_rd_data   (cnt_rsp_data)
  );

endmodule

`default_nettype wire
