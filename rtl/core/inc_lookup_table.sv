// LookupTable: finds the endpoint and pipe of a frame and checks that the frame is that
//              endpoint's.
//
// Streams:       s_hdr_* (inc_pkg::hdr_t) in, m_lk_* (inc_pkg::lookup_t) out, one for one, in
//                order. s_early_qpn: in the clock before a header is new at s_hdr (behind one that
//                is taken in that clock, or none), its dqpn.
// Latency:       1 clock: compare. The table is read in the clock before.
// Throughput:    1 frame per clock.
// Back-pressure: s_hdr_ready does not depend on m_lk_ready in its clock: one frame more may wait.
// Reset:         stage empty; a walk of max(ENDPOINTS, PIPES) clocks makes every entry invalid,
//                and no frame is taken until it is over.
// Tables:        the endpoint index is the low bits of the local QPN, so no CAM is needed:
//                endpoints of one engine may not share them. ep_cfg is written through cfg_ep_*,
//                pipe_cfg through cfg_pipe_*; a second read port of ep_cfg (tx_*) serves
//                TranslateHeader.
// Parameters:    ENDPOINTS 2..4096, power of two; PIPES 2..256, power of two.
// Source:        protocol.md 3 (what an endpoint accepts); verdict order of rtl/spec/inc.yaml.
`default_nettype none

module inc_lookup_table #(
  parameter int ENDPOINTS = 64,
  parameter int PIPES     = 16,
  parameter int EP_W      = $clog2(ENDPOINTS),
  parameter int PIPE_W    = $clog2(PIPES)
) (
  input  wire                        clk,
  input  wire                        rst,

  input  wire                        cfg_ep_wr,
  input  wire [EP_W-1:0]             cfg_ep_index,
  input  inc_spec_pkg::ep_cfg_t cfg_ep_data,
  input  wire                        cfg_pipe_wr,
  input  wire [PIPE_W-1:0]           cfg_pipe_index,
  input  inc_spec_pkg::pipe_cfg_t cfg_pipe_data,
  input  wire                        cfg_out_wr,
  input  wire [EP_W-1:0]             cfg_out_index,
  input  wire [11:0]                 cfg_out_data,

  input  wire                        hold,        // accept no further frame
  output wire                        idle,        // no frame inside
  output wire                        ready_o,     // tables are cleared after reset

  input  wire                        s_hdr_valid,
  output wire                        s_hdr_ready,
  input  inc_pkg::hdr_t         s_hdr,
  input  wire [EP_W-1:0]             s_early_qpn,     // its low bits

  output wire                        m_lk_valid,
  input  wire                        m_lk_ready,
  output inc_pkg::lookup_t           m_lk,

  input  wire                        tx_rd_en,
  input  wire [EP_W-1:0]             tx_rd_index,
  output inc_spec_pkg::ep_cfg_t      tx_rd_data,

  // asynchronous pipe_cfg reads for the sequencers
  input  wire [PIPE_W-1:0]           op_pipe_index,
  output inc_spec_pkg::pipe_cfg_t    op_pipe_cfg,
  input  wire [PIPE_W-1:0]           tx_pipe_index,
  output inc_spec_pkg::pipe_cfg_t    tx_pipe_cfg,
  input  wire [PIPE_W-1:0]           send_pipe_index,
  output inc_spec_pkg::pipe_cfg_t    send_pipe_cfg,
  input  wire [PIPE_W-1:0]           keep_pipe_index,
  output inc_spec_pkg::pipe_cfg_t    keep_pipe_cfg
);

  localparam int EPC_W = inc_spec_pkg::EP_CFG_W;
  localparam int PPC_W = inc_spec_pkg::PIPE_CFG_W;

  localparam int CLR_W = EP_W > PIPE_W ? EP_W : PIPE_W;

  // Memories power up unknown: an entry that was never written must not match.
  logic [CLR_W:0]   clear_q;
  wire              clearing   = !clear_q[CLR_W];
  wire              ep_wr      = clearing || cfg_ep_wr;
  wire [EP_W-1:0]   ep_widx    = clearing ? clear_q[EP_W-1:0] : cfg_ep_index;
  wire [EPC_W-1:0]  ep_wdata   = clearing ? '0 : cfg_ep_data;
  wire              pipe_wr    = clearing || cfg_pipe_wr;
  wire [PIPE_W-1:0] pipe_widx  = clearing ? clear_q[PIPE_W-1:0] : cfg_pipe_index;
  wire [PPC_W-1:0]  pipe_wdata = clearing ? '0 : cfg_pipe_data;
  assign ready_o = !clearing;

  always_ff @(posedge clk) begin
    if (clearing) clear_q <= clear_q + (CLR_W+1)'(1);
    if (rst) clear_q <= '0;
  end

  // The table is read with the QPN of the header that comes next. A write makes that stale.
  inc_pkg::hdr_t h;
  logic          stale_q;
  // What is found: all but the verdict, that of the header, and which checks fail.
  inc_pkg::lookup_t l2_d;
  localparam int LK_W   = $bits(l2_d);
  localparam int CHECKS = 11;
  logic [CHECKS-1:0] fails_d, fails;
  logic [7:0]        wire_verdict;
  inc_pkg::lookup_t  l2;
  wire [LK_W-1:0]    l2_out;
  wire            l2_ready;

  wire open      = !hold && !clearing && !stale_q;
  assign s_hdr_ready = l2_ready && open;
  wire take      = s_hdr_valid && s_hdr_ready;
  assign idle    = !m_lk_valid;
  assign h       = s_hdr;

  wire [EPC_W-1:0] ep_rdata;
  inc_spec_pkg::ep_cfg_t ep;
  assign ep = ep_rdata;

  // Both reads are on the shortest path: a small table stands in LUTs, its
  // entries come straight from registers.
  wire            rx_rd_en = !s_hdr_valid || take || stale_q;
  wire [EP_W-1:0] rx_rd_at = s_hdr_valid && stale_q ? s_hdr.dqpn[EP_W-1:0] : s_early_qpn;
  generate
    if (ENDPOINTS <= 64) begin : gen_small
      inc_ram_1r1w #(.DATA_W(EPC_W), .DEPTH(ENDPOINTS), .RAM_STYLE("distributed")) u_ep_rx (
        .clk(clk), .wr_en(ep_wr), .wr_addr(ep_widx), .wr_data(ep_wdata),
        .rd_en(rx_rd_en), .rd_addr(rx_rd_at), .rd_data(ep_rdata));
      inc_ram_1r1w #(.DATA_W(EPC_W), .DEPTH(ENDPOINTS), .RAM_STYLE("distributed")) u_ep_tx (
        .clk(clk), .wr_en(ep_wr), .wr_addr(ep_widx), .wr_data(ep_wdata),
        .rd_en(tx_rd_en), .rd_addr(tx_rd_index), .rd_data(tx_rd_data));
    end else begin : gen_large
      inc_ram_1r1w #(.DATA_W(EPC_W), .DEPTH(ENDPOINTS)) u_ep_rx (
        .clk(clk), .wr_en(ep_wr), .wr_addr(ep_widx), .wr_data(ep_wdata),
        .rd_en(rx_rd_en), .rd_addr(rx_rd_at), .rd_data(ep_rdata));
      inc_ram_1r1w #(.DATA_W(EPC_W), .DEPTH(ENDPOINTS)) u_ep_tx (
        .clk(clk), .wr_en(ep_wr), .wr_addr(ep_widx), .wr_data(ep_wdata),
        .rd_en(tx_rd_en), .rd_addr(tx_rd_index), .rd_data(tx_rd_data));
    end
  endgenerate

  // Compare, and read the pipe and its first out: both pipes of the endpoint, because it is in
  // registers, and the header comes through a queue.
  wire [7:0] pipe_full = h.is_data ? ep.in_pipe : ep.out_pipe;
  wire [6*PPC_W-1:0] pipe_rdata;
  inc_spec_pkg::pipe_cfg_t pc, pc_in, pc_out;
  assign pc_in       = pipe_rdata[0 +: PPC_W];
  assign pc_out      = pipe_rdata[5*PPC_W +: PPC_W];
  assign pc          = h.is_data ? pc_in : pc_out;
  assign op_pipe_cfg = pipe_rdata[PPC_W +: PPC_W];
  assign tx_pipe_cfg = pipe_rdata[2*PPC_W +: PPC_W];
  assign send_pipe_cfg = pipe_rdata[3*PPC_W +: PPC_W];
  assign keep_pipe_cfg = pipe_rdata[4*PPC_W +: PPC_W];

  inc_lutram #(.DATA_W(PPC_W), .DEPTH(PIPES), .R(6)) u_pipe (
    .clk(clk), .wr_en(pipe_wr), .wr_addr(pipe_widx), .wr_data(pipe_wdata),
    .rd_addr({ep.out_pipe[PIPE_W-1:0], keep_pipe_index, send_pipe_index, tx_pipe_index,
              op_pipe_index, ep.in_pipe[PIPE_W-1:0]}),
    .rd_data(pipe_rdata));

  wire [11:0] lead_in, lead_out;
  inc_lutram #(.DATA_W(12), .DEPTH(ENDPOINTS), .R(2)) u_leads (
    .clk(clk), .wr_en(cfg_out_wr), .wr_addr(cfg_out_index), .wr_data(cfg_out_data),
    .rd_addr({pc_out.out_base[EP_W-1:0], pc_in.out_base[EP_W-1:0]}),
    .rd_data({lead_out, lead_in}));

  wire [15:0] block_in  = pc_in.base_block
                          + 16'(inc_pkg::slot_of(h.psn, pc_in.n_log2) << (pc_in.mtu_log2 - 4'd8));
  wire [15:0] block_out = pc_out.base_block
                          + 16'(inc_pkg::slot_of(h.psn, pc_out.n_log2) << (pc_out.mtu_log2 - 4'd8));

  wire        pkey_ok  = h.pkey[14:0] == ep.pkey[14:0] && (h.pkey[15] || ep.pkey[15]);
  wire [15:0] mtu      = 16'd1 << pc.mtu_log2;
  wire        len_ok   = !h.is_last ? h.plen == mtu
                       : h.plen <= mtu && (h.is_first || h.plen != 16'd0);
  wire [2:0]  lane_msk = inc_pkg::lane_mask(pc.dtype);
  wire        lane_ok  = !pc.pinned || (h.plen[2:0] & lane_msk) == 3'd0;
  wire        mode2    = pc.mode == 2'd2;
  // handed on, if it is at an out of a Mode-II pipe
  wire        cnp_on   = ep.out_valid && pc.valid && mode2;

  inc_pkg::slot_meta_t meta;
  always_comb begin
    l2_d            = '0;
    fails_d[0]  = h.verdict != inc_spec_pkg::VERDICT_OK;
    fails_d[1]  = !ep.valid || ep.qpn != h.dqpn;
    fails_d[2]  = h.dip != ep.ip || h.is_v6 != ep.is_v6;
    fails_d[3]  = h.port != {2'b0, ep.port};
    fails_d[4]  = h.smac != ep.peer_mac;
    fails_d[5]  = h.sip != ep.peer_ip;
    fails_d[6]  = !pkey_ok;
    fails_d[7]  = h.is_cnp && !cnp_on;
    fails_d[8]  = !pc.valid || (h.is_data ? !ep.in_valid : !ep.out_valid);
    fails_d[9]  = h.is_write && !ep.rewrite_valid;
    fails_d[10] = h.is_data && !(len_ok && lane_ok);

    l2_d.is_data       = h.is_data;
    l2_d.is_ack        = h.is_ack;
    l2_d.is_cnp        = h.is_cnp;
    l2_d.ep[EP_W-1:0]  = h.dqpn[EP_W-1:0];
    l2_d.lead          = h.is_data ? lead_in : lead_out;
    l2_d.pipe          = pipe_full;
    l2_d.in_index      = ep.in_index;
    l2_d.psn           = h.psn;
    l2_d.syndrome      = h.syndrome;
    l2_d.msn           = h.msn;
    meta.opcode   = h.opcode[3:0];
    meta.plen     = h.plen[12:0];
    meta.se       = h.se;
    meta.ce       = h.tos[1:0] == 2'b11;
    meta.ack_req  = h.ack_req;
    meta.imm      = h.has_imm ? h.imm : 32'd0;
    meta.offset   = h.has_reth ? h.va : 64'd0;
    meta.dma_len  = h.has_reth ? h.dma_len : 32'd0;
    meta.op       = pc.op;
    meta.dtype    = pc.dtype;
    l2_d.meta          = meta;
    l2_d.in_va         = h.has_reth ? ep.in_va : 64'd0;
    l2_d.pay_beats     = h.pay_beats;
    l2_d.mode2         = mode2;
    l2_d.n_log2        = pc.n_log2;
    l2_d.mtu_log2      = pc.mtu_log2;
    l2_d.block         = h.is_data ? block_in : block_out;
    l2_d.fan_in        = pc.fan_in;
    l2_d.ack_every     = pc.ack_every;
    l2_d.ack_rule      = pc.ack_rule;
    l2_d.leaf          = ep.leaf;
    l2_d.to_asker      = pc.replay_asker && ep.leaf && ep.out_valid && ep.out_pipe == ep.in_pipe;
    l2_d.pinned        = pc.pinned;
    l2_d.reproducible  = pc.reproducible;
    l2_d.coll          = pc.coll;
    l2_d.root          = pc.root;
    l2_d.dtype         = pc.dtype;
    l2_d.op            = pc.op;
  end

  inc_skid #(.DATA_W(LK_W + CHECKS + 8)) u_found (
    .clk(clk), .rst(rst), .s_valid(s_hdr_valid && open), .s_ready(l2_ready),
    .s_data({h.verdict, fails_d, l2_d}),
    .m_valid(m_lk_valid), .m_ready(m_lk_ready), .m_data({wire_verdict, fails, l2_out}));
  assign l2 = l2_out;

  // The first check that fails says what the frame is.
  inc_pkg::lookup_t lk;
  assign m_lk = lk;
  always_comb begin
    lk    = l2;
    lk.ok = fails == '0;
    casez (fails)
      11'b??????????1: lk.verdict = wire_verdict;
      11'b?????????10: lk.verdict = inc_spec_pkg::VERDICT_NO_ENDPOINT;
      11'b????????100: lk.verdict = inc_spec_pkg::VERDICT_DST_IP;
      11'b???????1000: lk.verdict = inc_spec_pkg::VERDICT_INGRESS_PORT;
      11'b??????10000: lk.verdict = inc_spec_pkg::VERDICT_SRC_MAC;
      11'b?????100000: lk.verdict = inc_spec_pkg::VERDICT_SRC_IP;
      11'b????1000000: lk.verdict = inc_spec_pkg::VERDICT_PKEY;
      11'b???10000000: lk.verdict = inc_spec_pkg::VERDICT_CNP;
      11'b??100000000: lk.verdict = inc_spec_pkg::VERDICT_NO_PIPE;
      11'b?1000000000: lk.verdict = inc_spec_pkg::VERDICT_WRITE_NO_REWRITE;
      11'b10000000000: lk.verdict = inc_spec_pkg::VERDICT_PAYLOAD_LENGTH;
      default:         lk.verdict = inc_spec_pkg::VERDICT_OK;
    endcase
  end

  always_ff @(posedge clk) begin
    stale_q <= ep_wr;
  end

  wire unused_ok = &{1'b0, h.dmac, h.mig_req, h.tos[7:2], h.rkey, h.opcode[7:4],
                     ep.psn0, ep.mac, ep.vlan_valid, ep.vlan_tci, ep.tos, ep.ttl, ep.udp_sport,
                     ep.peer_qpn, ep.mig_req, ep.out_va,
                     ep.out_rkey, pipe_full, pc};

endmodule

`default_nettype wire
