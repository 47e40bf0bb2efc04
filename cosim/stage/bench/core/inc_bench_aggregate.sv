// inc_aggregate_data, and in it inc_alu and inc_slot_ram, between streams.
// Streams: 0 data read for sending; 1 clocks in which such a read had to wait; 2 sums; sources 8 beats
// (always taken), 9 reads.
`default_nettype none

module inc_bench_aggregate (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;
  localparam int ADDR_W = $clog2(BEATS);

  beat_t      beat;
  slot_read_t rd;
  data_t      out;
  sum_t       sum;
  logic [ADDR_W-1:0] sum_addr;
  wire        beat_valid, rd_valid, rd_ready, out_valid, sum_valid;
  assign sum.addr = 16'(sum_addr);

  inc_bench_source #(.STREAM(8), .W($bits(beat))) u_beat (
    .clk(clk), .rst(rst), .handle(handle), .valid(beat_valid), .ready(1'b1), .data(beat));
  inc_bench_source #(.STREAM(9), .W($bits(rd))) u_rd (
    .clk(clk), .rst(rst), .handle(handle), .valid(rd_valid), .ready(rd_ready), .data(rd));

  inc_aggregate_data #(.DATA_W(DATA_W), .DEPTH(BEATS), .FLOAT(1)) u_dut (
    .clk(clk), .rst(rst),
    .s_claim(beat_valid), .s_valid(beat_valid), .s_dtype(beat.dtype), .s_op(beat.op), .s_start(beat.start),
    .s_compare(beat.compare), .s_bank(beat.bank),
    .s_addr(beat.addr[ADDR_W-1:0]), .s_data(beat.data), .s_last(beat.last), .s_id(id_q), .float_busy(),
    .m_sum_valid(sum_valid), .m_sum_bank(sum.bank), .m_sum_addr(sum_addr), .m_sum_data(sum.data),
    .m_sum_last(sum.last), .m_sum_id(sum_id), .m_sum_diff(sum.diff),
    .tx_valid(rd_valid), .tx_ready(rd_ready), .tx_bank(rd.bank), .tx_addr(rd.addr[ADDR_W-1:0]),
    .tx_rd_valid(out_valid), .tx_rd_data(out.data));

  // Beats are numbered, and so must the sums be: they leave in order.
  logic [3:0] id_q, sum_id_q;
  wire  [3:0] sum_id;
  always_ff @(posedge clk) begin
    id_q     <= rst ? '0 : id_q + 4'(beat_valid);
    sum_id_q <= rst ? '0 : sum_id_q + 4'(sum_valid);
    if (!rst && sum_valid) assert (sum_id == sum_id_q);
  end

  inc_bench_watch #(.STREAM(0), .W($bits(out))) u_out (
    .clk(clk), .rst(rst), .handle(handle), .valid(out_valid), .data(out));
  inc_bench_watch #(.STREAM(2), .W($bits(sum))) u_sum (
    .clk(clk), .rst(rst), .handle(handle), .valid(sum_valid), .data(sum));
  inc_bench_watch #(.STREAM(1), .W($bits(rd))) u_wait (
    .clk(clk), .rst(rst), .handle(handle), .valid(rd_valid && !rd_ready), .data(rd));

endmodule

`default_nettype wire
