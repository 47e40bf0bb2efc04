// What the benches of single stages share: sizes, the DPI calls, and one packed type for each stream.
// The Go side reads the types of this file, so a field has one description.
`default_nettype none

package inc_bench_pkg;

  localparam int DATA_W    = `INC_BENCH_DATA_W;
  localparam int ENDPOINTS = 16;
  localparam int PIPES     = 4;
  localparam int BLOCKS    = 64;
  localparam int BEATS     = BLOCKS * 2048 / DATA_W;
  localparam int MAX_W     = 1280;   // bits of the widest token

  import "DPI-C" function void inc_bench_open(input longint handle, input int stream,
                                              input int kind, input int width);
  import "DPI-C" function bit inc_bench_source(input longint handle, input int stream,
                                               input bit accepted, output bit [MAX_W-1:0] data);
  import "DPI-C" function bit inc_bench_sink(input longint handle, input int stream,
                                             input bit valid, input bit ready,
                                             input bit [MAX_W-1:0] data);
  import "DPI-C" function void inc_bench_watch(input longint handle, input int stream,
                                               input bit [MAX_W-1:0] data);

  // ---------------------------------------------------------------- inc_lookup_table
  typedef struct packed {
    logic [11:0]               index;
    inc_spec_pkg::ep_cfg_t     cfg;
  } ep_write_t;
  typedef struct packed {
    logic [7:0]                index;
    inc_spec_pkg::pipe_cfg_t   cfg;
  } pipe_write_t;
  typedef struct packed {
    logic [11:0]               index;
  } ep_read_t;
  typedef struct packed {
    logic [7:0]                op;
    logic [7:0]                tx;
    logic [7:0]                send;
    logic [7:0]                keep;
  } pipe_read_t;
  typedef struct packed {
    pipe_read_t                at;
    inc_spec_pkg::pipe_cfg_t   op_cfg;
    inc_spec_pkg::pipe_cfg_t   tx_cfg;
    inc_spec_pkg::pipe_cfg_t   send_cfg;
    inc_spec_pkg::pipe_cfg_t   keep_cfg;
  } pipe_readout_t;

  // ---------------------------------------------------------------- inc_check_duplicate
  typedef struct packed {
    logic        mode2;
    logic        copy;
    logic [23:0] psn;
    logic [23:0] first;
    logic [23:0] epsn;
    logic [4:0]  n_log2;
    logic        pipe_error;
    logic        binding;
    logic        slot_valid;
    logic [23:0] slot_tag;
    logic        slot_bit;
    logic        slot_full;
    logic        no_window;
    logic        meta_equal;
  } check_in_t;
  typedef struct packed {
    logic [7:0]  verdict;
    logic        start;
    logic        replay;
    logic        in_order;
    logic        behind;
  } check_out_t;

  // ---------------------------------------------------------------- inc_aggregate_data
  typedef struct packed {
    logic [3:0]        dtype;
    logic [3:0]        op;
    logic              compare;
    logic              start;
    logic              bank;
    logic [15:0]       addr;
    logic              last;
    logic [DATA_W-1:0] data;
  } beat_t;
  typedef struct packed {
    logic                 bank;
    logic [15:0]          addr;
    logic                 last;
    logic [DATA_W/32-1:0] diff;
    logic [DATA_W-1:0]    data;
  } sum_t;
  typedef struct packed {
    logic        bank;
    logic [15:0] addr;
  } slot_read_t;
  typedef struct packed {
    logic [DATA_W-1:0] data;
  } data_t;

  // ---------------------------------------------------------------- inc_alu
  typedef struct packed {
    logic [3:0]        dtype;
    logic [3:0]        op;
    logic              compare;
    logic              start;
    logic [15:0]       tag;
    logic [DATA_W-1:0] a;
    logic [DATA_W-1:0] x;
  } alu_in_t;
  typedef struct packed {
    logic [15:0]          tag;
    logic [DATA_W/32-1:0] diff;
    logic [DATA_W-1:0]    data;
  } alu_out_t;

  // ---------------------------------------------------------------- inc_send_ack
  typedef struct packed {
    logic [11:0] ep;
    logic        init;
    logic        set;
    logic [2:0]  kind;
    logic        force_ack;
    logic        nak_wr;
    logic        nak;
  } ack_set_t;
  typedef struct packed {
    logic [11:0] ep;
    logic [2:0]  old_kind;
    logic        old_nak;
    logic [2:0]  new_kind;
  } ack_seen_t;
  typedef struct packed {
    logic [11:0] ep;
    logic [2:0]  kind;
    logic        nak;
  } ack_take_t;

  // ---------------------------------------------------------------- inc_receive_ack
  typedef struct packed {
    inc_spec_pkg::ep_tx_t st;
    logic [23:0]          psn;
    logic [7:0]           syndrome;
  } aeth_in_t;
  typedef struct packed {
    inc_spec_pkg::ep_tx_t st;
    logic [7:0]           verdict;
    logic                 restart;
    logic                 rnr_start;
  } aeth_out_t;

  // ---------------------------------------------------------------- inc_recycle_buffer
  typedef struct packed {
    logic [7:0]  pipe;
    logic [23:0] psn;
  } pipe_psn_t;
  typedef struct packed {
    logic        granted;
    logic        done;
  } jobs_t;
  typedef struct packed {
    logic [PIPES-1:0] pend;
    logic             jobs_idle;
  } recycle_status_t;

  // ---------------------------------------------------------------- inc_retransmission
  typedef struct packed {
    logic [11:0] index;
    logic [11:0] ep;
  } out_write_t;
  typedef struct packed {
    logic [11:0] ep;
    logic [23:0] psn;
    logic        out;
  } ep_psn_t;
  typedef struct packed {
    logic [15:0]         tick_clocks;
    logic [PIPES-1:0]    live;
    logic [PIPES-1:0]    pipe_error;
    logic [24*PIPES-1:0] next_send;
  } tx_level_t;
  typedef struct packed {
    logic [11:0] ep;
    logic [7:0]  pipe;
    logic [23:0] psn;
    logic [7:0]  syndrome;
    logic [31:0] frame;
  } ack_req_t;
  typedef struct packed {
    logic [7:0]  pipe;
    logic [7:0]  kind;
    logic [11:0] ep;
    logic [23:0] psn;
    logic [31:0] got;
    logic [31:0] wanted;
  } fault_t;
  typedef struct packed {
    logic [inc_spec_pkg::EVENT_COUNT-1:0] stat_event;
  } event_t;

  // ---------------------------------------------------------------- inc_minimum_ack, inc_forward
  typedef struct packed {
    logic [PIPES-1:0]    live;
    logic [PIPES-1:0]    pipe_error;
  } hand_level_t;
  typedef struct packed {
    logic [11:0] ep;
    logic [7:0]  pipe;
    logic [1:0]  rule;
    logic        leaf;
    logic [23:0] psn;
    logic [7:0]  syndrome;
    logic [23:0] msn;
    logic [31:0] frame;
  } hand_ack_t;
  typedef struct packed {
    logic [inc_spec_pkg::EVENT_COUNT-1:0] stat_event;
  } hand_stat_t;
  typedef struct packed {
    inc_spec_pkg::record_t                rec;
    logic [inc_spec_pkg::EVENT_COUNT-1:0] stat_event;
  } hand_record_t;
  typedef struct packed {
    logic [15:0] block;
    logic        busy;
  } block_busy_t;

  // ---------------------------------------------------------------- inc_translate_header
  typedef struct packed {
    logic [15:0]         block;
    inc_pkg::slot_meta_t meta;
    logic                flip;
  } slot_write_t;
  typedef struct packed {
    logic        bank;
    logic [15:0] addr;
    logic [15:0] beats;
  } read_desc_t;

  // ---------------------------------------------------------------- inc_replicate_data
  typedef struct packed {
    logic [DATA_W-1:0] data;
    logic              last;
  } pay_t;
  typedef struct packed {
    logic        nothing;
  } pulse_t;

  // ---------------------------------------------------------------- inc_pipe
  typedef struct packed {
    logic [7:0]  verdict;
  } verdict_t;
  typedef struct packed {
    logic        fits;
  } room_t;
  typedef struct packed {
    logic [3:0]              id;
    logic [11:0]             index;
    inc_spec_pkg::ep_cfg_t   ep;
    inc_spec_pkg::pipe_cfg_t pipe;
  } table_write_t;
  typedef struct packed {
    logic [7:0]  verdict;
    logic        bypass;
  } frame_end_t;

endpackage

`default_nettype wire
