// Keeps every received frame until it is decided what becomes of it; hands on, whole and
// unchanged, those that are not the engine's.
//
// Streams:       s_tap_*: every beat taken on s_axis_rx (s_tap_tvalid only while tap_ready).
//                m_axis_bypass_* out, tid the ingress port.
// Decision:      head_valid: the oldest undecided frame is complete. head_fits: the output FIFO
//                has room for all of it. dec_valid (only with head_valid) decides: dec_bypass 1
//                (only with head_fits) sends it, 0 forgets it. One decision per clock.
// Latency:       head_valid 3 clocks after the last beat; 9 clocks from the decision to the first
//                beat out.
// Throughput:    1 beat per clock in and out; a forgotten frame costs 1 clock.
// Back-pressure: tap_ready is a register, 0 while the ring of undecided frames (or its list) is
//                full. Frames to send are moved to a memory of their own, so an output that is
//                never ready fills only that: frames then do not fit, and the input goes on.
// Long frames:   of a frame of more than FRAME_MAX bytes only the beginning is kept; it never
// fits.
// Reset:         synchronous; forgets all frames.
// Parameters:    DATA_W 64..4096, a power of two. RING_BYTES, OUT_BYTES: powers of two, at least
//                8*DATA_W/8. FRAME_MAX bytes, a multiple of DATA_W/8, less than both by 8 beats
//                or more. LIST 16.. a power of two: undecided frames at most.
// Source:        docs/architecture.md "RTL"; protocol.md 3.
`default_nettype none

module inc_bypass #(
  parameter int DATA_W     = 512,
  parameter int RING_BYTES = 16384,
  parameter int OUT_BYTES  = 16384,
  parameter int FRAME_MAX  = 9216 + 512,
  parameter int LIST       = 64
) (
  input  wire                clk,
  input  wire                rst,

  input  wire [DATA_W-1:0]   s_tap_tdata,
  input  wire [DATA_W/8-1:0] s_tap_tkeep,
  input  wire                s_tap_tvalid,
  input  wire                s_tap_tlast,
  input  wire [7:0]          s_tap_tid,
  output wire                tap_ready,

  output wire                head_valid,
  output wire                head_fits,
  input  wire                dec_valid,
  input  wire                dec_bypass,

  output wire [DATA_W-1:0]   m_axis_bypass_tdata,
  output wire [DATA_W/8-1:0] m_axis_bypass_tkeep,
  output wire                m_axis_bypass_tvalid,
  input  wire                m_axis_bypass_tready,
  output wire                m_axis_bypass_tlast,
  output wire [7:0]          m_axis_bypass_tid
);

  localparam int BYTES      = DATA_W / 8;
  localparam int LANE_W     = $clog2(BYTES);
  localparam int RING_BEATS = RING_BYTES / BYTES;
  localparam int OUT_BEATS  = OUT_BYTES / BYTES;
  localparam int MAX_BEATS  = FRAME_MAX / BYTES;
  localparam int RING_AW    = $clog2(RING_BEATS);
  localparam int OUT_AW     = $clog2(OUT_BEATS);
  localparam int COUNT_W    = ((RING_AW > OUT_AW) ? RING_AW : OUT_AW) + 1; // beats, all memories
  localparam int LIST_CW    = $clog2(LIST + 1);

  typedef struct packed {
    logic [7:0]        tid;
    logic              last;
    logic [LANE_W-1:0] lane; // last byte kept
    logic [DATA_W-1:0] data;
  } beat_t;

  // ---------------------------------------------------------------------------------------------
  // Into the ring. `over` frames stop being stored; their last beat is only counted as their end.

  beat_t              tap;
  localparam int BEAT_W = $bits(tap);
  logic               tap_ready_q, tap_ready_d;
  logic [RING_AW-1:0] ring_wr_q, ring_wr_d;
  logic [COUNT_W-1:0] kept_q, kept_d;     // beats of this frame in the ring
  logic               full_q, full_d;     // as many as are kept of a frame
  logic               over_q, over_d;
  logic [COUNT_W-1:0] used_q, used_d;     // beats in the ring
  logic [COUNT_W-1:0] freed_q, freed_d;   // beats read or forgotten
  wire                store = s_tap_tvalid && !full_q;
  logic               end_q;              // a frame is complete: {end_over_q, end_len_q}
  logic               end_over_q;
  logic [COUNT_W-1:0] end_len_q;
  wire                list_room;
  wire [LIST_CW-1:0]  list_count;

  assign tap_ready = tap_ready_q;

  always_comb begin
    tap.tid  = s_tap_tid;
    tap.last = s_tap_tlast;
    tap.data = s_tap_tdata;
    tap.lane = '1;
    if (s_tap_tlast) begin // else tkeep is full
      tap.lane = '0;
      for (int i = 1; i < BYTES; i++) begin
        if (s_tap_tkeep[i] && (i == BYTES-1 || !s_tap_tkeep[(i+1)%BYTES])) begin
          tap.lane = tap.lane | LANE_W'(i);
        end
      end
    end
    ring_wr_d = ring_wr_q;
    kept_d    = kept_q;
    over_d    = over_q;
    full_d    = full_q;
    if (store) begin
      full_d    = kept_q == COUNT_W'(MAX_BEATS - 1);
      ring_wr_d = ring_wr_q + RING_AW'(1);
      kept_d    = kept_q + COUNT_W'(1);
    end
    if (s_tap_tvalid && !store) over_d = 1'b1;
    if (s_tap_tvalid && s_tap_tlast) begin
      kept_d = '0;
      over_d = 1'b0;
      full_d = 1'b0;
    end
    used_d = used_q + COUNT_W'(store) - freed_q;
    // Two more beats may come before a change here is seen.
    tap_ready_d = used_q <= COUNT_W'(RING_BEATS - 4) && list_count <= LIST_CW'(LIST - 4);
  end

  always_ff @(posedge clk) begin
    ring_wr_q   <= ring_wr_d;
    kept_q      <= kept_d;
    over_q      <= over_d;
    full_q      <= full_d;
    freed_q     <= freed_d;
    used_q      <= used_d;
    tap_ready_q <= tap_ready_d;
    end_q       <= s_tap_tvalid && s_tap_tlast;
    end_over_q  <= over_q || !store;
    end_len_q   <= kept_q + COUNT_W'(store);
    if (rst) begin
      ring_wr_q   <= '0;
      kept_q      <= '0;
      over_q      <= 1'b0;
      full_q      <= 1'b0;
      freed_q     <= '0;
      used_q      <= '0;
      tap_ready_q <= 1'b0;
      end_q       <= 1'b0;
    end
  end

  // ---------------------------------------------------------------------------------------------
  // Undecided frames, and the decided ones that the mover has not seen to.

  // The oldest is in registers, with what it takes to know at once whether the next one fits:
  // room_q compared with its length, alone and behind the one that is decided now.

  wire               list_valid;
  wire               list_over;
  wire [COUNT_W-1:0] list_len;
  logic              head_valid_q;
  logic              head_over_q;
  logic [COUNT_W-1:0] head_len_q;
  logic              head_fits_q, head_fits_d;
  wire               job_room;
  wire               job_valid;
  wire               job_ready;
  wire               job_send;
  wire [COUNT_W-1:0] job_len;
  wire [3:0]         unused_job_count;
  logic [COUNT_W-1:0] room_q, room_d;      // beats of the output memory not promised yet
  logic              taken_q;              // a beat has left
  wire               decide = dec_valid && head_valid;
  wire               send   = decide && dec_bypass && head_fits_q;
  wire               out_taken;
  // Room behind both; negative if they do not fit.
  wire [COUNT_W+1:0] room_both = {2'b00, room_q} - {2'b00, list_len} - {2'b00, head_len_q};

  assign head_valid = head_valid_q && job_room;
  assign head_fits  = head_fits_q;

  always_comb begin
    room_d = room_q + COUNT_W'(taken_q) - (send ? head_len_q : '0);
    head_fits_d = !list_over && (send ? !room_both[COUNT_W+1] : list_len <= room_q);
    if (head_valid_q && !decide) head_fits_d = !head_over_q && head_len_q <= room_q;
  end

  always_ff @(posedge clk) begin
    room_q      <= room_d;
    taken_q     <= out_taken;
    head_fits_q <= head_fits_d;
    if (decide || !head_valid_q) begin
      head_valid_q <= list_valid;
      head_over_q  <= list_over;
      head_len_q   <= list_len;
    end
    if (rst) begin
      room_q       <= COUNT_W'(OUT_BEATS);
      taken_q      <= 1'b0;
      head_valid_q <= 1'b0;
    end
  end

  inc_fifo #(
    .DATA_W (1 + COUNT_W),
    .DEPTH  (LIST),
    .OUT_REG(1)
  ) u_list_fifo (
    .clk    (clk),
    .rst    (rst),
    .s_valid(end_q),
    .s_ready(list_room),
    .s_data ({end_over_q, end_len_q}),
    .m_valid(list_valid),
    .m_ready(decide || !head_valid_q),
    .m_data ({list_over, list_len}),
    .count  (list_count)
  );

  inc_fifo #(
    .DATA_W (1 + COUNT_W),
    .DEPTH  (8),
    .OUT_REG(1)
  ) u_job_fifo (
    .clk    (clk),
    .rst    (rst),
    .s_valid(decide),
    .s_ready(job_room),
    .s_data ({send, head_len_q}),
    .m_valid(job_valid),
    .m_ready(job_ready),
    .m_data ({job_send, job_len}),
    .count  (unused_job_count)
  );

  // ---------------------------------------------------------------------------------------------
  // Mover: skips a frame in one clock, or copies it beat by beat into the space promised to it.

  logic [RING_AW-1:0] ring_rd_q, ring_rd_d;
  logic               copy_q, copy_d;      // a frame is being copied
  logic               final_q, final_d;    // this is its last beat
  logic [COUNT_W-1:0] left_q, left_d;      // beats left of it
  wire                skip = job_valid && job_ready && !job_send;
  logic               fetch1_q;            // a beat is at the output of the ring
  logic               arrive_q;            // and in a register
  logic [OUT_AW-1:0]  out_wr_q;
  wire [BEAT_W-1:0]   ring_out;
  logic [BEAT_W-1:0]  ring_q;

  assign job_ready = !copy_q || final_q;

  always_comb begin
    ring_rd_d = ring_rd_q + (skip ? RING_AW'(job_len) : '0) + RING_AW'(copy_q);
    freed_d   = (skip ? job_len : '0) + COUNT_W'(copy_q);
    copy_d    = copy_q && !final_q;
    left_d    = left_q - COUNT_W'(1);
    final_d   = left_q == COUNT_W'(2);
    if (job_ready) begin
      copy_d  = job_valid && job_send;
      left_d  = job_len;
      final_d = job_len == COUNT_W'(1);
    end
  end

  always_ff @(posedge clk) begin
    ring_rd_q <= ring_rd_d;
    copy_q    <= copy_d;
    final_q   <= final_d;
    left_q    <= left_d;
    fetch1_q  <= copy_q;
    arrive_q  <= fetch1_q;
    ring_q    <= ring_out;
    if (arrive_q) out_wr_q <= out_wr_q + OUT_AW'(1);
    if (rst) begin
      ring_rd_q <= '0;
      copy_q    <= 1'b0;
      fetch1_q  <= 1'b0;
      arrive_q  <= 1'b0;
      out_wr_q  <= '0;
    end
  end

  inc_ram_1r1w #(
    .DATA_W   (BEAT_W),
    .DEPTH    (RING_BEATS),
    .FORWARD  (2),
    .RAM_STYLE("block")
  ) u_ring (
    .clk    (clk),
    .wr_en  (store),
    .wr_addr(ring_wr_q),
    .wr_data(tap),
    .rd_en  (copy_q),
    .rd_addr(ring_rd_q),
    .rd_data(ring_out)
  );

  // ---------------------------------------------------------------------------------------------
  // Output memory; a FIFO of 4 behind it hides its read clock and a register.

  logic [COUNT_W-1:0] stored_q, stored_d;  // beats in the memory, not read
  logic [OUT_AW-1:0]  out_rd_q;
  logic               read_q;              // a beat read is at the memory's output
  logic               fetched_q;           // and in a register
  wire [BEAT_W-1:0]   out_beat;
  logic [BEAT_W-1:0]  out_beat_q;
  wire [BEAT_W-1:0]   port_beat;
  beat_t              port;
  wire                port_room;
  wire [2:0]          port_count;
  logic               some_q;              // stored_q is not 0
  wire  [3:0]         coming = {1'b0, port_count} + {3'd0, read_q} + {3'd0, fetched_q};
  wire                fetch = some_q && coming < 4'd4;

  assign out_taken = m_axis_bypass_tvalid && m_axis_bypass_tready;

  always_comb begin
    stored_d = stored_q + COUNT_W'(arrive_q) - COUNT_W'(fetch);
  end

  always_ff @(posedge clk) begin
    stored_q   <= stored_d;
    some_q     <= stored_d != '0;
    read_q     <= fetch;
    fetched_q  <= read_q;
    out_beat_q <= out_beat;
    if (fetch) out_rd_q <= out_rd_q + OUT_AW'(1);
    if (rst) begin
      stored_q  <= '0;
      some_q    <= 1'b0;
      read_q    <= 1'b0;
      fetched_q <= 1'b0;
      out_rd_q  <= '0;
    end
  end

  inc_ram_1r1w #(
    .DATA_W   (BEAT_W),
    .DEPTH    (OUT_BEATS),
    .FORWARD  (2),
    .RAM_STYLE("block")
  ) u_out (
    .clk    (clk),
    .wr_en  (arrive_q),
    .wr_addr(out_wr_q),
    .wr_data(ring_q),
    .rd_en  (fetch),
    .rd_addr(out_rd_q),
    .rd_data(out_beat)
  );

  inc_fifo #(
    .DATA_W(BEAT_W),
    .DEPTH (4)
  ) u_port_fifo (
    .clk    (clk),
    .rst    (rst),
    .s_valid(fetched_q),
    .s_ready(port_room),
    .s_data (out_beat_q),
    .m_valid(m_axis_bypass_tvalid),
    .m_ready(m_axis_bypass_tready),
    .m_data (port_beat),
    .count  (port_count)
  );

  assign port = port_beat;
  assign m_axis_bypass_tdata = port.data;
  assign m_axis_bypass_tlast = port.last;
  assign m_axis_bypass_tid   = port.tid;

  logic [BYTES-1:0] keep;
  assign m_axis_bypass_tkeep = keep;
  always_comb begin
    keep = '1;
    if (port.last) begin
      for (int i = 0; i < BYTES; i++) begin
        keep[i] = port.lane >= LANE_W'(i);
      end
    end
  end

`ifdef INC_ASSERT
  initial begin
    assert (MAX_BEATS + 8 <= RING_BEATS && MAX_BEATS <= OUT_BEATS);
  end
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!end_q || list_room);
      assert (used_q <= COUNT_W'(RING_BEATS));
      assert (!fetched_q || port_room);
      assert (!dec_valid || head_valid);
      assert (!(dec_valid && dec_bypass) || head_fits);
      assert (room_q <= COUNT_W'(OUT_BEATS));
    end
  end
`endif

endmodule

`default_nettype wire
