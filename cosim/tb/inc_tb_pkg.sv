// What the transactors of the test bench share: numbers of the link's settings, random numbers.
`default_nettype none

package inc_tb_pkg;

  // Settings of inc_dpi_param, as in cosim/dpi/instance.h.
  localparam int PARAM_SEED             = 0;
  localparam int PARAM_PACING           = 1;
  localparam int PARAM_IDLE_PPM         = 2;
  localparam int PARAM_BACKPRESSURE_PPM = 3;
  localparam int PARAM_BYPASS_PPM       = 4;
  localparam int PARAM_PROBE            = 5;
  localparam int PARAM_CAPTURE          = 6;

  // Pacing modes, as in cosim/link.
  localparam logic [31:0] PACING_GAP   = 32'd1;
  localparam logic [31:0] PACING_BURST = 32'd2;

  // xorshift32 (Marsaglia, 13/17/5), one state a transactor.
  function automatic logic [31:0] xorshift32(input logic [31:0] state);
    logic [31:0] x;
    x = state;
    x = x ^ (x << 13);
    x = x ^ (x >> 17);
    x = x ^ (x << 5);
    xorshift32 = x;
  endfunction

  // State from the run's seed and a number of the transactor; never 0, which xorshift keeps.
  function automatic logic [31:0] seed32(input longint seed, input logic [31:0] salt);
    logic [31:0] x;
    x = seed[31:0] ^ seed[63:32] ^ (salt * 32'h9e37_79b9);
    x = (x ^ (x >> 16)) * 32'h85eb_ca6b;
    x = (x ^ (x >> 13)) * 32'hc2b2_ae35;
    seed32 = (x == 0) ? 32'h1 : x;
  endfunction

  // Parts per million of 2^32.
  function automatic logic [31:0] ppm_to_threshold(input longint ppm);
    ppm_to_threshold = (ppm >= 64'sd1000000) ? 32'hffff_ffff : 32'((ppm << 32) / 64'sd1000000);
  endfunction

endpackage

`default_nettype wire
