// Checks the UDP checksum of frames that pass by: adds 16-bit words in ones' complement.
//
// Words are added as they lie in the lanes (first byte low): ones' complement sums do not care.
//
// Ports:         as inc_icrc_check; beat_take selects the addresses and the UDP bytes (which
//                follow them directly in both IP versions); beat_extra is added once a frame,
//                with the beat that has beat_end: pseudo-header length and protocol. good, 4
//                clocks after a beat: the sum is right.
// Latency:       4 clocks; good is a register.
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

  // Words of a group are added in the first clock, groups in the second, beats in the third.
  localparam int WORDS  = DATA_W / 16;
  localparam int GROUP  = (WORDS < 8) ? WORDS : 8;
  localparam int GROUPS = WORDS / GROUP;

  logic [GROUPS*20-1:0] part1_q, part1_d;
  logic [31:0]          extra1_q;
  logic [24:0]          part2_q, part2_d; // 4096 bits: 256 words and the two of beat_extra
  logic                 first1_q, first2_q;
  logic                 update1_q, update2_q;
  logic [31:0]          sum_q, sum_d; // 64 KiB of words fit: nothing is lost
  logic                 good_q;

  always_comb begin
    part1_d = '0;
    for (int g = 0; g < GROUPS; g++) begin
      for (int i = 0; i < GROUP; i++) begin
        part1_d[g*20 +: 20] = part1_d[g*20 +: 20] + {4'b0,
          beat_data[(g*GROUP+i)*16+8 +: 8] & {8{beat_take[(g*GROUP+i)*2+1]}},
          beat_data[(g*GROUP+i)*16   +: 8] & {8{beat_take[(g*GROUP+i)*2]}}};
      end
    end
    part2_d = {9'd0, extra1_q[15:0]} + {9'd0, extra1_q[31:16]};
    for (int g = 0; g < GROUPS; g++) begin
      part2_d = part2_d + {5'd0, part1_q[g*20 +: 20]};
    end
    sum_d = (first2_q ? 32'd0 : sum_q) + {7'd0, part2_q};
  end

  assign good = good_q;

  always_ff @(posedge clk) begin
    first1_q  <= beat_first;
    first2_q  <= first1_q;
    update1_q <= beat_valid && beat_update;
    update2_q <= update1_q;
    extra1_q  <= beat_end ? beat_extra : '0;
    if (beat_valid) part1_q <= part1_d;
    part2_q   <= part2_d;
    if (update2_q) sum_q <= sum_d;
    // sum = hi * 2^16 + lo is a non-zero multiple of 0xffff iff hi + lo is 0xffff: hi < 2^15, so it
    // cannot be twice that.
    good_q    <= sum_q[31:16] == ~sum_q[15:0];
  end

endmodule

`default_nettype wire
