// FIFO of whole frames between two clocks that need not know each other.
//
// Streams:       s_* on s_clk, m_* on m_clk. A frame can be read when its last word is in, and then
//                comes without a pause if it is read no faster than a word a clock of s_clk.
//                s_drop with s_last: the frame is forgotten.
// Latency:       4 m_clk clocks from the last word in to the first word out, and one s_clk clock.
// Throughput:    1 word per clock of the slower side.
// Back-pressure: LOSSY 0: s_ready falls while the memory is full; a frame longer than the memory
//                is forgotten. LOSSY 1: s_ready is 1, a frame that does not fit is forgotten.
//                stat_dropped: a frame was forgotten.
// Clocks:        what crosses are Gray pointers that move by one, each through two flip-flops.
// Reset:         s_rst and m_rst synchronous to their clocks; both must be held together for 4
//                clocks of the slower. Forgets all frames.
// Parameters:    DATA_W 1..; DEPTH words, a power of two, 4..; LOSSY 0 or 1.
`default_nettype none

module inc_frame_cdc #(
  parameter int DATA_W = 8,
  parameter int DEPTH  = 512,
  parameter int LOSSY  = 0
) (
  input  wire              s_clk,
  input  wire              s_rst,
  input  wire              s_valid,
  output wire              s_ready,
  input  wire              s_last,
  input  wire              s_drop,
  input  wire [DATA_W-1:0] s_data,
  output wire              stat_dropped,

  input  wire              m_clk,
  input  wire              m_rst,
  output wire              m_valid,
  input  wire              m_ready,
  output wire              m_last,
  output wire [DATA_W-1:0] m_data
);

  localparam int AW = $clog2(DEPTH);
  localparam int PW = AW + 1;

  (* ram_style = "block", no_rw_check *)
  logic [DATA_W:0] mem [DEPTH];

  // ---------------------------------------------------------------------------------------------
  // Writer. Words of a frame lie from commit_q on until it ends; shown_q follows commit_q a word a
  // clock, so that its Gray code never changes in two bits.

  logic [PW-1:0] wr_q, wr_d, commit_q, commit_d, shown_q, shown_d, shown_gray_q;
  logic [PW-1:0] rd_q, rd_d, rd_gray_q; // the reader's
  logic [PW-1:0] freed_meta_q, freed_sync_q, freed_q, freed_d;
  logic          over_q, over_d, dropped_q, dropped_d;
  wire           full  = wr_q - freed_q == PW'(DEPTH);
  wire           alone = wr_q - commit_q == PW'(DEPTH); // the frame itself fills all
  wire           take  = s_valid && s_ready;
  wire           store = take && !full && !over_q;

  assign s_ready      = LOSSY != 0 || !full || alone || over_q;
  assign stat_dropped = dropped_q;

  always_comb begin
    freed_d = '0;
    for (int i = 0; i < PW; i++) freed_d[i] = ^(freed_sync_q >> i);
    wr_d      = wr_q + PW'(store);
    commit_d  = commit_q;
    over_d    = over_q || (take && !store);
    dropped_d = 1'b0;
    if (take && s_last) begin
      over_d = 1'b0;
      if (s_drop || !store) begin
        wr_d      = commit_q;
        dropped_d = 1'b1;
      end else begin
        commit_d = wr_d;
      end
    end
    shown_d = shown_q + PW'(shown_q != commit_q);
  end

  always_ff @(posedge s_clk) begin
    if (store) mem[wr_q[AW-1:0]] <= {s_last, s_data};
  end

  always_ff @(posedge s_clk) begin
    wr_q         <= wr_d;
    commit_q     <= commit_d;
    shown_q      <= shown_d;
    shown_gray_q <= shown_d ^ (shown_d >> 1);
    over_q       <= over_d;
    dropped_q    <= dropped_d;
    freed_meta_q <= rd_gray_q;
    freed_sync_q <= freed_meta_q;
    freed_q      <= freed_d;
    if (s_rst) begin
      wr_q         <= '0;
      commit_q     <= '0;
      shown_q      <= '0;
      shown_gray_q <= '0;
      over_q       <= 1'b0;
      dropped_q    <= 1'b0;
      freed_meta_q <= '0;
      freed_sync_q <= '0;
      freed_q      <= '0;
    end
  end

  // ---------------------------------------------------------------------------------------------
  // Reader.

  logic [PW-1:0]   shown_meta_q, shown_sync_q;
  logic            valid_q;
  logic [DATA_W:0] word_q;
  wire             fetch = rd_gray_q != shown_sync_q && (!valid_q || m_ready);

  assign m_valid          = valid_q;
  assign {m_last, m_data} = word_q;

  always_comb begin
    rd_d = rd_q + PW'(fetch);
  end

  always_ff @(posedge m_clk) begin
    if (fetch) word_q <= mem[rd_q[AW-1:0]];
  end

  always_ff @(posedge m_clk) begin
    rd_q         <= rd_d;
    rd_gray_q    <= rd_d ^ (rd_d >> 1);
    shown_meta_q <= shown_gray_q;
    shown_sync_q <= shown_meta_q;
    valid_q      <= fetch || (valid_q && !m_ready);
    if (m_rst) begin
      rd_q         <= '0;
      rd_gray_q    <= '0;
      shown_meta_q <= '0;
      shown_sync_q <= '0;
      valid_q      <= 1'b0;
    end
  end

`ifdef INC_ASSERT
  initial begin
    assert (DEPTH >= 4 && (DEPTH & (DEPTH - 1)) == 0);
  end
  // What crosses changes in one bit at most.
  logic [PW-1:0] f_shown_q, f_rd_q;
  logic          f_s_q, f_m_q;
  always_ff @(posedge s_clk) begin
    f_s_q     <= !s_rst;
    f_shown_q <= shown_gray_q;
    if (!s_rst) assert (wr_q - freed_q <= PW'(DEPTH));
    if (!s_rst && f_s_q) assert ($onehot0(shown_gray_q ^ f_shown_q));
  end
  always_ff @(posedge m_clk) begin
    f_m_q  <= !m_rst;
    f_rd_q <= rd_gray_q;
    if (!m_rst && f_m_q) assert ($onehot0(rd_gray_q ^ f_rd_q));
  end
`endif

endmodule

`default_nettype wire
