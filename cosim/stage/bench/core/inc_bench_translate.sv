// inc_translate_header between streams, with the two tables that it reads.
// Streams: 0 headers; 1 read descriptors; sources 8 jobs, 9 ep_cfg writes, 10 slot states.
`default_nettype none

module inc_bench_translate (
  input wire        clk,
  input wire        rst,
  input wire [63:0] handle
);
  import inc_bench_pkg::*;
  localparam int EP_W   = $clog2(ENDPOINTS);
  localparam int BLK_W  = $clog2(BLOCKS);
  localparam int ADDR_W = $clog2(BEATS);

  inc_pkg::txjob_t job;
  inc_pkg::txshape_t shape, want;
  wire             quiet;
  inc_pkg::txhdr_t hdr;
  inc_spec_pkg::ep_cfg_t ep;
  ep_write_t       ep_wr;
  slot_write_t     slot_wr;
  inc_pkg::slot_meta_t meta;
  read_desc_t      desc;
  wire             job_valid, job_ready, ep_wr_valid, slot_wr_valid, ep_rd, slot_rd, flip;
  wire             hdr_valid, hdr_ready, desc_valid, desc_ready;
  wire [EP_W-1:0]  ep_index;
  wire [BLK_W-1:0] slot_block;
  wire [ADDR_W-1:0] addr;

  inc_bench_source #(.STREAM(8), .W($bits(job))) u_job (
    .clk(clk), .rst(rst), .handle(handle), .valid(job_valid), .ready(job_ready), .data(job));
  inc_bench_source #(.STREAM(9), .W($bits(ep_wr))) u_ep_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(ep_wr_valid), .ready(1'b1), .data(ep_wr));
  inc_bench_source #(.STREAM(10), .W($bits(slot_wr))) u_slot_wr (
    .clk(clk), .rst(rst), .handle(handle), .valid(slot_wr_valid), .ready(1'b1), .data(slot_wr));

  inc_ram_1r1w #(.DATA_W($bits(ep)), .DEPTH(ENDPOINTS)) u_ep (
    .clk(clk), .wr_en(ep_wr_valid), .wr_addr(ep_wr.index[EP_W-1:0]), .wr_data(ep_wr.cfg),
    .rd_en(ep_rd), .rd_addr(ep_index), .rd_data(ep));
  inc_ram_1r1w #(.DATA_W($bits(meta) + 1), .DEPTH(BLOCKS)) u_slots (
    .clk(clk), .wr_en(slot_wr_valid), .wr_addr(slot_wr.block[BLK_W-1:0]),
    .wr_data({slot_wr.meta, slot_wr.flip}),
    .rd_en(slot_rd), .rd_addr(slot_block), .rd_data({meta, flip}));

  inc_translate_header #(.DATA_W(DATA_W), .ENDPOINTS(ENDPOINTS), .BLOCKS(BLOCKS)) u_dut (
    .clk(clk), .rst(rst),
    .s_job_valid(job_valid), .s_job_ready(job_ready), .s_job(job),
    .cut_load(1'b0), .cut_go(1'b0), .cut_psn('0), .cut_ack_req(1'b0), .cut_meta('0), .quiet(quiet),
    .ep_rd_en(ep_rd), .ep_rd_index(ep_index), .ep(ep),
    .slot_rd_en(slot_rd), .slot_rd_ready(1'b1), .slot_rd_block(slot_block), .slot_meta(meta), .slot_flip(flip),
    .m_hdr_valid(hdr_valid), .m_hdr_ready(hdr_ready), .m_hdr(hdr), .m_shape(shape),
    .m_rd_valid(desc_valid), .m_rd_ready(desc_ready), .m_rd_bank(desc.bank),
    .m_rd_addr(addr), .m_rd_beats(desc.beats));
  assign desc.addr = 16'(addr);

  // The shape that comes with a header is that header's.
  inc_frame_shape u_want (.hdr(hdr), .ce(1'b0), .shape(want));
  always_ff @(posedge clk) begin
    if (!rst && hdr_valid) assert (shape == want);
    if (!rst && quiet) assert (!hdr_valid && !desc_valid);
  end

  inc_bench_sink #(.STREAM(0), .W($bits(hdr))) u_hdr (
    .clk(clk), .rst(rst), .handle(handle), .valid(hdr_valid), .ready(hdr_ready), .data(hdr));
  inc_bench_sink #(.STREAM(1), .W($bits(desc))) u_desc (
    .clk(clk), .rst(rst), .handle(handle), .valid(desc_valid), .ready(desc_ready), .data(desc));

endmodule

`default_nettype wire
