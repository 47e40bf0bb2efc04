// One beat of element-wise reduction: every type and operator, little-endian elements, lane 0 in
// the low bits.
//
// Streams:       s_valid: a (what is stored) and x (what came) by s_dtype and s_op. s_start: the
//                result is x. s_compare: it is a (but for s_start), and m_diff names the 32-bit
//                words in which x differs. s_tag comes out as m_tag. a may come late in its clock;
//                all else from registers. What a pair without meaning gives is not defined.
// Latency:       in clocks, by type and operator alone, whatever s_start says:
//                fast   1  sum of 32 and 64 bit integers; and, or, xor
//                slow   2  min and max of integers, sum of int8, compare
//                float  6  sum, min, max of floats (FLOAT 0: as integers, start alone is right)
// Throughput:    1 beat per clock.
//                Results leave in the order of the beats, one a clock: a beat may not be given
//                while an earlier one would not be out before it. So after a float beat comes none
//                of the others for 5 clocks, after a slow beat no fast one for 1 (asserted).
//                float_busy: in this clock a float beat still forbids the others.
// Reset:         no beat inside.
// Parameters:    DATA_W 64..4096, a multiple of 64; FLOAT 0 leaves out floating point; TAG_W.
// Source:        protocol.md 11; golden/reduce.
`default_nettype none

module inc_alu #(
  parameter int DATA_W = 512,
  parameter int FLOAT  = 0,
  parameter int TAG_W  = 1
) (
  input  wire                 clk,
  input  wire                 rst,
  input  wire                 s_valid,
  input  wire [3:0]           s_dtype,
  input  wire [3:0]           s_op,
  input  wire                 s_start,
  input  wire                 s_compare,
  input  wire [TAG_W-1:0]     s_tag,
  input  wire [DATA_W-1:0]    s_a,
  input  wire [DATA_W-1:0]    s_x,
  output wire                 float_busy,
  output wire                 m_valid,
  output wire [TAG_W-1:0]     m_tag,
  output wire [DATA_W-1:0]    m_data,
  output wire [DATA_W/32-1:0] m_diff
);

  wire is_float = FLOAT != 0 && !s_compare && inc_pkg::is_float(s_dtype);
  wire is_slow  = !is_float && (s_compare || s_op == inc_spec_pkg::OP_MIN
                                || s_op == inc_spec_pkg::OP_MAX
                                || (s_op == inc_spec_pkg::OP_SUM
                                    && s_dtype == inc_spec_pkg::DTYPE_INT8));
  wire is_fast  = !is_float && !is_slow;

  logic                 slow_q, valid_q;
  logic [TAG_W-1:0]     slow_tag_q, tag_q;
  logic [DATA_W-1:0]    data_q;
  logic [DATA_W/32-1:0] diff_q;
  wire  [DATA_W-1:0]    fast, slow;
  wire  [DATA_W/32-1:0] slow_diff;
  wire                  float_last;          // a float beat is registered at the end of this clock
  wire  [TAG_W-1:0]     float_tag;
  wire  [DATA_W-1:0]    late;                // from registers: slow, or float if it is its turn
  wire                  take_late = slow_q || float_last;
  assign m_valid = valid_q;
  assign m_tag   = tag_q;
  assign m_data  = data_q;
  assign m_diff  = diff_q;

  generate
    for (genvar i = 0; i < DATA_W / 64; i++) begin : gen_int
      inc_alu_int u_int (
        .clk(clk), .s_dtype(s_dtype), .s_op(s_op), .s_start(s_start), .s_compare(s_compare),
        .s_a(s_a[64*i +: 64]), .s_x(s_x[64*i +: 64]),
        .fast(fast[64*i +: 64]), .slow(slow[64*i +: 64]), .slow_diff(slow_diff[2*i +: 2]));
    end

    if (FLOAT != 0) begin : gen_float
      wire [1:0] fmt = s_dtype == inc_spec_pkg::DTYPE_FLOAT16  ? 2'd1
                     : s_dtype == inc_spec_pkg::DTYPE_BFLOAT16 ? 2'd2 : 2'd0;
      wire [1:0] op  = s_op == inc_spec_pkg::OP_MIN ? 2'd1
                     : s_op == inc_spec_pkg::OP_MAX ? 2'd2 : 2'd0;
      logic [4:0]         valid_f_q;         // a beat that came 1..5 clocks ago
      logic [4:0]         wide_q;            // it is of float32
      logic [5*TAG_W-1:0] tag_f_q;
      assign float_busy = valid_f_q != 5'd0;
      assign float_last = valid_f_q[4];
      assign float_tag  = tag_f_q[4*TAG_W +: TAG_W];
      for (genvar i = 0; i < DATA_W / 32; i++) begin : gen_lane
        wire [31:0] y;
        wire [15:0] y_hi;
        inc_fp_add #(.FRAC(23)) u_lo (.clk(clk), .s_fmt(fmt), .s_op(op), .s_start(s_start),
          .s_a(s_a[32*i +: 32]), .s_x(s_x[32*i +: 32]), .y(y));
        inc_fp_add #(.FRAC(10)) u_hi (.clk(clk), .s_fmt(fmt), .s_op(op), .s_start(s_start),
          .s_a(s_a[32*i+16 +: 16]), .s_x(s_x[32*i+16 +: 16]), .y(y_hi));
        assign late[32*i +: 32] = !valid_f_q[4] ? slow[32*i +: 32]
                                : {wide_q[4] ? y[31:16] : y_hi, y[15:0]};
      end
      always_ff @(posedge clk) begin
        valid_f_q <= {valid_f_q[3:0], s_valid && is_float};
        wide_q    <= {wide_q[3:0], s_dtype == inc_spec_pkg::DTYPE_FLOAT32};
        tag_f_q   <= {tag_f_q[4*TAG_W-1:0], s_tag};
        if (rst) valid_f_q <= '0;
      end
    end else begin : gen_no_float
      assign float_busy = 1'b0;
      assign float_last = 1'b0;
      assign float_tag  = '0;
      assign late       = slow;
    end
  endgenerate

  always_ff @(posedge clk) begin
    slow_q     <= s_valid && is_slow;
    slow_tag_q <= s_tag;
    valid_q    <= (s_valid && is_fast) || slow_q || float_last;
    tag_q      <= take_late ? (float_last ? float_tag : slow_tag_q) : s_tag;
    data_q     <= take_late ? late : fast;
    diff_q     <= slow_q ? slow_diff : '0;
    if (rst) begin
      slow_q  <= 1'b0;
      valid_q <= 1'b0;
    end
`ifdef INC_ASSERT
    if (!rst && s_valid && !is_float) assert (!float_busy);
    if (!rst && s_valid && is_fast) assert (!slow_q);
`endif
  end

endmodule

`default_nettype wire
