// TranslateHeader: from a decision to send (txjob_t) to the header of the frame and the place of
//                  its payload.
//
// Streams:       s_job_* in; m_hdr_* (inc_pkg::txhdr_t, its shape) to the deparser; m_rd_* to
//                ReplicateData: first beat of the slot, bank of its visible copy, beats (0 for an
//                ACK). cut_*: instead of a job, the header of a result that leaves while its last
//                contribution arrives. cut_load, while quiet and in the clock in which ep is that
//                of its out, takes it; cut_go, in the clock behind, offers it (else it is
//                forgotten).
// Latency:       2 clocks: endpoint and slot read; header built. With RETH 3: its VA is added.
// Throughput:    one job per 2 clocks, with RETH per 3.
// Back-pressure: a job is taken once there is room for its header and its read descriptor.
// Reset:         empty.
// Parameters:    DATA_W 64..2048; ENDPOINTS power of two; BLOCKS of 256 bytes.
// Source:        protocol.md 3 (headers of what the engine sends); docs/architecture.md.
`default_nettype none

module inc_translate_header #(
  parameter int DATA_W    = 512,
  parameter int ENDPOINTS = 64,
  parameter int BLOCKS    = 512,
  parameter int EP_W      = $clog2(ENDPOINTS),
  parameter int BLK_W     = $clog2(BLOCKS),
  parameter int ADDR_W    = $clog2(BLOCKS * 2048 / DATA_W)
) (
  input  wire                        clk,
  input  wire                        rst,

  input  wire                        s_job_valid,
  output wire                        s_job_ready,
  input  inc_pkg::txjob_t       s_job,

  input  wire                        cut_load,
  input  wire                        cut_go,
  input  wire [23:0]                 cut_psn,
  input  wire                        cut_ack_req,
  input  inc_pkg::slot_meta_t        cut_meta,
  output wire                        quiet,           // nothing inside

  output wire                        ep_rd_en,
  output wire [EP_W-1:0]             ep_rd_index,
  input  inc_spec_pkg::ep_cfg_t ep,
  output wire                        slot_rd_en,
  input  wire                        slot_rd_ready,  // a job waits for it
  output wire [BLK_W-1:0]            slot_rd_block,
  input  inc_pkg::slot_meta_t   slot_meta,
  input  wire                        slot_flip,

  output wire                        m_hdr_valid,
  input  wire                        m_hdr_ready,
  output inc_pkg::txhdr_t            m_hdr,
  output inc_pkg::txshape_t          m_shape,
  output wire                        m_rd_valid,
  input  wire                        m_rd_ready,
  output wire                        m_rd_bank,
  output wire [ADDR_W-1:0]           m_rd_addr,
  output wire [15:0]                 m_rd_beats
);

  localparam int LANES_LOG2 = $clog2(DATA_W / 8);

  logic             read_q;                   // tables answer in this clock
  inc_pkg::txjob_t  job_q;
  logic             hdr_valid_q, rd_valid_q;
  inc_pkg::txhdr_t  hdr_q, hdr_d;
  inc_pkg::txshape_t shape_q, shape_d;
  logic             bank_q;
  logic [ADDR_W-1:0] addr_q;
  logic [15:0]      beats_q, beats_d;

  logic             add_q;                    // the VA in hdr_q lacks its offset
  logic [63:0]      offset_q;
  inc_pkg::slot_meta_t meta;
  assign meta  = cut_load ? cut_meta : slot_meta;
  assign quiet = !read_q && !add_q && !hdr_valid_q && !rd_valid_q;
  wire              has_reth = job_q.kind == inc_pkg::TX_DATA
                               && inc_spec_pkg::opcode_has_reth({4'd0, slot_meta.opcode});

  wire out_free = (!hdr_valid_q || m_hdr_ready) && (!rd_valid_q || m_rd_ready);
  assign s_job_ready   = !read_q && !add_q && out_free && slot_rd_ready;
  wire take            = s_job_valid && s_job_ready;
  assign ep_rd_en      = take;
  assign ep_rd_index   = s_job.ep[EP_W-1:0];
  assign slot_rd_en    = take && s_job.kind == inc_pkg::TX_DATA;
  assign slot_rd_block = s_job.block[BLK_W-1:0];

  always_comb begin
    hdr_d            = '0;
    hdr_d.port       = {2'b00, ep.port};
    hdr_d.dmac       = ep.peer_mac;
    hdr_d.smac       = ep.mac;
    hdr_d.vlan_valid = ep.vlan_valid;
    hdr_d.vlan_tci   = ep.vlan_tci;
    hdr_d.is_v6      = ep.is_v6;
    hdr_d.sip        = ep.ip;
    hdr_d.dip        = ep.peer_ip;
    hdr_d.tos        = ep.tos;
    hdr_d.ttl        = ep.ttl;
    hdr_d.udp_sport  = ep.udp_sport;
    hdr_d.mig_req    = ep.mig_req;
    hdr_d.pkey       = ep.pkey;
    hdr_d.dqpn       = ep.peer_qpn;
    hdr_d.psn        = cut_load ? cut_psn : job_q.psn;
    hdr_d.late       = cut_load;
    beats_d          = 16'd0;
    if (!cut_load && job_q.kind == inc_pkg::TX_ACK) begin
      hdr_d.opcode   = inc_spec_pkg::OPCODE_ACKNOWLEDGE;
      hdr_d.has_aeth = 1'b1;
      hdr_d.syndrome = job_q.syndrome;
      hdr_d.msn      = job_q.msn;
    end else if (!cut_load && job_q.kind == inc_pkg::TX_CNP) begin
      hdr_d.opcode   = inc_spec_pkg::OPCODE_CNP;
      hdr_d.is_cnp   = 1'b1;
    end else begin
      hdr_d.opcode   = {4'd0, meta.opcode};
      hdr_d.se       = meta.se;
      hdr_d.tos[1:0] = ep.tos[1:0] | {2{meta.ce}};
      hdr_d.ack_req  = cut_load ? cut_ack_req : job_q.ack_req;
      hdr_d.has_imm  = inc_spec_pkg::opcode_has_imm({4'd0, meta.opcode});
      hdr_d.imm      = meta.imm;
      hdr_d.has_reth = inc_spec_pkg::opcode_has_reth({4'd0, meta.opcode});
      hdr_d.va       = ep.out_va;
      hdr_d.rkey     = ep.out_rkey;
      hdr_d.dma_len  = meta.dma_len;
      hdr_d.plen     = 16'(meta.plen);
      beats_d        = 16'((17'(meta.plen) + 17'(DATA_W / 8 - 1)) >> LANES_LOG2);
    end
  end

  assign m_hdr_valid = hdr_valid_q || cut_go;
  assign m_hdr       = hdr_q;
  assign m_shape     = shape_q;
  // A mark of congestion may come late, straight from the slot's memory.
  inc_pkg::txhdr_t unmarked;
  wire             ce = (cut_load || job_q.kind == inc_pkg::TX_DATA) && meta.ce;
  always_comb begin
    unmarked          = hdr_d;
    unmarked.tos[1:0] = ep.tos[1:0];
  end
  inc_frame_shape u_shape (.hdr(unmarked), .ce(ce), .shape(shape_d));
  assign m_rd_valid  = rd_valid_q;
  assign m_rd_bank   = bank_q;
  assign m_rd_addr   = addr_q;
  assign m_rd_beats  = beats_q;

  always_ff @(posedge clk) begin
    read_q <= take;
    if (take) job_q <= s_job;
    if (cut_load || read_q) begin
      hdr_q   <= hdr_d;
      shape_q <= shape_d;
    end
    if (cut_go) hdr_valid_q <= 1'b1;
    if (m_hdr_ready) hdr_valid_q <= 1'b0;
    if (m_rd_ready)  rd_valid_q  <= 1'b0;
    if (read_q) begin
      hdr_valid_q <= !has_reth;
      rd_valid_q  <= 1'b1;
      offset_q    <= slot_meta.offset;
      bank_q      <= slot_flip;
      addr_q      <= ADDR_W'({job_q.block[BLK_W-1:0], 11'd0} >> $clog2(DATA_W));
      beats_q     <= beats_d;
    end
    add_q <= read_q && has_reth;
    if (add_q) begin
      hdr_valid_q <= 1'b1;
      hdr_q.va    <= hdr_q.va + offset_q;
    end
    if (rst) begin
      read_q      <= 1'b0;
      add_q       <= 1'b0;
      hdr_valid_q <= 1'b0;
      rd_valid_q  <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst && (cut_load || cut_go)) assert (quiet && !take);
`endif
  end

  wire unused_ok = &{1'b0, ep, slot_meta, meta, job_q, s_job};

endmodule

`default_nettype wire
