// Control: reads the control signal that opens a window of an unpinned pipe, and compares it with
// the first one.
//
// The 16 bytes of a signal are caught as they go by (first) or wait (last beat); then they are
// compared byte by byte, the first fault is found, and the answer stands in registers. The first
// signal of a slot is kept for the others.
//
// Ports:         begin_frame with the frame's first clock in PK; then, while it is a signal:
//                pay_* its payload, last: the last beat waits. done: the answer stands. differs:
//                it is not taken, because of kind, got, wanted. keep: it is committed, and the
//                first of its slot.
//                packets, op, dtype: of the window it asks for.
// Latency:       4 clocks from the last beat offered to done; a frame without the form of one: 3.
// Reset:         none needed: begin_frame starts anew.
// Parameters:    PIPES power of two; DATA_W 64..4096; FLOAT 0 or 1: floating point is built in.
// Source:        protocol.md 10.
`default_nettype none

module inc_control #(
  parameter int DATA_W = 512,
  parameter int PIPES  = 16,
  parameter int FLOAT  = 0,
  parameter int PIPE_W = $clog2(PIPES)
) (
  input  wire               clk,

  input  wire               begin_frame,
  input  wire               active,
  input  wire               first,            // of its slot
  input  wire  [PIPE_W-1:0] pipe,
  input  wire  [3:0]        opcode,
  input  wire  [12:0]       plen,
  input  wire  [31:0]       imm,
  input  wire  [31:0]       slot_imm,         // of the first of its slot
  input  wire  [3:0]        coll,             // what the pipe is for
  input  wire  [15:0]       root,
  input  wire               reproducible,
  input  wire  [3:0]        mtu_log2,
  input  wire               one_in,           // nothing is reduced
  input  wire               pay_valid,
  input  wire               pay_beat,
  input  wire               pay_last,
  input  wire  [DATA_W-1:0] pay_data,
  input  wire               keep,

  output wire               done,
  output wire               differs,
  output wire  [7:0]        kind,
  output wire  [31:0]       got,
  output wire  [31:0]       wanted,
  output wire  [23:0]       packets,
  output wire  [3:0]        op,
  output wire  [3:0]        dtype
);

  localparam logic [12:0] SIZE = 13'(inc_spec_pkg::CONTROL_BYTES);

  // ------------------------------------------------------------------ the 16 bytes
  logic         caught_q, parts_q, faults_q, done_q;  // steps that are done
  logic [127:0] raw_q;
  wire          catch_last = active && pay_valid && pay_last && !caught_q;
  generate
    if (DATA_W == 64) begin : gen_two
      logic [63:0] low_q;
      always_ff @(posedge clk) begin
        if (pay_beat && !pay_last) low_q <= pay_data;
        if (catch_last) raw_q <= {pay_data, low_q};
      end
    end else begin : gen_one
      always_ff @(posedge clk) begin
        if (catch_last) raw_q <= pay_data[127:0];
      end
      wire unused_beat = &{1'b0, pay_beat, pay_data};
    end
  endgenerate

  logic [63:0] count, sequence_no;        // network byte order
  always_comb begin
    for (int i = 0; i < 8; i++) begin
      count[8*i +: 8]       = raw_q[8*(7 - i) +: 8];
      sequence_no[8*i +: 8] = raw_q[64 + 8*(7 - i) +: 8];
    end
  end

  wire [127:0] kept;
  inc_lutram #(.DATA_W(128), .DEPTH(PIPES)) u_first (
    .clk(clk), .wr_en(keep), .wr_addr(pipe), .wr_data({sequence_no, count}),
    .rd_addr(pipe), .rd_data(kept));

  // ------------------------------------------------------------------ what does not fit
  localparam int TYPE  = inc_spec_pkg::CONTROL_TYPE_SHIFT;
  localparam int OP    = inc_spec_pkg::CONTROL_OP_SHIFT;
  localparam int DTYPE = inc_spec_pkg::CONTROL_DTYPE_SHIFT;
  localparam int FLAGS = inc_spec_pkg::CONTROL_FLAGS_SHIFT;
  wire [3:0]  s_type = imm[TYPE +: 4], s_op = imm[OP +: 4], s_dtype = imm[DTYPE +: 4];
  wire [3:0]  s_flags = imm[FLAGS +: 4];
  wire [15:0] s_root = imm[15:0];
  wire        rooted = s_type == 4'(inc_spec_pkg::COLL_TYPE_REDUCE)
                       || s_type == 4'(inc_spec_pkg::COLL_TYPE_BROADCAST);
  wire [15:0] my_root  = rooted ? root : 16'd0;
  wire [3:0]  my_flags = reproducible ? 4'(inc_spec_pkg::CONTROL_REPRODUCIBLE) : 4'd0;
  wire        type_ok  = s_type == coll || (s_type == 4'(inc_spec_pkg::COLL_TYPE_BARRIER)
                                            && coll == 4'(inc_spec_pkg::COLL_TYPE_ALLREDUCE));
  wire        float    = s_dtype == inc_spec_pkg::DTYPE_FLOAT32
                         || s_dtype == inc_spec_pkg::DTYPE_FLOAT16
                         || s_dtype == inc_spec_pkg::DTYPE_BFLOAT16;
  wire        bitwise  = s_op == inc_spec_pkg::OP_AND || s_op == inc_spec_pkg::OP_OR
                         || s_op == inc_spec_pkg::OP_XOR;
  wire        dtype_ok = s_dtype <= inc_spec_pkg::DTYPE_INT8;
  wire        op_ok    = one_in || (s_op <= inc_spec_pkg::OP_XOR && !(float && bitwise)
                                    && !(float && FLOAT == 0));

  wire        form_ok  = opcode == inc_spec_pkg::OPCODE_SEND_ONLY_IMM[3:0] && plen == SIZE;

  // ceil(count / U), at most 2^22; U is 2^8 at least
  logic [63:0] count_q, seq_q;        // of the first
  logic [55:0] whole_q;               // U's
  logic        rest_q;                // and a part of one
  logic [7:0]  count_ne_q, seq_ne_q;  // bytes that differ from the first's
  logic [23:0] packets_q;
  wire  [63:0] rest     = count & ~(64'hffff_ffff_ffff_ffff << mtu_log2);
  wire  [2:0]  shift    = 3'(mtu_log2 - 4'd8);
  wire         too_long = whole_q[55:23] != '0
                          || (whole_q[22] && (whole_q[21:0] != '0 || rest_q));

  logic bad_form_q, bad_type_q, bad_root_q, bad_flags_q, bad_count_q, bad_seq_q, bad_op_q,
        bad_dtype_q, unable_q;

  always_ff @(posedge clk) begin
    if (catch_last) caught_q <= 1'b1;

    parts_q <= active && (caught_q || !form_ok);
    count_q <= kept[63:0];
    seq_q   <= kept[127:64];
    whole_q <= count[63:8] >> shift;
    rest_q  <= rest != '0;
    for (int i = 0; i < 8; i++) begin
      count_ne_q[i] <= count[8*i +: 8] != kept[8*i +: 8];
      seq_ne_q[i]   <= sequence_no[8*i +: 8] != kept[64 + 8*i +: 8];
    end

    faults_q    <= parts_q;
    bad_form_q  <= !form_ok;
    bad_type_q  <= first ? !type_ok : s_type != slot_imm[TYPE +: 4];
    bad_op_q    <= !first && s_op != slot_imm[OP +: 4];
    bad_dtype_q <= !first && s_dtype != slot_imm[DTYPE +: 4];
    bad_flags_q <= s_flags != (first ? my_flags : slot_imm[FLAGS +: 4]);
    bad_root_q  <= s_root != (first ? my_root : slot_imm[15:0]);
    bad_count_q <= !first && count_ne_q != '0;
    bad_seq_q   <= !first && seq_ne_q != '0;
    unable_q    <= first && !(dtype_ok && op_ok && !too_long);
    packets_q   <= whole_q[23:0] + 24'(rest_q);

    if (begin_frame) begin
      caught_q <= 1'b0;
      parts_q  <= 1'b0;
      faults_q <= 1'b0;
    end
  end

  assign packets = packets_q;
  assign op      = s_op;
  assign dtype   = s_dtype;

  // the first that applies: a first signal's root is looked at before its flags, a further one's
  // after them
  logic [7:0]  kind_d;
  logic [31:0] got_d, wanted_d;
  always_comb begin
    kind_d   = inc_spec_pkg::ERROR_KIND_CONTROL_SEQUENCE;
    got_d    = sequence_no[31:0];
    wanted_d = seq_q[31:0];
    if (bad_form_q) begin
      kind_d   = inc_spec_pkg::ERROR_KIND_CONTROL_FORMAT;
      got_d    = {12'd0, opcode, 3'd0, plen};
      wanted_d = {8'd0, inc_spec_pkg::OPCODE_SEND_ONLY_IMM, 3'd0, SIZE};
    end else if (bad_type_q) begin
      kind_d   = inc_spec_pkg::ERROR_KIND_CONTROL_TYPE;
      got_d    = 32'(s_type);
      wanted_d = 32'(first ? coll : slot_imm[TYPE +: 4]);
    end else if (bad_op_q) begin
      kind_d   = inc_spec_pkg::ERROR_KIND_CONTROL_OP;
      got_d    = 32'(s_op);
      wanted_d = 32'(slot_imm[OP +: 4]);
    end else if (bad_dtype_q) begin
      kind_d   = inc_spec_pkg::ERROR_KIND_CONTROL_DTYPE;
      got_d    = 32'(s_dtype);
      wanted_d = 32'(slot_imm[DTYPE +: 4]);
    end else if (bad_flags_q && !(first && bad_root_q)) begin
      kind_d   = inc_spec_pkg::ERROR_KIND_CONTROL_FLAGS;
      got_d    = 32'(s_flags);
      wanted_d = 32'(first ? my_flags : slot_imm[FLAGS +: 4]);
    end else if (bad_root_q) begin
      kind_d   = inc_spec_pkg::ERROR_KIND_CONTROL_ROOT;
      got_d    = 32'(s_root);
      wanted_d = 32'(first ? my_root : slot_imm[15:0]);
    end else if (unable_q) begin
      kind_d   = inc_spec_pkg::ERROR_KIND_CONTROL_UNSUPPORTED;
      got_d    = {16'd0, s_type, s_op, s_dtype, s_flags};
      wanted_d = 32'd0;
    end else if (bad_count_q) begin
      kind_d   = inc_spec_pkg::ERROR_KIND_CONTROL_COUNT;
      got_d    = count[31:0];
      wanted_d = count_q[31:0];
    end
  end

  logic        differs_q;
  logic [7:0]  kind_q;
  logic [31:0] got_q, wanted_q;
  always_ff @(posedge clk) begin
    done_q    <= faults_q && !begin_frame;
    differs_q <= bad_form_q || bad_type_q || bad_root_q || bad_flags_q || bad_op_q || bad_dtype_q
                 || bad_count_q || bad_seq_q || unable_q;
    kind_q    <= kind_d;
    got_q     <= got_d;
    wanted_q  <= wanted_d;
  end
  assign done    = done_q;
  assign differs = differs_q;
  assign kind    = kind_q;
  assign got     = got_q;
  assign wanted  = wanted_q;

  wire unused_ok = &{1'b0, count_q, seq_q, whole_q};

endmodule

`default_nettype wire
