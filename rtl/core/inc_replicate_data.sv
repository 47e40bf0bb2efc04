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
// Back-pressure: m_pay_ready low fills an 8-beat FIFO, then reads stop.
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

  logic              busy_q;
  logic              bank_q;
  logic [ADDR_W-1:0] addr_q;
  logic [15:0]       left_q;
  logic              last_q;            // the beat whose data arrives now is its slot's last
  wire [CNT_W-1:0]   count;
  wire               fifo_ready;

  // room for the beat asked for now, the one arriving, and those stored
  wire room     = count + CNT_W'(tx_rd_valid) < CNT_W'(DEPTH - 1);
  assign tx_valid = busy_q && room;
  assign tx_bank  = bank_q;
  assign tx_addr  = addr_q;
  wire go       = tx_valid && tx_ready;
  wire end_go   = go && left_q == 16'd1;
  assign s_rd_ready = !busy_q || end_go;
  wire take     = s_rd_valid && s_rd_ready;
  wire empty    = take && s_rd_beats == 16'd0;

  // Pulses must be one per descriptor: the end of one and an empty next may fall together.
  logic  owed_q;
  assign done = end_go || empty || owed_q;

  always_ff @(posedge clk) begin
    owed_q <= (32'(end_go) + 32'(empty) + 32'(owed_q)) > 32'd1;
    last_q <= end_go;
    if (go) begin
      addr_q <= addr_q + ADDR_W'(1);
      left_q <= left_q - 16'd1;
    end
    if (end_go) busy_q <= 1'b0;
    if (take && s_rd_beats != 16'd0) begin
      busy_q <= 1'b1;
      bank_q <= s_rd_bank;
      addr_q <= s_rd_addr;
      left_q <= s_rd_beats;
    end
    if (rst) begin
      busy_q <= 1'b0;
      owed_q <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst && tx_rd_valid) assert (fifo_ready);
    if (!rst) assert (!(end_go && empty && owed_q));
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
