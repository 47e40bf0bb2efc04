// Checks the UDP checksum of frames that pass by: adds 16-bit words in ones' complement.
//
// Words are added as they lie in the lanes (first byte low): ones' complement sums do not care.
//
// Ports:         as inc_icrc_check; beat_take selects the addresses and the UDP bytes (which
//                follow them directly in both IP versions); beat_extra is added once a frame,
//                with the beat that has beat_end: pseudo-header length and protocol. good, 2
//                clocks after a beat: the sum is right.
// Latency:       2 clocks, then combinational from registers.
// Throughput:    1 beat per clock; no back-pressure. No reset: beat_first starts anew.
// Parameters:    DATA_W 64..4096, a power of two.
// Source:        RFC 768, RFC 8200 8.1.
`default_nettype none

module inc_udp_check #(
  parameter int DATA_W = 512
) (
  input  wire                clk,
  input  wire                beat_valid,
  input  wire                beat_first,
  input  wire                beat_update,
  input  wire                beat_end,
  input  wire [DATA_W-1:0]   beat_data,
  input  wire [DATA_W/8-1:0] beat_take,
  input  wire [31:0]         beat_extra, // two words to add
  output wire                good
);

  // Words of a group are added in the first clock, groups in the second.
  localparam int WORDS  = DATA_W / 16;
  localparam int GROUP  = (WORDS < 8) ? WORDS : 8;
  localparam int GROUPS = WORDS / GROUP;

  logic [GROUPS*20-1:0] part_q, part_d;
  logic [16:0]          extra_q;
  logic                 first_q;
  logic                 update_q;
  logic [31:0]          sum_q, sum_d; // 64 KiB of words fit: nothing is lost

  always_comb begin
    part_d = '0;
    for (int g = 0; g < GROUPS; g++) begin
      for (int i = 0; i < GROUP; i++) begin
        part_d[g*20 +: 20] = part_d[g*20 +: 20] + {4'b0,
          beat_data[(g*GROUP+i)*16+8 +: 8] & {8{beat_take[(g*GROUP+i)*2+1]}},
          beat_data[(g*GROUP+i)*16   +: 8] & {8{beat_take[(g*GROUP+i)*2]}}};
      end
    end
    sum_d = (first_q ? 32'd0 : sum_q) + {15'd0, extra_q};
    for (int g = 0; g < GROUPS; g++) begin
      sum_d = sum_d + {12'd0, part_q[g*20 +: 20]};
    end
  end

  // sum = hi * 2^16 + lo is a non-zero multiple of 0xffff iff hi + lo is 0xffff: hi < 2^15, so it
  // cannot be twice that.
  assign good = sum_q[31:16] == ~sum_q[15:0];

  always_ff @(posedge clk) begin
    first_q  <= beat_first;
    update_q <= beat_valid && beat_update;
    extra_q  <= beat_end ? {1'b0, beat_extra[15:0]} + {1'b0, beat_extra[31:16]} : 17'd0;
    if (beat_valid) part_q <= part_d;
    if (update_q) sum_q <= sum_d;
  end

endmodule

`default_nettype wire
