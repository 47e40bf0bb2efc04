// Frames of the serial line: COBS is undone and the CRC checked on the way into a ring. A frame
// that is not right in every byte is as if it had not come.
//
// Streams:       s_* bytes of the line. m_* the bytes of whole, right frames without their CRC;
//                len says how many the next frame has, from before its first byte to its last.
// Latency:       a frame shows 2 clocks after its delimiter.
// Throughput:    a byte in 2 clocks, in and out.
// Back-pressure: m_ready. A frame for which there is no room is dropped: the host keeps to the
//                window that hello tells.
// Reset:         synchronous; no frame.
// Parameters:    RING_BYTES a power of two, 512..32768; FRAMES a power of two, 2..128; MIN_BYTES,
//                MAX_BYTES of a frame without CRC, 1..511.
// Source:        docs/serial.md, frames and window.
`default_nettype none

module inc_frame_rx #(
  parameter int RING_BYTES = 4096,
  parameter int FRAMES     = 16,
  parameter int MIN_BYTES  = inc_uart_pkg::REQUEST_HEADER_BYTES,
  parameter int MAX_BYTES  = inc_uart_pkg::REQUEST_HEADER_BYTES + inc_uart_pkg::PAYLOAD_BYTES
) (
  input  wire       clk,
  input  wire       rst,
  input  wire       s_valid,
  input  wire [7:0] s_data,
  input  wire       s_bad,    // a byte was lost here
  output wire       m_valid,
  input  wire       m_ready,
  output wire [7:0] m_data,
  output wire       m_last,
  output wire       len_valid,
  output wire [8:0] len
);

  localparam int AW  = $clog2(RING_BYTES);
  localparam int CRC = inc_uart_pkg::CRC_BYTES;

  // ---------------------------------------------------------------- COBS
  logic       in_frame_q;  // a code byte was seen since the delimiter
  logic [7:0] run_q;       // bytes that are left of the run
  logic       zero_q;      // a zero is between this run and the next
  logic       bad_q;

  wire is_end  = s_valid && s_data == 8'd0;
  wire is_code = s_valid && s_data != 8'd0 && run_q == 8'd0;
  wire is_byte = s_valid && s_data != 8'd0 && run_q != 8'd0;
  wire take    = is_byte || (is_code && in_frame_q && zero_q);  // a byte of the frame
  wire [7:0] value = is_byte ? s_data : 8'd0;

  always_ff @(posedge clk) begin
    if (is_code) begin
      in_frame_q <= 1'b1;
      run_q      <= s_data - 8'd1;
      zero_q     <= s_data != 8'hff;
    end
    if (is_byte) run_q <= run_q - 8'd1;
    if (s_bad) bad_q <= 1'b1;
    if (is_end) begin
      in_frame_q <= 1'b0;
      run_q      <= 8'd0;
      bad_q      <= 1'b0;
    end
    if (rst) begin
      in_frame_q <= 1'b0;
      run_q      <= 8'd0;
      bad_q      <= 1'b1;  // whatever is under way
    end
  end

  // ---------------------------------------------------------------- CRC and ring
  logic [8*CRC-1:0] held_q;             // the last bytes: the CRC, when the frame ends
  logic [9:0]       count_q;            // bytes of the frame, up to more than it may have
  logic [AW:0]      wr_q, commit_q, rd_q;
  logic             full_q;             // a byte found no room
  logic             end_q;              // the delimiter was seen in the clock before
  logic             whole_q;
  logic             crc_right;
  logic [31:0]      crc_unused;
  logic             len_ready, fits;

  inc_crc32 u_crc (
    .clk(clk), .clear(rst || end_q), .s_valid(take), .s_data(value),
    .crc(crc_unused), .right(crc_right));

  wire [AW:0] used  = wr_q - rd_q;
  wire        write = take && count_q >= 10'(CRC) && !used[AW];
  wire        good  = end_q && whole_q && crc_right && fits && !full_q && len_ready;

  assign fits = count_q >= 10'(MIN_BYTES + CRC) && count_q <= 10'(MAX_BYTES + CRC);

  always_ff @(posedge clk) begin
    end_q <= is_end;
    if (is_end) whole_q <= in_frame_q && run_q == 8'd0 && !bad_q && !s_bad;
    if (take) begin
      held_q <= {value, held_q[8*CRC-1:8]};
      if (count_q != '1) count_q <= count_q + 10'd1;
      if (count_q >= 10'(CRC) && used[AW]) full_q <= 1'b1;
    end
    if (write) wr_q <= wr_q + (AW+1)'(1);
    if (end_q) begin
      count_q <= '0;
      full_q  <= 1'b0;
      if (good) commit_q <= wr_q;
      else wr_q <= commit_q;
    end
    if (rst) begin
      end_q    <= 1'b0;
      count_q  <= '0;
      full_q   <= 1'b0;
      wr_q     <= '0;
      commit_q <= '0;
    end
  end

  // ---------------------------------------------------------------- out
  logic       valid_q;  // the byte at rd_q has been read from the ring
  logic       fetch;
  logic [8:0] sent_q;   // bytes of this frame that were taken
  logic       pop;
  localparam int CW = $clog2(FRAMES + 1);
  logic [CW-1:0] count_unused;

  assign fetch   = !valid_q && rd_q != commit_q;
  assign m_valid = valid_q && len_valid;
  assign m_last  = sent_q + 9'd1 == len;
  assign pop     = m_valid && m_ready && m_last;

  inc_ram_1r1w #(.DATA_W(8), .DEPTH(RING_BYTES), .FORWARD(2), .RAM_STYLE("block")) u_ring (
    .clk(clk), .wr_en(write), .wr_addr(wr_q[AW-1:0]), .wr_data(held_q[7:0]),
    .rd_en(fetch), .rd_addr(rd_q[AW-1:0]), .rd_data(m_data));

  inc_fifo #(.DATA_W(9), .DEPTH(FRAMES)) u_lengths (
    .clk(clk), .rst(rst), .s_valid(good), .s_ready(len_ready), .s_data(9'(count_q - 10'(CRC))),
    .m_valid(len_valid), .m_ready(pop), .m_data(len), .count(count_unused));

  always_ff @(posedge clk) begin
    if (fetch) valid_q <= 1'b1;
    if (m_valid && m_ready) begin
      valid_q <= 1'b0;
      rd_q    <= rd_q + (AW+1)'(1);
      sent_q  <= m_last ? 9'd0 : sent_q + 9'd1;
    end
    if (rst) begin
      valid_q <= 1'b0;
      rd_q    <= '0;
      sent_q  <= '0;
    end
  end

  wire unused_ok = &{1'b0, crc_unused, count_unused};

`ifdef INC_ASSERT
  initial assert_ring: assert (RING_BYTES >= MAX_BYTES && (RING_BYTES & (RING_BYTES - 1)) == 0);
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert_apart: assert (!(end_q && take));  // bytes of a line are many clocks apart
      assert_in_ring: assert (used <= (AW+1)'(RING_BYTES));
    end
  end
`endif

endmodule

`default_nettype wire
