// The build that the engine's modules default to: the one place of these numbers. A build gives
// its own by the parameters of inc_engine (docs/configuration.md says what each may be).
`default_nettype none

package inc_build_pkg;

  localparam int DATA_W      = 512;   // bits of the data path
  localparam int PORTS       = 32;
  localparam int ENDPOINTS   = 64;    // entries of ep_cfg, out_list and in_list
  localparam int PIPES       = 16;
  localparam int POOL_KB     = 128;   // payload pool, each of its two copies
  localparam int FAN_IN      = 64;    // most ins of a pipe (FANIN_MAX of the spec)
  localparam int MTU         = 4096;  // largest U of a pipe
  localparam int MODE2       = 1;     // 1: Mode-II is built in
  localparam int MODE3       = 1;     // 1: Mode-III is built in
  localparam int FLOAT       = 1;     // 1: floating point is built in
  localparam int CUT_THROUGH = 1;     // 1: a result leaves while its last contribution arrives

endpackage

`default_nettype wire
