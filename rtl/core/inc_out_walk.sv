// A walk that goes round the outs of every live pipe, one pipe after the other, for ever.
//
// Streams:       m_* the next out to visit, prepared ahead: its pipe, that pipe's cfg, endpoint,
//                whether it is the first or last out of its pipe. Taken with m_ready.
// Ports:         cfg_pipe, cfg: asynchronous read of pipe_cfg. out_rd, out_index: read of out_list;
//                out_ep is it from the next clock on, until the next out_rd.
// Latency:       1 clock from taken to the next, 2 where the pipe changes.
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

  logic [PIPE_W-1:0]       pipe_q;           // the pipe whose outs are being prepared
  logic                    pipe_valid_q;
  logic [6:0]              index_q;
  logic                    valid_q, first_q, last_q;
  logic [PIPE_W-1:0]       m_pipe_q;
  inc_spec_pkg::pipe_cfg_t cfg_q;

  wire              next_valid;
  wire [PIPES-1:0]  next_onehot;
  wire [PIPE_W-1:0] next_idx;
  wire prepare = pipe_valid_q && (!valid_q || m_ready);
  wire last    = index_q + 7'd1 == cfg.fan_out;
  wire load    = next_valid && (!pipe_valid_q || (prepare && last));

  inc_rr_arb #(.N(PIPES)) u_next (
    .clk(clk), .rst(rst), .req(live), .advance(load),
    .grant_valid(next_valid), .grant(next_onehot), .grant_idx(next_idx));

  assign cfg_pipe  = pipe_q;
  assign out_rd    = prepare;
  assign out_index = cfg.out_base[EP_W-1:0] + EP_W'(index_q);
  assign m_valid   = valid_q;
  assign m_ep      = out_ep[EP_W-1:0];
  assign m_pipe    = m_pipe_q;
  assign m_first   = first_q;
  assign m_last    = last_q;
  assign m_cfg     = cfg_q;

  always_ff @(posedge clk) begin
    if (m_ready) valid_q <= 1'b0;
    if (prepare) begin
      valid_q  <= 1'b1;
      m_pipe_q <= pipe_q;
      first_q  <= index_q == 7'd0;
      last_q   <= last;
      cfg_q    <= cfg;
      index_q  <= last ? 7'd0 : index_q + 7'd1;
      if (last) pipe_valid_q <= 1'b0;
    end
    if (load) begin
      pipe_valid_q <= 1'b1;
      pipe_q       <= next_idx;
      index_q      <= 7'd0;
    end
    if (pipe_valid_q && !live[pipe_q]) pipe_valid_q <= 1'b0;
    if (rst || restart) begin
      pipe_valid_q <= 1'b0;
      valid_q      <= 1'b0;
      index_q      <= 7'd0;
    end
  end

  wire unused_ok = &{1'b0, next_onehot, cfg, out_ep};

endmodule

`default_nettype wire
