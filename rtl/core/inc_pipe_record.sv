// PipeRecord: the retirement record of what inc_pipe did in a clock. Combinational; without load in
// synthesis.
//
// Inputs:        the event, its operands, and the state after it.
// Latency:       0 clocks.
// Parameters:    FAN_IN 2..64 bits of a bitmap.
// Source:        rtl/spec/inc.yaml (record); docs/verification.md.
`default_nettype none

module inc_pipe_record #(
  parameter int FAN_IN = 64
) (
  input  wire  [7:0]           cause,
  input  wire  [7:0]           verdict,
  input  wire  [31:0]          frame,
  input  wire  [7:0]           pipe,
  input  wire  [11:0]          ep,
  input  wire                  has_pipe,
  input  wire                  has_ep,
  input  wire  [23:0]          psn,
  input  wire  [23:0]          slot,
  input  wire                  g_rx,
  input  wire                  g_tx,          // of a table write: the initial values of psn0
  input  wire                  g_pipe,
  input  wire                  g_slot,
  input  wire  [23:0]          epsn,
  input  wire  [23:0]          msn,
  input  wire                  nak_sent,
  input  wire  [2:0]           ack_kind,
  input  wire  [23:0]          psn0,
  input  wire  [23:0]          psn_start,
  input  wire  [23:0]          next_send,
  input  wire  [23:0]          control_psn,
  input  wire                  pipe_error,
  input  wire                  slot_valid,
  input  wire  [22:0]          tag,
  input  wire  [FAN_IN-1:0]    bitmap,
  output inc_spec_pkg::record_t rec
);

  logic [6:0] degree;
  always_comb begin
    degree = '0;
    for (int i = 0; i < FAN_IN; i++) degree = degree + 7'(bitmap[i]);

    rec         = '0;
    rec.cause   = 32'(cause);
    rec.verdict = 32'(verdict);
    rec.frame   = frame;
    rec.psn     = 32'(psn);
    rec.slot    = 32'(slot);
    rec.groups  = {28'd0, g_slot, g_pipe, g_tx, g_rx};
    if (has_ep) rec.endpoint = 32'(ep);
    if (has_pipe) rec.pipe_id = 32'(pipe);
    if (g_rx) begin
      rec.epsn     = 32'(epsn);
      rec.msn      = 32'(msn);
      rec.nak_sent = 32'(nak_sent);
      rec.ack_kind = 32'(ack_kind);
    end
    if (g_tx) begin
      rec.last_acked = 32'(24'(psn0 - 24'd1));
      rec.cursor     = 32'(psn0);
      rec.sent_max   = 32'(24'(psn0 - 24'd1));
    end
    if (g_pipe) begin
      rec.psn_start   = 32'(psn_start);
      rec.next_send   = 32'(next_send);
      rec.control_psn = 32'(control_psn);
      rec.pipe_error  = 32'(pipe_error);
    end
    if (g_slot) begin
      rec.slot_valid = 32'(slot_valid);
      rec.tag        = 32'(tag);
      rec.bitmap     = 64'(bitmap);
      rec.degree     = 32'(degree);
    end
  end

endmodule

`default_nettype wire
