// IncEngine: in-network collectives on RoCEv2 frames, Mode-II and Mode-III.
//
// Streams:       s_axis_rx_*     frames of all ports, without FCS; tid ingress port; tuser on the
//                last beat: the MAC saw an error.
//                m_axis_tx_*     frames to send, without FCS and not padded to 60 bytes; tdest
//                                egress port; tuser on the last beat: make the FCS bad.
//                                m_axis_bypass_* frames that are not the engine's, whole and
//                                unchanged; tid their ingress port.
//                s_axil_*        32-bit AXI4-Lite registers (rtl/spec/inc_csr.rdl).
// Latency:       docs/microarchitecture.md, measured by `epic bench rtl`.
// Throughput:    one beat per clock each way.
// Back-pressure: m_axis_tx_tready and m_axis_bypass_tready never reach s_axis_rx_tready: results
//                wait in their slots, ACKs in their records, bypass frames that find no room are
//                dropped and counted.
// Reset:         synchronous, active high; tables are invalid after it.
// Parameters:    DATA_W 64..512 (powers of two; larger elaborate but are not verified yet); PORTS
//                1..64; ENDPOINTS 2..4096, PIPES 2..256, POOL_KB 4.., powers of two; FAN_IN
//                2..64; MTU 256..4096, power of two; MODE2, MODE3, FLOAT, CUT_THROUGH 0 or 1:
//                hardware that is left out or built in.
//                docs/configuration.md has a table.
// Source:        protocol.md 3 to 6, 9 to 11; the paper's IncEngine.
// Byte 0 of a frame is tdata[7:0].
`default_nettype none

module inc_engine #(
  parameter int DATA_W      = inc_build_pkg::DATA_W,
  parameter int PORTS       = inc_build_pkg::PORTS,
  parameter int ENDPOINTS   = inc_build_pkg::ENDPOINTS,
  parameter int PIPES       = inc_build_pkg::PIPES,
  parameter int POOL_KB     = inc_build_pkg::POOL_KB,
  parameter int FAN_IN      = inc_build_pkg::FAN_IN,
  parameter int MTU         = inc_build_pkg::MTU,
  parameter int MODE2       = inc_build_pkg::MODE2,
  parameter int MODE3       = inc_build_pkg::MODE3,
  parameter int FLOAT       = inc_build_pkg::FLOAT,
  parameter int CUT_THROUGH = inc_build_pkg::CUT_THROUGH
) (
  input  wire                clk,
  input  wire                rst,

  input  wire [DATA_W-1:0]   s_axis_rx_tdata,
  input  wire [DATA_W/8-1:0] s_axis_rx_tkeep,
  input  wire                s_axis_rx_tvalid,
  output wire                s_axis_rx_tready,
  input  wire                s_axis_rx_tlast,
  input  wire                s_axis_rx_tuser,
  input  wire [7:0]          s_axis_rx_tid,

  output wire [DATA_W-1:0]   m_axis_tx_tdata,
  output wire [DATA_W/8-1:0] m_axis_tx_tkeep,
  output wire                m_axis_tx_tvalid,
  input  wire                m_axis_tx_tready,
  output wire                m_axis_tx_tlast,
  output wire                m_axis_tx_tuser,
  output wire [7:0]          m_axis_tx_tdest,

  output wire [DATA_W-1:0]   m_axis_bypass_tdata,
  output wire [DATA_W/8-1:0] m_axis_bypass_tkeep,
  output wire                m_axis_bypass_tvalid,
  input  wire                m_axis_bypass_tready,
  output wire                m_axis_bypass_tlast,
  output wire [7:0]          m_axis_bypass_tid,

  input  wire [15:0]         s_axil_awaddr,
  input  wire [2:0]          s_axil_awprot,
  input  wire                s_axil_awvalid,
  output wire                s_axil_awready,
  input  wire [31:0]         s_axil_wdata,
  input  wire [3:0]          s_axil_wstrb,
  input  wire                s_axil_wvalid,
  output wire                s_axil_wready,
  output wire [1:0]          s_axil_bresp,
  output wire                s_axil_bvalid,
  input  wire                s_axil_bready,
  input  wire [15:0]         s_axil_araddr,
  input  wire [2:0]          s_axil_arprot,
  input  wire                s_axil_arvalid,
  output wire                s_axil_arready,
  output wire [31:0]         s_axil_rdata,
  output wire [1:0]          s_axil_rresp,
  output wire                s_axil_rvalid,
  input  wire                s_axil_rready,

  output wire                irq
);

  wire [31:0]      tick_clocks;
  wire             parse_ready, tap_ready;
  wire             hdr_valid, hdr_ready, pay_valid, pay_ready, pay_last, eof_valid, eof_ready;
  wire [7:0]       eof_verdict;
  wire [DATA_W-1:0] pay_data;
  inc_pkg::hdr_t   hdr;
  wire             early_valid;
  wire [23:0]      early_qpn;
  wire             head_valid, head_fits, dec_valid, dec_bypass;

  // Parser and bypass take every beat together.
  assign s_axis_rx_tready = parse_ready && tap_ready;

  inc_parse #(.DATA_W(DATA_W)) u_parse (
    .clk(clk), .rst(rst),
    .s_axis_rx_tdata(s_axis_rx_tdata), .s_axis_rx_tkeep(s_axis_rx_tkeep),
    .s_axis_rx_tvalid(s_axis_rx_tvalid && tap_ready), .s_axis_rx_tready(parse_ready),
    .s_axis_rx_tlast(s_axis_rx_tlast), .s_axis_rx_tuser(s_axis_rx_tuser),
    .s_axis_rx_tid(s_axis_rx_tid),
    .m_hdr_valid(hdr_valid), .m_hdr_ready(hdr_ready), .m_hdr(hdr),
    .m_early_valid(early_valid), .m_early_qpn(early_qpn),
    .m_pay_valid(pay_valid), .m_pay_ready(pay_ready), .m_pay_data(pay_data), .m_pay_last(pay_last),
    .m_eof_valid(eof_valid), .m_eof_ready(eof_ready), .m_eof_verdict(eof_verdict));

  inc_bypass #(.DATA_W(DATA_W)) u_bypass (
    .clk(clk), .rst(rst),
    .s_tap_tdata(s_axis_rx_tdata), .s_tap_tkeep(s_axis_rx_tkeep),
    .s_tap_tvalid(s_axis_rx_tvalid && s_axis_rx_tready), .s_tap_tlast(s_axis_rx_tlast),
    .s_tap_tid(s_axis_rx_tid), .tap_ready(tap_ready),
    .head_valid(head_valid), .head_fits(head_fits),
    .dec_valid(dec_valid), .dec_bypass(dec_bypass),
    .m_axis_bypass_tdata(m_axis_bypass_tdata), .m_axis_bypass_tkeep(m_axis_bypass_tkeep),
    .m_axis_bypass_tvalid(m_axis_bypass_tvalid), .m_axis_bypass_tready(m_axis_bypass_tready),
    .m_axis_bypass_tlast(m_axis_bypass_tlast), .m_axis_bypass_tid(m_axis_bypass_tid));

  wire             txh_valid, txh_ready, txp_valid, txp_ready, txp_last;
  wire             end_valid, end_ready, end_poison;
  wire [DATA_W-1:0] txp_data;
  inc_pkg::txhdr_t txh;
  inc_pkg::txshape_t txs;
  wire             tbl_valid, tbl_ready, tbl_write, tbl_rsp_valid;
  wire [3:0]       tbl_id;
  wire [11:0]      tbl_index;
  wire [1023:0]    tbl_wdata, tbl_rsp_rdata;
  wire [1:0]       tbl_rsp_error;
  wire             stat_frame;
  wire [7:0]       stat_verdict;
  wire [inc_spec_pkg::EVENT_COUNT-1:0] stat_event;
  wire [PIPES-1:0] pipe_error, pipe_drained;
  wire             fault_valid;
  wire [7:0]       fault_kind, fault_pipe;
  wire [11:0]      fault_ep;
  wire [23:0]      fault_psn;
  wire [31:0]      fault_got, fault_wanted;

  inc_core #(.DATA_W(DATA_W), .ENDPOINTS(ENDPOINTS), .PIPES(PIPES), .POOL_KB(POOL_KB),
             .FAN_IN(FAN_IN), .MODE2(MODE2), .MODE3(MODE3), .FLOAT(FLOAT),
             .CUT_THROUGH(CUT_THROUGH)) u_core (
    .clk(clk), .rst(rst), .cfg_tick_clocks(tick_clocks),
    .s_hdr_valid(hdr_valid), .s_hdr_ready(hdr_ready), .s_hdr(hdr),
    .s_early_qpn(early_qpn),
    .s_pay_valid(pay_valid), .s_pay_ready(pay_ready), .s_pay_data(pay_data), .s_pay_last(pay_last),
    .s_eof_valid(eof_valid), .s_eof_ready(eof_ready), .s_eof_verdict(eof_verdict),
    .byp_head_valid(head_valid), .byp_head_fits(head_fits),
    .byp_dec_valid(dec_valid), .byp_dec_bypass(dec_bypass),
    .m_hdr_valid(txh_valid), .m_hdr_ready(txh_ready), .m_hdr(txh),
    .m_shape(txs),
    .m_pay_valid(txp_valid), .m_pay_ready(txp_ready), .m_pay_data(txp_data), .m_pay_last(txp_last),
    .m_end_valid(end_valid), .m_end_ready(end_ready), .m_end_poison(end_poison),
    .tbl_valid(tbl_valid), .tbl_ready(tbl_ready), .tbl_write(tbl_write), .tbl_id(tbl_id),
    .tbl_index(tbl_index), .tbl_wdata(tbl_wdata),
    .tbl_rsp_valid(tbl_rsp_valid), .tbl_rsp_error(tbl_rsp_error), .tbl_rsp_rdata(tbl_rsp_rdata),
    .stat_frame(stat_frame), .stat_verdict(stat_verdict), .stat_event(stat_event),
    .status_pipe_error(pipe_error), .status_pipe_drained(pipe_drained),
    .fault_valid(fault_valid), .fault_kind(fault_kind), .fault_pipe(fault_pipe),
    .fault_ep(fault_ep), .fault_psn(fault_psn), .fault_got(fault_got),
    .fault_wanted(fault_wanted));

  inc_deparse #(.DATA_W(DATA_W)) u_deparse (
    .clk(clk), .rst(rst),
    .s_hdr_valid(txh_valid), .s_hdr_ready(txh_ready), .s_hdr(txh),
    .s_shape(txs),
    .s_pay_valid(txp_valid), .s_pay_ready(txp_ready), .s_pay_data(txp_data), .s_pay_last(txp_last),
    .s_end_valid(end_valid), .s_end_ready(end_ready), .s_end_poison(end_poison),
    .m_axis_tx_tdata(m_axis_tx_tdata), .m_axis_tx_tkeep(m_axis_tx_tkeep),
    .m_axis_tx_tvalid(m_axis_tx_tvalid), .m_axis_tx_tready(m_axis_tx_tready),
    .m_axis_tx_tlast(m_axis_tx_tlast), .m_axis_tx_tuser(m_axis_tx_tuser),
    .m_axis_tx_tdest(m_axis_tx_tdest));

  wire        cnt_valid, cnt_ready, cnt_rsp_valid;
  wire [7:0]  cnt_index;
  wire [47:0] cnt_rsp_data;

  inc_counters u_counters (
    .clk(clk), .rst(rst),
    .stat_valid(stat_frame), .stat_verdict(stat_verdict), .stat_event(stat_event),
    .s_rd_valid(cnt_valid), .s_rd_ready(cnt_ready), .s_rd_index(cnt_index),
    .m_rd_valid(cnt_rsp_valid), .m_rd_data(cnt_rsp_data));

  inc_csr_block #(.DATA_W(DATA_W), .PORTS(PORTS), .ENDPOINTS(ENDPOINTS), .PIPES(PIPES),
                  .OUTS(ENDPOINTS), .POOL_KB(POOL_KB), .FAN_IN(FAN_IN), .MTU(MTU),
                  .MODE2(MODE2), .MODE3(MODE3), .FLOAT(FLOAT),
                  .CUT_THROUGH(CUT_THROUGH)) u_csr (
    .clk(clk), .rst(rst),
    .s_axil_awvalid(s_axil_awvalid), .s_axil_awready(s_axil_awready),
    .s_axil_awaddr(s_axil_awaddr[11:0]), .s_axil_awprot(s_axil_awprot),
    .s_axil_wvalid(s_axil_wvalid), .s_axil_wready(s_axil_wready), .s_axil_wdata(s_axil_wdata),
    .s_axil_wstrb(s_axil_wstrb),
    .s_axil_bvalid(s_axil_bvalid), .s_axil_bready(s_axil_bready), .s_axil_bresp(s_axil_bresp),
    .s_axil_arvalid(s_axil_arvalid), .s_axil_arready(s_axil_arready),
    .s_axil_araddr(s_axil_araddr[11:0]), .s_axil_arprot(s_axil_arprot),
    .s_axil_rvalid(s_axil_rvalid), .s_axil_rready(s_axil_rready), .s_axil_rdata(s_axil_rdata),
    .s_axil_rresp(s_axil_rresp),
    .cfg_tick_clocks(tick_clocks),
    .m_tbl_valid(tbl_valid), .m_tbl_ready(tbl_ready), .m_tbl_write(tbl_write), .m_tbl_id(tbl_id),
    .m_tbl_index(tbl_index), .m_tbl_wdata(tbl_wdata),
    .s_tbl_rsp_valid(tbl_rsp_valid), .s_tbl_rsp_error(tbl_rsp_error),
    .s_tbl_rsp_rdata(tbl_rsp_rdata),
    .m_cnt_valid(cnt_valid), .m_cnt_ready(cnt_ready), .m_cnt_index(cnt_index),
    .s_cnt_rsp_valid(cnt_rsp_valid), .s_cnt_rsp_data(cnt_rsp_data),
    .status_pipe_error(pipe_error), .status_pipe_drained(pipe_drained),
    .stat_bind_done(stat_event[inc_spec_pkg::EVENT_BIND_DONE]),
    .stat_error_valid(fault_valid), .stat_error_kind(fault_kind), .stat_error_pipe(fault_pipe),
    .stat_error_endpoint(fault_ep), .stat_error_psn(fault_psn), .stat_error_got(fault_got),
    .stat_error_wanted(fault_wanted),
    .irq(irq));

  initial begin
    if (DATA_W < 64 || DATA_W > 4096 || 2 ** $clog2(DATA_W) != DATA_W)
      $error("DATA_W: want a power of two in 64..4096");
    if (PORTS < 1 || PORTS > 64) $error("PORTS: want 1..64");
    if (ENDPOINTS < 2 || ENDPOINTS > 4096 || 2 ** $clog2(ENDPOINTS) != ENDPOINTS)
      $error("ENDPOINTS: want a power of two in 2..4096");
    if (PIPES < 2 || PIPES > 256 || 2 ** $clog2(PIPES) != PIPES)
      $error("PIPES: want a power of two in 2..256");
    if (POOL_KB < 4 || POOL_KB > 16384 || 2 ** $clog2(POOL_KB) != POOL_KB)
      $error("POOL_KB: want a power of two in 4..16384");
    if (FAN_IN < 2 || FAN_IN > inc_spec_pkg::FANIN_MAX) $error("FAN_IN: want 2..64");
    if (MTU < 256 || MTU > 4096 || 2 ** $clog2(MTU) != MTU)
      $error("MTU: want a power of two in 256..4096");
  end

  wire unused_ok = &{1'b0, early_valid,
                     s_axil_awaddr[15:12], s_axil_araddr[15:12]};

endmodule

`default_nettype wire
