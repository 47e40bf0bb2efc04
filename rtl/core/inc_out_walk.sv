// A walk that goes round the outs of every live pipe, one pipe after the other, for ever.
//
// Streams:       m_* the next out to visit, prepared ahead: its pipe, that pipe's cfg, endpoint,
//                whether it is the first or last out of its pipe. Taken with m_ready.
// Ports:         cfg_pipe, cfg: asynchronous read of pipe_cfg. out_rd, out_index: read of out_list;
//                out_ep is it from the next clock on, until the next out_rd.
// Latency:       1 clock from taken to the next, 2 where the pipe changes; 6 from restart, or from
//                the first live pipe, to a visit.
// Throughput:    1 visit per clock within a pipe.
// Back-pressure: m_ready low keeps the visit.
// Reset:         no visit; restart forgets the place (a pipe or its list was rewritten).
// Parameters:    ENDPOINTS 2..4096, PIPES 2..256, powers of two.
// Source:        protocol.md 6 (pacing); microarchitecture.md "Commit order" (two walks).
`default_nettype none

module inc_out_walk #(
  parameter int ENDPOINTS = 64,
  parameter int PIPES     = 16,
  parameter int EP_W      = $clog2(ENDPOINTS),
  parameter int PIPE_W    = $clog2(PIPES)
) (
  input  wire                    clk,
  input  wire                    rst,
  input  wire                    restart,
  input  wire [PIPES-1:0]        live,

  output wire [PIPE_W-1:0]       cfg_pipe,
  input  inc_spec_pkg::pipe_cfg_t cfg,
  output wire                    out_rd,
  output wire [EP_W-1:0]         out_index,
  input  wire [11:0]             out_ep,

  output wire                    m_valid,
  input  wire                    m_ready,
  output wire [EP_W-1:0]         m_ep,
  output wire [PIPE_W-1:0]       m_pipe,
  output wire                    m_first,
  output wire                    m_last,
  output inc_spec_pkg::pipe_cfg_t m_cfg
);

  // ------------------------------------------------------------------ the next live pipe
  // Two clocks: those behind the one found last, or all; then the lowest of them.
  logic [PIPES-1:0]  behind_q, cand_q;
  logic              cand_valid_q, next_valid_q;
  logic [PIPE_W-1:0] next_q;
  wire  [PIPES-1:0]  behind = live & behind_q;
  wire  [PIPES-1:0]  below  = cand_q - PIPES'(1);   // ones below the lowest, zero at it
  logic [PIPE_W-1:0] lowest;
  always_comb begin
    lowest = '0;
    for (int i = 0; i < PIPES; i++) begin
      if (cand_q[i] && !below[i]) lowest = lowest | PIPE_W'(i);
    end
  end

  // ------------------------------------------------------------------ its entry; its outs
  logic                    entry_valid_q;
  logic [PIPE_W-1:0]       entry_pipe_q, pipe_q, m_pipe_q;
  inc_spec_pkg::pipe_cfg_t entry_q, cfg_q, m_cfg_q;
  logic                    pipe_valid_q, first_q, last_q;
  logic [EP_W-1:0]         index_q;
  logic [6:0]              left_q;             // outs behind this one
  logic                    m_valid_q, m_first_q, m_last_q;

  wire enter = next_valid_q && !entry_valid_q;
  wire emit  = pipe_valid_q && (!m_valid_q || m_ready);
  wire load  = entry_valid_q && !pipe_valid_q;

  assign cfg_pipe  = next_q;
  assign out_rd    = emit;
  assign out_index = index_q;
  assign m_valid   = m_valid_q;
  assign m_ep      = out_ep[EP_W-1:0];
  assign m_pipe    = m_pipe_q;
  assign m_first   = m_first_q;
  assign m_last    = m_last_q;
  assign m_cfg     = m_cfg_q;

  always_ff @(posedge clk) begin
    if (!cand_valid_q && (!next_valid_q || enter)) begin
      cand_valid_q <= live != '0;
      cand_q       <= behind != '0 ? behind : live;
    end
    if (enter) next_valid_q <= 1'b0;
    if (cand_valid_q) begin
      cand_valid_q <= 1'b0;
      next_valid_q <= 1'b1;
      next_q       <= lowest;
      behind_q     <= ~(cand_q ^ below);
    end

    if (load) entry_valid_q <= 1'b0;
    if (enter) begin
      entry_valid_q <= 1'b1;
      entry_pipe_q  <= next_q;
      entry_q       <= cfg;
    end

    if (m_ready) m_valid_q <= 1'b0;
    if (emit) begin
      m_valid_q <= 1'b1;
      m_pipe_q  <= pipe_q;
      m_first_q <= first_q;
      m_last_q  <= last_q;
      m_cfg_q   <= cfg_q;
      first_q   <= 1'b0;
      last_q    <= left_q == 7'd1;
      left_q    <= left_q - 7'd1;
      index_q   <= index_q + EP_W'(1);
      if (last_q) pipe_valid_q <= 1'b0;
    end
    if (load) begin
      pipe_valid_q <= 1'b1;
      pipe_q       <= entry_pipe_q;
      cfg_q        <= entry_q;
      first_q      <= 1'b1;
      last_q       <= entry_q.fan_out == 7'd1;
      left_q       <= entry_q.fan_out - 7'd1;
      index_q      <= entry_q.out_base[EP_W-1:0];
    end

    if (rst || restart) begin
      cand_valid_q  <= 1'b0;
      next_valid_q  <= 1'b0;
      entry_valid_q <= 1'b0;
      pipe_valid_q  <= 1'b0;
      m_valid_q     <= 1'b0;
    end
  end

  wire unused_ok = &{1'b0, cfg, out_ep, cfg_q};

endmodule

`default_nettype wire
