// inc_replicate_data between streams. The slot memory is written by the driver beforehand; its answers
// come a clock after a read that was taken, and it takes reads at random.
// Streams: 0 payload; 1 reads taken; 2 done pulses; sources 8 descriptors, 9 memory writes.
`default_nettype none

module inc_bench_replicate (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;
  localparam int ADDR_W = $clog2(BEATS);

  read_desc_t desc;
  beat_t      wr;
  slot_read_t rd;
  pay_t       pay;
  pulse_t     pulse;
  logic       answer_q;
  logic [DATA_W-1:0] data;
  wire [ADDR_W-1:0]  addr;
  wire        desc_valid, desc_ready, wr_valid, rd_valid, rd_ready, pay_valid, pay_ready, done, quiet;

  inc_bench_source #(.STREAM(8), .W($bits(desc))) u_desc (
    .clk(clk), .rst(rst), .handle(handle), .valid(desc_valid), .ready(desc_ready), .data(desc));
  inc_bench_source #(.STREAM(9), .W($bits(wr))) u_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(wr_valid), .ready(1'b1), .data(wr));

  inc_ram_1r1w #(.DATA_W(DATA_W), .DEPTH(2 * BEATS)) u_memory (
    .clk(clk), .wr_en(wr_valid), .wr_addr({wr.bank, wr.addr[ADDR_W-1:0]}), .wr_data(wr.data),
    .rd_en(rd_valid && rd_ready), .rd_addr({rd.bank, addr}), .rd_data(data));
  always_ff @(posedge clk) answer_q <= !rst && rd_valid && rd_ready;

  inc_replicate_data #(.DATA_W(DATA_W), .ADDR_W(ADDR_W)) u_dut (
    .clk(clk), .rst(rst),
    .s_rd_valid(desc_valid), .s_rd_ready(desc_ready), .s_rd_bank(desc.bank),
    .s_rd_addr(desc.addr[ADDR_W-1:0]), .s_rd_beats(desc.beats), .done(done), .quiet(quiet),
    .tx_valid(rd_valid), .tx_ready(rd_ready), .tx_bank(rd.bank), .tx_addr(addr),
    .tx_rd_valid(answer_q), .tx_rd_data(data),
    .m_pay_valid(pay_valid), .m_pay_ready(pay_ready), .m_pay_data(pay.data),
    .m_pay_last(pay.last));
  assign rd.addr       = 16'(addr);
  assign pulse.nothing = 1'b0;

  // Quiet: every descriptor is done, and every beat that was read is gone.
  logic [31:0] descs_q, dones_q, reads_q, pays_q;
  always_ff @(posedge clk) begin
    descs_q <= rst ? '0 : descs_q + 32'(desc_valid && desc_ready);
    dones_q <= rst ? '0 : dones_q + 32'(done);
    reads_q <= rst ? '0 : reads_q + 32'(rd_valid && rd_ready);
    pays_q  <= rst ? '0 : pays_q + 32'(pay_valid && pay_ready);
    if (!rst) assert (quiet == (descs_q == dones_q && reads_q == pays_q));
  end

  inc_bench_sink #(.STREAM(0), .W($bits(pay))) u_pay (
    .clk(clk), .rst(rst), .handle(handle), .valid(pay_valid), .ready(pay_ready), .data(pay));
  inc_bench_sink #(.STREAM(1), .W($bits(rd))) u_rd (
    .clk(clk), .rst(rst), .handle(handle), .valid(rd_valid), .ready(rd_ready), .data(rd));
  inc_bench_watch #(.STREAM(2), .W($bits(pulse))) u_done (
    .clk(clk), .rst(rst), .handle(handle), .valid(done), .data(pulse));

endmodule

`default_nettype wire
