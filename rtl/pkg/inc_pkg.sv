// Packed structs that the hand-written modules hand each other. Numbers come from inc_spec_pkg
// (generated from rtl/spec/inc.yaml). Byte 0 of a packet is tdata[7:0]; multi-byte header fields
// are held as numbers (first byte on the wire most significant), payload bytes as on the wire.
`default_nettype none

package inc_pkg;

  // Header of one received frame, as inc_parse hands it on. One per frame, in order.
  typedef struct packed {
    logic [7:0]   verdict;    // of the header (VERDICT_*); that of ICRC etc. comes with eof
    logic [7:0]   port;       // ingress port (tid)
    logic [47:0]  dmac;
    logic [47:0]  smac;
    logic         is_v6;
    logic [127:0] sip;        // IPv4 in [31:0]
    logic [127:0] dip;
    logic [7:0]   tos;        // IPv4 TOS or IPv6 traffic class; [1:0] is ECN
    logic [7:0]   opcode;
    logic         se;
    logic         mig_req;
    logic [15:0]  pkey;
    logic [23:0]  dqpn;
    logic         ack_req;
    logic [23:0]  psn;
    logic         is_data;    // opcode kind data
    logic         is_ack;     // opcode kind acknowledge
    logic         is_cnp;
    logic         is_write;   // RDMA WRITE of any kind
    logic         is_first;   // First or Only
    logic         is_last;    // Last or Only
    logic         has_imm;
    logic [31:0]  imm;
    logic         has_reth;
    logic [63:0]  va;         // RETH
    logic [31:0]  rkey;       // RETH
    logic [31:0]  dma_len;    // RETH
    logic [7:0]   syndrome;   // AETH
    logic [23:0]  msn;        // AETH
    logic [15:0]  plen;       // payload bytes without pad
    logic [15:0]  pay_beats;  // beats on the payload stream: 0 unless verdict ok, kind data
  } hdr_t;

  // Everything inc_deparse needs for one frame to send.
  typedef struct packed {
    logic [7:0]   port;       // egress port (tdest)
    logic [47:0]  dmac;
    logic [47:0]  smac;
    logic         vlan_valid;
    logic [15:0]  vlan_tci;
    logic         is_v6;
    logic [127:0] sip;
    logic [127:0] dip;
    logic [7:0]   tos;
    logic [7:0]   ttl;
    logic [15:0]  udp_sport;
    logic [7:0]   opcode;
    logic         se;
    logic         mig_req;
    logic [15:0]  pkey;
    logic [23:0]  dqpn;
    logic         ack_req;
    logic [23:0]  psn;
    logic         has_reth;   // before ImmDt, if both
    logic [63:0]  va;
    logic [31:0]  rkey;
    logic [31:0]  dma_len;
    logic         has_imm;
    logic [31:0]  imm;
    logic         has_aeth;
    logic [7:0]   syndrome;
    logic [23:0]  msn;
    logic         is_cnp;     // 16 zero bytes behind BTH and no payload stream: plen is 0
    logic         late;       // its ICRC waits for the word of s_end that says whether it is right
    logic [15:0]  plen;       // payload bytes without pad; pad follows from it
  } txhdr_t;

  // Lengths and sums that go with a txhdr_t (inc_frame_shape). A unit is four bytes.
  typedef struct packed {
    logic [15:0] udp_length;
    logic [17:0] sum_a;      // of the IPv4 header: addresses
    logic [17:0] sum_b;      // its other words
    logic [3:0]  extra;      // headers are 54 + 4*extra bytes: 13 + extra units and lanes 0, 1
    logic [14:0] icrc_at;    // unit of the frame that the ICRC is
    logic [14:0] end_at;     // the one behind it, in whose first half it ends
    logic        pay_some;   // there is a payload
    logic [13:0] pay_last;   // its last unit, counted from its first
  } txshape_t;

  // What a slot remembers of its contributions beside the payload. Which headers a frame of it has
  // follows from the opcode.
  typedef struct packed {
    logic [3:0]  opcode;      // low bits of a data opcode: the others are 0
    logic [12:0] plen;
    logic        se;          // OR over contributions
    logic        ce;          // OR
    logic        ack_req;     // OR
    logic [31:0] imm;         // 0 without ImmDt
    logic [63:0] offset;      // RETH: VA minus in_va of the in; 0 without RETH
    logic [31:0] dma_len;     // RETH; 0 without
    logic [3:0]  op;          // OP_*
    logic [3:0]  dtype;
  } slot_meta_t;
  localparam int SLOT_META_W = 156; // bits of slot_meta_t (checked in inc_core)

  // One frame after the table lookups: what the pipe stage decides on.
  typedef struct packed {
    logic [7:0]   verdict;    // first wire- or table-stage verdict that applies (ICRC not yet)
    logic         ok;         // it is ok
    logic         is_data;
    logic         is_ack;
    logic         is_cnp;     // of an out of a Mode-II pipe: to be handed on
    logic [11:0]  ep;         // endpoint index
    logic [11:0]  lead;       // first out of the pipe
    logic [7:0]   pipe;       // in_pipe of a data frame, out_pipe of an ACK or CNP
    logic [5:0]   in_index;
    logic [23:0]  psn;
    logic [7:0]   syndrome;
    logic [23:0]  msn;        // AETH
    logic [SLOT_META_W-1:0] meta; // its own slot_meta_t (native yosys: no nested types); offset
                              // is still RETH's VA, op and dtype those of a pinned pipe
    logic [63:0]  in_va;      // to be taken from meta.offset; 0 without RETH
    logic [15:0]  pay_beats;
    logic         mode2;      // of its pipe, as all that follows
    logic [4:0]   n_log2;
    logic [3:0]   mtu_log2;
    logic [15:0]  block;      // first block of its slot
    logic [6:0]   fan_in;
    logic [15:0]  ack_every;
    logic [1:0]   ack_rule;
    logic         leaf;       // the peer is a rank
    logic         to_asker;   // a replay goes to this endpoint alone
    logic         pinned;
    logic         reproducible;
    logic [3:0]   coll;
    logic [15:0]  root;
    logic [3:0]   dtype;
    logic [3:0]   op;
  } lookup_t;

  // State of a pipe beside its slots and its flags.
  typedef struct packed {
    logic [23:0]  psn_start;  // Mode-III; Mode-II: 0
    logic [23:0]  next_send;  // Mode-III; Mode-II: C, 1 + the highest PSN completed
    logic [23:0]  pending;    // Mode-III: sum over the ins of ePSN - nextSend; Mode-II: slots that
                              // are started and not complete. 0 when drained
    logic [23:0]  win_start;  // first PSN that may start a slot
    logic [23:0]  control_psn; // the last one, that of the next control signal; 0 if pinned
    logic [3:0]   op;         // of the open window
    logic [3:0]   dtype;
    logic         mode2;
    logic [4:0]   n_log2;
  } pipe_word_t;
  localparam int PIPE_WORD_W = 134; // bits of pipe_word_t (checked in inc_core)

  // A frame the engine has decided to send: the rest is looked up when its turn comes.
  typedef struct packed {
    logic [1:0]   kind;       // TX_*
    logic [11:0]  ep;         // where it leaves
    logic [23:0]  psn;
    logic         ack_req;    // data frames
    logic [7:0]   syndrome;   // ACK frames
    logic [23:0]  msn;        // ACK frames
    logic [15:0]  block;      // data frames: first block of the slot
  } txjob_t;
  localparam logic [1:0] TX_DATA = 2'd0; // opcode, payload and the rest from the slot
  localparam logic [1:0] TX_ACK  = 2'd1;
  localparam logic [1:0] TX_CNP  = 2'd2;

  // What a Mode-II decision makes leave: one job per destination.
  typedef struct packed {
    logic [1:0]   kind;       // TX_*
    logic [1:0]   dest;       // FWD_*
    logic [11:0]  ep;         // FWD_EP: where it leaves
    logic [7:0]   pipe;
    logic         cut;        // data: the first destination's has left already
    logic [23:0]  psn;        // CNP: 0
    logic         ack_req;    // data
    logic [7:0]   syndrome;   // ACK
    logic [23:0]  msn;        // ACK
    logic [15:0]  block;      // data: first block of the slot
  } fwd_t;
  localparam logic [1:0] FWD_EP   = 2'd0; // one frame, at ep
  localparam logic [1:0] FWD_OUTS = 2'd1; // one at every out of the pipe, in the order of out_list
  localparam logic [1:0] FWD_INS  = 2'd2; // one at every in, in the order of in_list

  // Bytes of an element minus one: the low bits that a payload length must have clear.
  function automatic logic [2:0] lane_mask(input logic [3:0] dtype);
    case (dtype)
      inc_spec_pkg::DTYPE_INT8:     lane_mask = 3'd0;
      inc_spec_pkg::DTYPE_FLOAT16,
      inc_spec_pkg::DTYPE_BFLOAT16: lane_mask = 3'd1;
      inc_spec_pkg::DTYPE_INT64:    lane_mask = 3'd7;
      default:                      lane_mask = 3'd3;
    endcase
  endfunction

  function automatic logic is_float(input logic [3:0] dtype);
    is_float = dtype == inc_spec_pkg::DTYPE_FLOAT32 || dtype == inc_spec_pkg::DTYPE_FLOAT16
               || dtype == inc_spec_pkg::DTYPE_BFLOAT16;
  endfunction

  // Clocks from a beat into AggregateData to the first that may read the sum: the latency of
  // inc_alu and 2.
  function automatic logic [3:0] sum_distance(input logic [3:0] dtype, input logic [3:0] op,
                                              input logic compare, input logic has_float);
    if (has_float && !compare && is_float(dtype)) sum_distance = 4'd8;
    else if (compare || op == inc_spec_pkg::OP_MIN || op == inc_spec_pkg::OP_MAX
             || (op == inc_spec_pkg::OP_SUM && dtype == inc_spec_pkg::DTYPE_INT8))
      sum_distance = 4'd4;
    else sum_distance = 4'd3;
  endfunction

  // The kind of an AETH syndrome: its bits 6:5 (bit 7 is reserved and 0 in a good frame)
  function automatic logic syndrome_is_ack(input logic [7:0] syndrome);
    syndrome_is_ack = (syndrome & 8'he0) == (inc_spec_pkg::SYNDROME_ACK & 8'he0);
  endfunction

  function automatic logic syndrome_is_rnr(input logic [7:0] syndrome);
    syndrome_is_rnr = (syndrome & 8'he0) == (inc_spec_pkg::SYNDROME_RNR & 8'he0);
  endfunction

  // psn mod N
  function automatic logic [23:0] slot_of(input logic [23:0] psn, input logic [4:0] n_log2);
    slot_of = psn & ~(24'hff_ffff << n_log2);
  endfunction

endpackage

`default_nettype wire
