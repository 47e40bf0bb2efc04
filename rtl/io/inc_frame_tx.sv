// Frames for the serial line: the CRC is put behind each, and all of it stuffed (COBS) in a ring,
// where the length of a run is written before the run when it is known.
//
// Streams:       s_* the bytes of frames, the last one marked. m_* bytes for the line.
// Latency:       the bytes of a run leave when it ends, 2 clocks after.
// Throughput:    a byte a clock in, and 2 clocks more for a frame; a byte in 2 clocks out.
// Back-pressure: s_ready is 0 while the ring is full, and at the end of a frame.
// Reset:         synchronous; nothing to send.
// Parameters:    RING_BYTES a power of two, 512..32768: more than the longest frame.
// Source:        docs/serial.md, frames.
`default_nettype none

module inc_frame_tx #(
  parameter int RING_BYTES = 1024
) (
  input  wire       clk,
  input  wire       rst,
  input  wire       s_valid,
  output wire       s_ready,
  input  wire [7:0] s_data,
  input  wire       s_last,
  output wire       m_valid,
  input  wire       m_ready,
  output wire [7:0] m_data,
  output wire       status_idle  // nothing is left to be taken
);

  localparam int AW = $clog2(RING_BYTES);
  localparam logic [1:0] BODY  = 2'd0;
  localparam logic [1:0] CRC   = 2'd1;
  localparam logic [1:0] CLOSE = 2'd2;  // the last run's length
  localparam logic [1:0] LIMIT = 2'd3;  // and the delimiter

  logic [1:0]  state_q, state_d;
  logic [1:0]  crc_byte_q, crc_byte_d;
  logic [AW:0] code_q, code_d;      // where the length of this run goes
  logic [AW:0] wr_q, wr_d;
  logic [AW:0] commit_q, commit_d;  // all before may leave
  logic [AW:0] rd_q;
  logic [7:0]  run_q, run_d;        // bytes of the run, 0..254
  logic        started_q, started_d;
  logic        write;
  logic [AW-1:0] addr;
  logic [7:0]  data, value;
  logic        have, take;
  logic [31:0] crc;
  logic        right_unused;

  wire [AW:0] used = wr_q - rd_q;
  wire        room = used < (AW+1)'(RING_BYTES - 2);

  assign s_ready = state_q == BODY && room && run_q != 8'd254;

  inc_crc32 u_crc (
    .clk(clk), .clear(rst || state_q == LIMIT), .s_valid(s_valid && s_ready), .s_data(s_data),
    .crc(crc), .right(right_unused));

  always_comb begin
    state_d    = state_q;
    crc_byte_d = crc_byte_q;
    code_d     = code_q;
    wr_d       = wr_q;
    commit_d   = commit_q;
    run_d      = run_q;
    started_d  = started_q;
    write      = 1'b0;
    addr       = wr_q[AW-1:0];
    data       = 8'd0;
    have       = state_q == CRC || (state_q == BODY && s_valid);
    value      = state_q == CRC ? crc[{crc_byte_q, 3'b000} +: 8] : s_data;
    take       = 1'b0;
    if (room && have) begin
      write = 1'b1;
      started_d = 1'b1;
      if (run_q == 8'd254) begin  // another byte comes behind a full run
        addr     = code_q[AW-1:0];
        data     = 8'd255;
        commit_d = wr_q;
        code_d   = wr_q;
        wr_d     = wr_q + (AW+1)'(1);
        run_d    = 8'd0;
      end else if (value != 8'd0) begin
        take  = 1'b1;
        data  = value;
        wr_d  = wr_q + (AW+1)'(1);
        run_d = run_q + 8'd1;
      end else begin
        take     = 1'b1;
        addr     = code_q[AW-1:0];
        data     = run_q + 8'd1;
        commit_d = wr_q;
        code_d   = wr_q;
        wr_d     = wr_q + (AW+1)'(1);
        run_d    = 8'd0;
      end
    end
    case (state_q)
      BODY: if (take && s_last) state_d = CRC;
      CRC: begin
        if (take) begin
          crc_byte_d = crc_byte_q + 2'd1;
          if (crc_byte_q == 2'd3) state_d = CLOSE;
        end
      end
      CLOSE: begin
        write   = 1'b1;
        addr    = code_q[AW-1:0];
        data    = run_q + 8'd1;
        state_d = LIMIT;
      end
      default: begin
        if (room) begin
          write     = 1'b1;
          commit_d  = wr_q + (AW+1)'(1);
          code_d    = wr_q + (AW+1)'(1);
          wr_d      = wr_q + (AW+1)'(2);
          run_d     = 8'd0;
          started_d = 1'b0;
          state_d   = BODY;
        end
      end
    endcase
  end

  always_ff @(posedge clk) begin
    state_q    <= state_d;
    crc_byte_q <= crc_byte_d;
    code_q     <= code_d;
    wr_q       <= wr_d;
    commit_q   <= commit_d;
    run_q      <= run_d;
    started_q  <= started_d;
    if (rst) begin
      state_q    <= BODY;
      crc_byte_q <= 2'd0;
      code_q     <= '0;
      wr_q       <= (AW+1)'(1);
      commit_q   <= '0;
      run_q      <= 8'd0;
      started_q  <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- out
  logic valid_q;
  wire  fetch = !valid_q && rd_q != commit_q;

  inc_ram_1r1w #(.DATA_W(8), .DEPTH(RING_BYTES), .FORWARD(2), .RAM_STYLE("block")) u_ring (
    .clk(clk), .wr_en(write), .wr_addr(addr), .wr_data(data),
    .rd_en(fetch), .rd_addr(rd_q[AW-1:0]), .rd_data(m_data));

  assign m_valid     = valid_q;
  assign status_idle = !valid_q && rd_q == commit_q && !started_q && state_q == BODY;

  always_ff @(posedge clk) begin
    if (fetch) valid_q <= 1'b1;
    if (valid_q && m_ready) begin
      valid_q <= 1'b0;
      rd_q    <= rd_q + (AW+1)'(1);
    end
    if (rst) begin
      valid_q <= 1'b0;
      rd_q    <= '0;
    end
  end

  wire unused_ok = &{1'b0, right_unused};

endmodule

`default_nettype wire
