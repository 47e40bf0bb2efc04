// CheckDuplicate: what Mode-III does with a data frame, from its PSN and its slot. Combinational.
//
// Inputs:        the frame's psn and whether its meta equals the slot's; psnStart, ePSN of the
//                in; the slot's valid, tag and the in's bit of its bitmap.
// Outputs:       verdict (first that applies, order of rtl/spec/inc.yaml), start (the slot does
//                not belong to psn: write instead of add), belongs, gap (psn is beyond ePSN),
//                in_order (psn == ePSN).
// Latency:       0 clocks.
// Source:        protocol.md 4 (slots) and 6 (data at an in-endpoint).
`default_nettype none

module inc_check_duplicate (
  input  wire  [23:0] psn,
  input  wire  [23:0] psn_start,
  input  wire  [23:0] epsn,
  input  wire  [4:0]  n_log2,
  input  wire         pipe_error,
  input  wire         binding,
  input  wire         slot_valid,
  input  wire  [23:0] slot_tag,
  input  wire         slot_bit,
  input  wire         meta_equal,
  output logic [7:0]  verdict,
  output wire         start,
  output wire         in_order,
  output wire         behind
);

  wire [23:0] d       = psn - psn_start;       // serial distance: bit 23 is its sign
  wire        beyond  = !d[23] && (d >> n_log2) != 24'd0;
  wire        belongs = slot_valid && slot_tag == (psn >> n_log2);

  assign behind   = d[23];
  assign start    = !belongs;
  assign in_order = psn == epsn;

  always_comb begin
    if (pipe_error)                  verdict = inc_spec_pkg::VERDICT_PIPE_ERROR;
    else if (binding)                verdict = inc_spec_pkg::VERDICT_NO_SLOTS;
    else if (behind)                 verdict = inc_spec_pkg::VERDICT_BEHIND;
    else if (beyond)                 verdict = inc_spec_pkg::VERDICT_BEYOND;
    else if (belongs && slot_bit)    verdict = inc_spec_pkg::VERDICT_DUPLICATE;
    else if (belongs && !meta_equal) verdict = inc_spec_pkg::VERDICT_MISMATCH;
    else                             verdict = inc_spec_pkg::VERDICT_OK;
  end

endmodule

`default_nettype wire
