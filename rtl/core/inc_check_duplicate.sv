// CheckDuplicate: what a pipe does with a data frame, from its PSN and its slot. Combinational.
//
// Inputs:        the frame's psn; first: psnStart of a Mode-III pipe, C of a Mode-II pipe; ePSN of
//                the in; valid, tag, completeness of the slot and the in's bit of its bitmap;
//                may_start: a slot may start at psn (the control signal's window);
//                whole_lanes: the payload is a multiple of that window's elements; copy: a
//                Mode-II pipe of one in.
// Outputs:       verdict: the first that applies (order of rtl/spec/inc.yaml) but mismatch;
//                compare: it is mismatch instead if the frame differs from its slot;
//                start: the slot does not belong to psn (write instead of add);
//                replay: the stored result leaves again; in_order: psn == ePSN; behind.
// Latency:       0 clocks.
// Source:        protocol.md 4 (slots), 5 and 6 (data at an in-endpoint), 10 (window).
`default_nettype none

module inc_check_duplicate (
  input  wire         mode2,
  input  wire         copy,
  input  wire  [23:0] psn,
  input  wire  [23:0] first,
  input  wire  [23:0] epsn,
  input  wire  [4:0]  n_log2,
  input  wire         pipe_error,
  input  wire         binding,
  input  wire         slot_valid,
  input  wire  [22:0] slot_tag,
  input  wire         slot_bit,
  input  wire         slot_full,
  input  wire         may_start,
  input  wire         whole_lanes,
  output logic [7:0]  verdict,
  output wire         compare,
  output wire         start,
  output wire         replay,
  output wire         in_order,
  output wire         behind
);

  wire [23:0] d       = psn - first;           // serial distance: bit 23 is its sign
  wire [23:0] high    = 24'hff_ffff << n_log2; // what is 0 in 0 .. N-1
  wire [23:0] half    = {1'b1, high[23:1]};    // what is all equal in -N/2 .. N/2-1
  wire        beyond  = (d & high) != 24'd0;   // or behind
  wire        outside = (d & half) != 24'd0 && (~d & half) != 24'd0;
  wire        belongs = slot_valid && slot_tag == 23'(psn >> n_log2);
  wire        dup     = belongs && slot_bit;

  assign behind   = d[23];
  assign in_order = psn == epsn;
  assign start    = copy || !belongs;
  assign replay   = mode2 && !copy && dup && slot_full
                    && verdict == inc_spec_pkg::VERDICT_DUPLICATE;
  assign compare  = verdict == inc_spec_pkg::VERDICT_OK && !start;

  always_comb begin
    if (pipe_error)                       verdict = inc_spec_pkg::VERDICT_PIPE_ERROR;
    else if (binding)                     verdict = inc_spec_pkg::VERDICT_NO_SLOTS;
    else if (copy)                        verdict = inc_spec_pkg::VERDICT_OK;
    else if (mode2 && outside)            verdict = inc_spec_pkg::VERDICT_STALE;
    else if (!mode2 && behind)            verdict = inc_spec_pkg::VERDICT_BEHIND;
    else if (!mode2 && beyond)            verdict = inc_spec_pkg::VERDICT_BEYOND;
    else if (dup)                         verdict = inc_spec_pkg::VERDICT_DUPLICATE;
    else if (!belongs && !may_start)      verdict = inc_spec_pkg::VERDICT_NO_WINDOW;
    else if (!belongs && !whole_lanes)    verdict = inc_spec_pkg::VERDICT_PAYLOAD_LENGTH;
    else                                  verdict = inc_spec_pkg::VERDICT_OK;
  end

endmodule

`default_nettype wire
