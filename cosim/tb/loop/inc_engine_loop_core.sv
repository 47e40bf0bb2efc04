// Stream part of the loopback (inc_engine.sv beside this file): one register, and the records.
//
// Latency: one clock. Throughput: a beat a clock. Back-pressure: ready when the register is free or
// being taken. Reset: synchronous, active high. Parameters: DATA_W 64..4096.
`default_nettype none

module inc_engine_loop_core #(
  parameter int DATA_W = 512
) (
  input  wire logic                clk,
  input  wire logic                rst,
  input  wire logic [DATA_W-1:0]   s_axis_tdata,
  input  wire logic [DATA_W/8-1:0] s_axis_tkeep,
  input  wire logic                s_axis_tvalid,
  output logic                     s_axis_tready,
  input  wire logic                s_axis_tlast,
  input  wire logic                s_axis_tuser,
  input  wire logic [7:0]          s_axis_tid,
  output logic [DATA_W-1:0]        m_axis_tdata,
  output logic [DATA_W/8-1:0]      m_axis_tkeep,
  output logic                     tx_tvalid,
  input  wire logic                tx_tready,
  output logic                     bypass_tvalid,
  input  wire logic                bypass_tready,
  output logic                     m_axis_tlast,
  output logic                     m_axis_tuser,
  output logic [7:0]               m_axis_tid
);

  logic                   valid_q;
  logic                   taken;
  logic [31:0]            frames_in_q;
  logic [31:0]            frames_out_q;
  logic                   ret_rx_valid;
  logic                   ret_tx_valid;
  inc_spec_pkg::record_t  ret_rx_rec;
  inc_spec_pkg::record_t  ret_tx_rec;
  logic                   ret_fw_valid;  // no Mode-II here
  inc_spec_pkg::record_t  ret_fw_rec;
  logic                   ret_cut_valid; // nor is anything cut through
  inc_spec_pkg::record_t  ret_cut_rec;
  logic                   ret_ack2_valid;
  inc_spec_pkg::record_t  ret_ack2_rec;

  assign tx_tvalid     = valid_q && !m_axis_tid[0];
  assign bypass_tvalid = valid_q && m_axis_tid[0];
  assign taken         = (tx_tvalid && tx_tready) || (bypass_tvalid && bypass_tready);
  assign s_axis_tready = !valid_q || taken;

  assign ret_rx_valid = s_axis_tvalid && s_axis_tready && s_axis_tlast;
  assign ret_tx_valid = taken && m_axis_tlast;
  assign ret_fw_valid = 1'b0;
  assign ret_fw_rec   = '0;
  assign ret_cut_valid = 1'b0;
  assign ret_cut_rec   = '0;
  assign ret_ack2_valid = 1'b0;
  assign ret_ack2_rec   = '0;

  always_comb begin
    ret_rx_rec       = '0;
    ret_rx_rec.cause = {24'd0, inc_spec_pkg::CAUSE_DROP};
    ret_rx_rec.frame = frames_in_q;
    ret_rx_rec.psn   = frames_in_q;
    ret_tx_rec        = '0;
    ret_tx_rec.cause  = {24'd0, inc_spec_pkg::CAUSE_SEND};
    ret_tx_rec.frame  = frames_out_q;
    ret_tx_rec.degree = 32'h7654_3210;
  end

  always_ff @(posedge clk) begin
    if (s_axis_tready) begin
      valid_q      <= s_axis_tvalid;
      m_axis_tdata <= s_axis_tdata;
      m_axis_tkeep <= s_axis_tkeep;
      m_axis_tlast <= s_axis_tlast;
      m_axis_tuser <= s_axis_tuser;
      m_axis_tid   <= s_axis_tid;
    end
    if (ret_rx_valid) frames_in_q <= frames_in_q + 32'd1;
    if (ret_tx_valid) frames_out_q <= frames_out_q + 32'd1;
    if (rst) begin
      valid_q      <= 1'b0;
      frames_in_q  <= 32'd0;
      frames_out_q <= 32'd0;
    end
  end

endmodule

`default_nettype wire
