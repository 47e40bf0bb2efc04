// inc_lookup_table with 4 endpoints and 2 pipes, of which the entries of one endpoint and of both
// pipes are followed as they are written. A frame that it calls ok is that endpoint's in every
// field, and its slot lies in its pipe's blocks.
`default_nettype none

module prove_lookup #(
  parameter int ENDPOINTS = 4,
  parameter int PIPES     = 2
) (
  input wire                     clk,
  input wire                     rst,
  input wire                     cfg_ep_wr,
  input wire [1:0]               cfg_ep_index,
  input inc_spec_pkg::ep_cfg_t   cfg_ep_data,
  input wire                     cfg_pipe_wr,
  input wire                     cfg_pipe_index,
  input inc_spec_pkg::pipe_cfg_t cfg_pipe_data,
  input wire                     hold,
  input wire                     s_hdr_valid,
  input inc_pkg::hdr_t           s_hdr,
  input wire [1:0]               early,
  input wire                     m_lk_ready,
  input wire [1:0]               who       // free: the endpoint
);

  wire run;
  fv_reset u_reset (.clk, .rst, .run);

  wire                     s_hdr_ready, m_lk_valid, ready_o, idle;
  inc_pkg::lookup_t        m_lk;
  inc_spec_pkg::ep_cfg_t   tx_data;
  inc_spec_pkg::pipe_cfg_t op_cfg, tx_cfg, send_cfg, keep_cfg;
  inc_lookup_table #(.ENDPOINTS(ENDPOINTS), .PIPES(PIPES)) u_lookup (
    .clk, .rst, .cfg_ep_wr, .cfg_ep_index, .cfg_ep_data, .cfg_pipe_wr, .cfg_pipe_index,
    .cfg_pipe_data, .cfg_out_wr(1'b0), .cfg_out_index(2'd0), .cfg_out_data(12'd0), .hold, .idle,
    .ready_o, .s_hdr_valid, .s_hdr_ready, .s_hdr, .s_early_qpn(early), .m_lk_valid, .m_lk_ready,
    .m_lk, .tx_rd_en(1'b0), .tx_rd_index(2'd0), .tx_rd_data(tx_data),
    .op_pipe_index(1'b0), .op_pipe_cfg(op_cfg), .tx_pipe_index(1'b0), .tx_pipe_cfg(tx_cfg),
    .send_pipe_index(1'b0), .send_pipe_cfg(send_cfg), .keep_pipe_index(1'b0),
    .keep_pipe_cfg(keep_cfg));

  // The tables as their writes left them; after reset no entry is valid.
  logic [1:0]              who_q;
  inc_spec_pkg::ep_cfg_t   ep_q;
  inc_spec_pkg::pipe_cfg_t pipe_q [PIPES];
  // The promises of who drives it: s_early_qpn is the QPN of the header that is new in the next
  // clock; a header stays until it is taken; no write meets a header (cfg writes while held).
  logic                    stays_q, ask_q;
  logic [1:0]              early_q;
  inc_pkg::hdr_t           hdr_q;

  inc_spec_pkg::pipe_cfg_t pc;
  wire [7:0]               pipe = s_hdr.is_data ? ep_q.in_pipe : ep_q.out_pipe;
  assign pc = pipe_q[pipe[0]];
  wire                     take = s_hdr_valid && s_hdr_ready;
  wire                     its  = take && s_hdr.dqpn[1:0] == who_q;
  // Whether the frame may be ok, told by the rules of protocol.md 3, one by one.
  wire pkey_ok = s_hdr.pkey[14:0] == ep_q.pkey[14:0] && (s_hdr.pkey[15] || ep_q.pkey[15]);
  wire may     = ep_q.valid && s_hdr.dqpn == ep_q.qpn && s_hdr.is_v6 == ep_q.is_v6
                 && s_hdr.dip == ep_q.ip && s_hdr.sip == ep_q.peer_ip
                 && s_hdr.smac == ep_q.peer_mac && s_hdr.port == 8'(ep_q.port) && pkey_ok
                 && pc.valid && (s_hdr.is_data ? ep_q.in_valid : ep_q.out_valid)
                 && s_hdr.verdict == inc_spec_pkg::VERDICT_OK;

  logic [1:0]  in_q, at_q;         // lookups inside; which of them is followed
  logic        follow_q, may_q;
  logic [7:0]  pipe_id_q;
  logic [23:0] room_q, blocks_q;   // blocks of the pipe, and of a slot
  logic [15:0] base_q;
  wire         out  = m_lk_valid && m_lk_ready;
  wire         mine = follow_q && at_q == 2'd0;
  // Without wrap: the pool has less than 2^16 blocks, which who writes the tables sees to.
  wire [23:0]  offset = 24'(m_lk.block) - 24'(base_q);

  always_ff @(posedge clk) begin
    who_q   <= run ? who_q : who;
    stays_q <= s_hdr_valid && !s_hdr_ready && !rst;
    hdr_q   <= s_hdr;
    early_q <= early;
    ask_q   <= !s_hdr_valid || s_hdr_ready;
    if (run) begin
      if (stays_q) assume (s_hdr_valid && s_hdr == hdr_q);
      if (s_hdr_valid && ask_q) assume (s_hdr.dqpn[1:0] == early_q);
    end
    assume (!(cfg_ep_wr || cfg_pipe_wr) || hold);
    assume (cfg_pipe_data.mtu_log2 >= 4'd8 && cfg_pipe_data.mtu_log2 <= 4'd12);
    assume (cfg_pipe_data.n_log2 >= 5'd1 && cfg_pipe_data.n_log2 <= 5'd15);
    // The whole of the pipe is in the pool.
    assume ((33'd1 << (cfg_pipe_data.n_log2 + 5'(cfg_pipe_data.mtu_log2) - 5'd8))
            + 33'(cfg_pipe_data.base_block) <= 33'd65536);

    if (ready_o && cfg_ep_wr && cfg_ep_index == who_q) ep_q <= cfg_ep_data;
    if (ready_o && cfg_pipe_wr) pipe_q[cfg_pipe_index] <= cfg_pipe_data;
    if (rst) begin
      ep_q      <= '0;
      pipe_q[0] <= '0;
      pipe_q[1] <= '0;
    end

    in_q <= in_q + 2'(take) - 2'(out);
    if (out && follow_q) begin
      at_q <= at_q - 2'd1;
      if (at_q == 2'd0) follow_q <= 1'b0;
    end
    if (its && (!follow_q || (out && mine))) begin
      follow_q  <= 1'b1;
      at_q      <= in_q - 2'(out);
      may_q     <= may;
      pipe_id_q <= pipe;
      room_q    <= 24'd1 << (pc.n_log2 + 5'(pc.mtu_log2) - 5'd8);
      blocks_q  <= 24'd1 << (pc.mtu_log2 - 4'd8);
      base_q    <= pc.base_block;
    end
    if (rst) begin
      in_q     <= 2'd0;
      follow_q <= 1'b0;
    end
    if (run && !rst && m_lk_valid && mine) begin
      assert (!m_lk.ok || may_q);
      assert (m_lk.ok == (m_lk.verdict == inc_spec_pkg::VERDICT_OK));
      assert (m_lk.ep == 12'(who_q));
      if (m_lk.ok) begin
        assert (m_lk.pipe == pipe_id_q);
        // In the blocks of its pipe, and where a slot of it begins.
        assert (offset < room_q);
        assert ((offset & (blocks_q - 24'd1)) == 24'd0);
        cover (m_lk.is_data && offset != 24'd0 && blocks_q == 24'd4);
        cover (m_lk.is_ack);
      end
    end
  end

endmodule

`default_nettype wire
