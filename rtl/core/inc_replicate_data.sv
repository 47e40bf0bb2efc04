// ReplicateData: every out's copy of a result is read from the slot when it is that copy's turn.
//
// Nothing is copied in memory: fan-out costs one read of the slot per out, on a port that the
// adder does not need (microarchitecture.md "The ports of a bank").
//
// Streams:       s_rd_* descriptors (bank, first beat, beats; 0 beats for frames without
//                payload);
//                tx_* reads of the slot memory; m_pay_* payload beats to the deparser, last on a
//                      slot's last.
// Latency:       2 clocks from descriptor to first beat. Throughput: 1 beat per clock.
// Back-pressure: m_pay_ready low fills an 8-beat FIFO, then reads stop. One descriptor is taken
//                ahead, and up to 6 without payload before it: an ACK between two results does not
//                keep the second from being read.
// done:          one-clock pulse per descriptor, in order, once its last beat has been read.
// Reset:         empty.
// Parameters:    DATA_W 64..4096; ADDR_W bits of a beat address.
// Source:        protocol.md 6 (results are read from their slot), paper module ReplicateData.
`default_nettype none

module inc_replicate_data #(
  parameter int DATA_W = 512,
  parameter int ADDR_W = 11
) (
  input  wire              clk,
  input  wire              rst,

  input  wire              s_rd_valid,
  output wire              s_rd_ready,
  input  wire              s_rd_bank,
  input  wire [ADDR_W-1:0] s_rd_addr,
  input  wire [15:0]       s_rd_beats,
  output wire              done,
  output wire              quiet,      // nothing is inside

  output wire              tx_valid,
  input  wire              tx_ready,
  output wire              tx_bank,
  output wire [ADDR_W-1:0] tx_addr,
  input  wire              tx_rd_valid,
  input  wire [DATA_W-1:0] tx_rd_data,

  output wire              m_pay_valid,
  input  wire              m_pay_ready,
  output wire [DATA_W-1:0] m_pay_data,
  output wire              m_pay_last
);

  localparam int DEPTH = 8;
  localparam int CNT_W = $clog2(DEPTH + 1);

  localparam int OWED_W = 5;

  logic              busy_q, next_q;    // reading; another one waits
  logic              bank_q, next_bank_q;
  logic [ADDR_W-1:0] addr_q, next_addr_q;
  logic [15:0]       left_q, next_left_q;
  logic              one_q;             // left_q is 1
  logic              last_q;            // the beat whose data arrives now is its slot's last
  logic [OWED_W-1:0] empty_q;           // without payload, behind the one that is being read
  logic [OWED_W-1:0] owed_q;            // ended, and done not pulsed yet
  wire [CNT_W-1:0]   count;
  wire               fifo_ready;

  // room for the beat asked for now, the one arriving, and those stored
  wire room     = count + CNT_W'(tx_rd_valid) < CNT_W'(DEPTH - 1);
  assign tx_valid = busy_q && room;
  assign tx_bank  = bank_q;
  assign tx_addr  = addr_q;
  wire go       = tx_valid && tx_ready;
  wire end_go   = go && one_q;

  // A descriptor starts at once, waits for the end of the one before, or is only counted.
  logic  room_q;                        // for one more that is counted
  assign s_rd_ready = !next_q && room_q;
  wire take     = s_rd_valid && s_rd_ready;
  wire empty    = take && s_rd_beats == 16'd0;
  wire load     = take && s_rd_beats != 16'd0;
  wire open     = !busy_q || end_go;    // another one may start
  assign done   = owed_q != '0;
  assign quiet  = !busy_q && !next_q && owed_q == '0 && count == '0;

  // Those that ended in this clock: the one read, the empty ones behind it, and one that comes
  // while nothing is read.
  wire [OWED_W-1:0] ended = (end_go ? empty_q + OWED_W'(1) : '0)
                            + OWED_W'(empty && open);

  always_ff @(posedge clk) begin
    room_q <= owed_q < OWED_W'(8) && empty_q < OWED_W'(6);
    owed_q <= owed_q + ended - OWED_W'(done);
    if (end_go) empty_q <= '0;
    else if (empty && busy_q) empty_q <= empty_q + OWED_W'(1);
    last_q <= end_go;
    if (go) begin
      addr_q <= addr_q + ADDR_W'(1);
      left_q <= left_q - 16'd1;
      one_q  <= left_q == 16'd2;
    end
    if (end_go) busy_q <= 1'b0;
    if (open && (next_q || load)) begin
      busy_q <= 1'b1;
      bank_q <= next_q ? next_bank_q : s_rd_bank;
      addr_q <= next_q ? next_addr_q : s_rd_addr;
      left_q <= next_q ? next_left_q : s_rd_beats;
      one_q  <= (next_q ? next_left_q : s_rd_beats) == 16'd1;
      next_q <= 1'b0;
    end else if (load) begin
      next_q      <= 1'b1;
      next_bank_q <= s_rd_bank;
      next_addr_q <= s_rd_addr;
      next_left_q <= s_rd_beats;
    end
    if (rst) begin
      busy_q  <= 1'b0;
      next_q  <= 1'b0;
      room_q  <= 1'b0;
      empty_q <= '0;
      owed_q  <= '0;
    end
`ifdef INC_ASSERT
    if (!rst && tx_rd_valid) assert (fifo_ready);
    if (!rst) assert (32'(owed_q) + 32'(ended) < 32'd32);
`endif
  end

  inc_fifo #(.DATA_W(DATA_W + 1), .DEPTH(DEPTH)) u_fifo (
    .clk(clk), .rst(rst),
    .s_valid(tx_rd_valid), .s_ready(fifo_ready), .s_data({last_q, tx_rd_data}),
    .m_valid(m_pay_valid), .m_ready(m_pay_ready), .m_data({m_pay_last, m_pay_data}),
    .count(count));

  wire unused_ok = &{1'b0, fifo_ready};

endmodule

`default_nettype wire
