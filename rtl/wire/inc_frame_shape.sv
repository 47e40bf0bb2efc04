// Lengths of a frame to send, and two halves of the sum of its IPv4 header: what inc_deparse needs
// of a header beside the header itself.
//
// Combinational: hdr in, shape out. ce: the ECN bits of hdr.tos are set, whatever they are; it may
// come late. Who makes a header registers both, so that the deparser has
// them in one clock.
// Latency:       0.
// Source:        IBTA 9.2, A17; RFC 791 (header checksum).
`default_nettype none

module inc_frame_shape (
  input  wire inc_pkg::txhdr_t   hdr,
  input  wire                    ce,
  output wire inc_pkg::txshape_t shape
);

  inc_pkg::txshape_t s;
  assign shape = s;

  function automatic logic [17:0] word(input logic [15:0] value);
    word = {2'b00, value};
  endfunction

  // Units of the extended headers: 0, 1 (ImmDt or AETH), 4 (RETH, or the body of a CNP), 5.
  wire [1:0]  kind  = {hdr.has_reth || hdr.is_cnp, hdr.has_aeth || hdr.has_imm};
  wire [2:0]  ext   = {kind[1], 1'b0, kind[0]};
  // From IP to the ICRC, with the pad.
  wire [15:0] total = (hdr.plen + {11'd0, ext, 2'b00} + 16'd47) & 16'hfffc;
  logic [16:0] icrc, end_at, last;
  logic [17:0] rest;

  always_comb begin
    s.udp_length = (hdr.plen + {11'd0, ext, 2'b00} + 16'd27) & 16'hfffc;
    case ({hdr.is_v6, hdr.vlan_valid, kind})
      4'b0001, 4'b0100: s.extra = 4'd1;
      4'b0101:          s.extra = 4'd2;
      4'b0010:          s.extra = 4'd4;
      4'b0011, 4'b0110,
      4'b1000:          s.extra = 4'd5;
      4'b0111, 4'b1001,
      4'b1100:          s.extra = 4'd6;
      4'b1101:          s.extra = 4'd7;
      4'b1010:          s.extra = 4'd9;
      4'b1011, 4'b1110: s.extra = 4'd10;
      4'b1111:          s.extra = 4'd11;
      default:          s.extra = 4'd0;
    endcase
    icrc = {1'b0, hdr.plen} + {11'd0, s.extra, 2'b00} + 17'd55;
    end_at = {1'b0, hdr.plen} + {11'd0, s.extra, 2'b00} + 17'd59;
    last   = {1'b0, hdr.plen} - 17'd1;
    s.icrc_at  = icrc[16:2];
    s.end_at   = end_at[16:2];
    s.pay_some = hdr.plen != '0;
    s.pay_last = last[15:2];
    s.sum_a = (word(hdr.sip[31:16]) + word(hdr.sip[15:0])) +
              (word(hdr.dip[31:16]) + word(hdr.dip[15:0]));
    // Version, IHL and DF: 0x4500 + 0x4000.
    rest    = word({hdr.ttl, 8'd17}) + word(total);
    s.sum_b = ce ? word({8'h85, hdr.tos | 8'd3}) + rest : word({8'h85, hdr.tos}) + rest;
  end

  wire unused_ok = &{1'b0, hdr, icrc[1:0], end_at[1:0], last[16], last[1:0]};

endmodule

`default_nettype wire
