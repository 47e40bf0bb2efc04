// Advance: ePSN of every in, and the events that move it: advance and release (Mode-III).
//
// An in-order contribution advances its in right after its commit (imm). An in that has kept
// contributions beyond a gap (up to hi) is scanned after that: its slots are read one by one as
// long as they hold its bit. The advance with which all ins have passed a complete slot releases
// it.
// Nothing here decides when: req_* says what is due, op_* lets it happen.
//
// Ports:         take_*  a contribution was committed (never in a clock with an op_*).
//                pk_*, op_*: ePSN, MSN of an endpoint, combinational. lk_busy: an advance of
//                lk_ep is under way: its next frame waits, or it would look like one beyond a
//                gap.
//                imm     an advance is due before the next commit.
//                cfg_want, cfg_pipe, cfg: pipe_cfg of the in that is scanned, combinational.
//                sc_*    slot read for the scan.
//                adv_*   operands of op_imm or op_scan; rel_* of op_release.
// Latency:       imm 1 clock after take; a scan step 4 clocks, the first of an in 5.
// Back-pressure: imm waits while the queue of ins to scan is full.
// Reset:         nothing due; an in's state is unknown until init.
// Parameters:    ENDPOINTS, PIPES, BLOCKS powers of two; FAN_IN 2..64; QUEUE ins that may wait for
//                their scan.
// Source:        protocol.md 6; microarchitecture.md "Release in O(1)".
`default_nettype none

module inc_advance #(
  parameter int ENDPOINTS = 64,
  parameter int PIPES     = 16,
  parameter int BLOCKS    = 512,
  parameter int FAN_IN    = 64,
  parameter int QUEUE     = 8,
  parameter int EP_W      = $clog2(ENDPOINTS),
  parameter int PIPE_W    = $clog2(PIPES),
  parameter int BLK_W     = $clog2(BLOCKS)
) (
  input  wire                     clk,
  input  wire                     rst,

  input  wire                     init,
  input  wire [EP_W-1:0]          init_ep,
  input  inc_spec_pkg::ep_cfg_t   init_cfg,

  input  wire                     take,
  input  wire                     take_in_order,
  input  wire                     take_start,
  input  wire                     take_full,
  input  wire [EP_W-1:0]          take_ep,
  input  wire [PIPE_W-1:0]        take_pipe,
  input  wire [23:0]              take_psn,
  input  wire [BLK_W-1:0]         take_blk,
  input  wire                     take_last,
  input  wire                     take_ack_req,
  input  wire [4:0]               take_n_log2,
  input  wire [6:0]               take_fan_in,
  input  wire [15:0]              take_every,

  output wire [23:0]              pk_epsn,        // of take_ep
  output wire [23:0]              pk_msn,
  input  wire [EP_W-1:0]          op_ep,
  output wire [23:0]              op_epsn,
  output wire [23:0]              op_msn,
  output wire [PIPE_W-1:0]        op_in_pipe,
  input  wire [2:0]               op_kind,        // pending acknowledgement of op_ep
  input  wire [EP_W-1:0]          lk_ep,
  output wire                     lk_busy,

  output wire                     imm,
  output wire                     req_release,
  output wire                     req_imm,
  output wire                     req_scan,
  output wire                     idle,
  input  wire                     op_release,
  input  wire                     op_imm,
  input  wire                     op_scan,

  output wire                     cfg_want,
  output wire [PIPE_W-1:0]        cfg_pipe,
  input  inc_spec_pkg::pipe_cfg_t cfg,
  output wire                     sc_en,
  output wire [BLK_W-1:0]         sc_block,
  input  wire                     sc_valid,
  input  wire [22:0]              sc_tag,
  input  wire [FAN_IN-1:0]        sc_bitmap,
  input  wire                     sc_last,
  input  wire                     sc_ack_req,

  output wire                     adv,            // op_imm, or op_scan that finds something
  output wire [EP_W-1:0]          adv_ep,         // of imm, else of the scan
  output wire [PIPE_W-1:0]        adv_pipe,
  output wire [4:0]               adv_n_log2,
  output wire [23:0]              adv_epsn,       // the new ePSN and MSN
  output wire [23:0]              adv_msn,
  output wire                     adv_ack,        // an acknowledgement is due
  output wire [PIPE_W-1:0]        rel_pipe,
  output wire [23:0]              rel_psn,
  output wire [6:0]               rel_fan_in,
  output wire [4:0]               rel_n_log2
);

  typedef enum logic [2:0] {SC_IDLE, SC_CFG, SC_READ, SC_TAKE, SC_FIRE} sc_e;

  // ------------------------------------------------------------------ imm, release, scan
  logic              imm_q, imm_last_q, imm_ack_req_q, imm_full_q;
  logic [EP_W-1:0]   imm_ep_q;
  logic [PIPE_W-1:0] imm_pipe_q;
  logic [23:0]       imm_psn_q;
  logic [BLK_W-1:0]  imm_blk_q;
  logic [4:0]        imm_n_log2_q;
  logic [6:0]        imm_fan_in_q;
  logic [15:0]       imm_every_q;
  logic              rel_q;
  logic [PIPE_W-1:0] rel_pipe_q;
  logic [23:0]       rel_psn_q;
  logic [6:0]        rel_fan_in_q;
  logic [4:0]        rel_n_log2_q;
  sc_e               sc_q;
  logic [EP_W-1:0]   sc_ep_q;
  logic [BLK_W-1:0]  sc_blk_q;
  logic              sc_hit_q, sc_full_q, sc_last_q, sc_ack_req_q;
  inc_spec_pkg::pipe_cfg_t sc_cfg_q;

  wire              queue_room, queue_valid;
  wire [EP_W-1:0]   queue_ep;
  wire [$clog2(QUEUE+1)-1:0] queue_count;
  wire              scan_from_imm;
  wire              imm_go = imm_q && queue_room;    // else a scan goes on, and makes room

  // ------------------------------------------------------------------ state of the ins
  logic [15:0] new_cnt;
  wire  [23:0] sc_epsn;
  wire  [15:0] op_cnt;
  wire  [79:0] rx_rest;
  inc_lutram #(.DATA_W(64), .DEPTH(ENDPOINTS), .R(3)) u_rx (
    .clk(clk), .wr_en(init || adv), .wr_addr(init ? init_ep : op_ep),
    .wr_data(init ? {init_cfg.psn0, 24'd0, 16'd0} : {adv_epsn, adv_msn, new_cnt}),
    .rd_addr({sc_ep_q, op_ep, take_ep}),
    .rd_data({sc_epsn, rx_rest[39:0], op_epsn, op_msn, op_cnt, pk_epsn, pk_msn, rx_rest[55:40]}));
  assign rx_rest[79:56] = '0;

  wire [7:0] sc_in_pipe, op_pipe_full;
  wire [5:0] sc_in_index, op_in_index;
  inc_lutram #(.DATA_W(14), .DEPTH(ENDPOINTS), .R(2)) u_in (
    .clk(clk), .wr_en(init), .wr_addr(init_ep),
    .wr_data({init_cfg.in_pipe, init_cfg.in_index}),
    .rd_addr({sc_ep_q, op_ep}),
    .rd_data({sc_in_pipe, sc_in_index, op_pipe_full, op_in_index}));
  assign op_in_pipe = op_pipe_full[PIPE_W-1:0];

  // kept beyond ePSN: whether anything is, and the highest PSN of it
  wire        op_ooo, pk_ooo;
  wire [23:0] op_hi, pk_hi;
  wire [23:0] hi_ahead = take_psn - pk_hi;
  wire        hi_up    = take && !take_in_order && (!pk_ooo || !hi_ahead[23]);
  wire [23:0] kept     = op_hi - adv_epsn;            // >= 0: more is kept beyond
  wire        more     = op_ooo && !kept[23];
  inc_lutram #(.DATA_W(25), .DEPTH(ENDPOINTS), .R(2)) u_hi (
    .clk(clk), .wr_en(init || hi_up || adv),
    .wr_addr(init ? init_ep : hi_up ? take_ep : op_ep),
    .wr_data(init ? 25'd0 : hi_up ? {1'b1, take_psn} : {more, op_hi}),
    .rd_addr({op_ep, take_ep}), .rd_data({op_ooo, op_hi, pk_ooo, pk_hi}));

  // an in is scanned, or waits for it
  wire scanning, scan_end;
  inc_lutram #(.DATA_W(1), .DEPTH(ENDPOINTS)) u_scanning (
    .clk(clk), .wr_en(init || scan_from_imm || scan_end),
    .wr_addr(init ? init_ep : scan_from_imm ? imm_ep_q : sc_ep_q), .wr_data(scan_from_imm && !init),
    .rd_addr(lk_ep), .rd_data(scanning));
  assign lk_busy = scanning || (imm_q && imm_ep_q == lk_ep);

  // ins that have advanced past a slot
  wire [6:0]       passed;
  wire [BLK_W-1:0] adv_blk    = imm_go ? imm_blk_q : sc_blk_q;
  wire [6:0]       new_passed = passed + 7'd1;
  inc_lutram #(.DATA_W(7), .DEPTH(BLOCKS)) u_passed (
    .clk(clk), .wr_en((take && take_start) || adv), .wr_addr(take ? take_blk : adv_blk),
    .wr_data(take ? 7'd0 : new_passed), .rd_addr(adv_blk), .rd_data(passed));

  // ------------------------------------------------------------------ operands of an advance
  wire [15:0] every    = imm_go ? imm_every_q : sc_cfg_q.ack_every;
  wire [6:0]  fan_in   = imm_go ? imm_fan_in_q : sc_cfg_q.fan_in;
  wire        full     = imm_go ? imm_full_q : sc_full_q;
  wire        last     = imm_go ? imm_last_q : sc_last_q;
  wire        ack_req  = imm_go ? imm_ack_req_q : sc_ack_req_q;
  wire [16:0] cnt      = {1'b0, op_cnt} + 17'd1;
  assign adv           = op_imm || (op_scan && sc_hit_q);
  assign adv_ep        = imm_go ? imm_ep_q : sc_ep_q;
  assign adv_pipe      = imm_go ? imm_pipe_q : sc_in_pipe[PIPE_W-1:0];
  assign adv_n_log2    = imm_go ? imm_n_log2_q : sc_cfg_q.n_log2;
  assign adv_epsn      = op_epsn + 24'd1;
  assign adv_msn       = op_msn + 24'(last);
  assign adv_ack       = op_kind != inc_spec_pkg::ACK_KIND_NONE || cnt >= {1'b0, every} || ack_req;
  assign new_cnt       = adv_ack ? 16'd0 : cnt[15:0];
  assign scan_from_imm = op_imm && more;
  assign scan_end      = op_scan && !(sc_hit_q && more);

  assign imm         = imm_q;
  assign req_imm     = imm_go;
  assign req_release = rel_q;
  assign req_scan    = sc_q == SC_FIRE && !imm_go;
  assign idle        = !imm_q && !rel_q && sc_q == SC_IDLE && queue_count == '0;
  assign rel_pipe    = rel_pipe_q;
  assign rel_psn     = rel_psn_q;
  assign rel_fan_in  = rel_fan_in_q;
  assign rel_n_log2  = rel_n_log2_q;

  inc_fifo #(.DATA_W(EP_W), .DEPTH(QUEUE)) u_queue (
    .clk(clk), .rst(rst), .s_valid(scan_from_imm), .s_ready(queue_room), .s_data(imm_ep_q),
    .m_valid(queue_valid), .m_ready(sc_q == SC_IDLE), .m_data(queue_ep), .count(queue_count));

  // ------------------------------------------------------------------ scan
  wire [23:0] sc_idx = inc_pkg::slot_of(sc_epsn, sc_cfg_q.n_log2);
  assign cfg_want = sc_q == SC_CFG;
  assign cfg_pipe = sc_in_pipe[PIPE_W-1:0];
  assign sc_en    = sc_q == SC_READ;
  assign sc_block = sc_cfg_q.base_block[BLK_W-1:0] + BLK_W'(sc_idx << (sc_cfg_q.mtu_log2 - 4'd8));
  wire   stale    = take && take_blk == sc_blk_q && (sc_q == SC_TAKE || sc_q == SC_FIRE);
  wire   [FAN_IN-1:0] all = ~({FAN_IN{1'b1}} << sc_cfg_q.fan_in);

  always_ff @(posedge clk) begin
    if (op_imm) imm_q <= 1'b0;
    if (take && take_in_order) begin
      imm_q         <= 1'b1;
      imm_ep_q      <= take_ep;
      imm_pipe_q    <= take_pipe;
      imm_psn_q     <= take_psn;
      imm_blk_q     <= take_blk;
      imm_n_log2_q  <= take_n_log2;
      imm_last_q    <= take_last;
      imm_ack_req_q <= take_ack_req;
      imm_full_q    <= take_full;
      imm_fan_in_q  <= take_fan_in;
      imm_every_q   <= take_every;
    end
    if (op_release) rel_q <= 1'b0;
    if (adv && full && new_passed == fan_in) begin
      rel_q        <= 1'b1;
      rel_pipe_q   <= adv_pipe;
      rel_psn_q    <= op_epsn;
      rel_fan_in_q <= fan_in;
      rel_n_log2_q <= adv_n_log2;
    end

    case (sc_q)
      SC_IDLE: if (queue_valid) begin
        sc_q    <= SC_CFG;
        sc_ep_q <= queue_ep;
      end
      SC_CFG: begin
        sc_q     <= SC_READ;
        sc_cfg_q <= cfg;
      end
      SC_READ: begin
        sc_q     <= SC_TAKE;
        sc_blk_q <= sc_block;
      end
      SC_TAKE: begin
        sc_q         <= SC_FIRE;
        sc_hit_q     <= sc_valid && sc_tag == 23'(sc_epsn >> sc_cfg_q.n_log2)
                        && sc_bitmap[sc_in_index[$clog2(FAN_IN)-1:0]];
        sc_full_q    <= sc_bitmap == all;
        sc_last_q    <= sc_last;
        sc_ack_req_q <= sc_ack_req;
      end
      default: if (op_scan) sc_q <= scan_end ? SC_IDLE : SC_READ;
    endcase
    if (stale) sc_q <= SC_READ;

    if (rst) begin
      imm_q <= 1'b0;
      rel_q <= 1'b0;
      sc_q  <= SC_IDLE;
    end
`ifdef INC_ASSERT
    if (!rst && op_imm) assert (op_epsn == imm_psn_q);
    if (!rst) assert (!(take && (op_imm || op_scan || op_release)));
    if (!rst && scan_from_imm) assert (queue_room);
`endif
  end

  wire unused_ok = &{1'b0, init_cfg, cfg, sc_cfg_q, op_pipe_full, op_in_index, sc_in_index,
                     sc_in_pipe, rx_rest, hi_ahead, kept, imm_psn_q};

endmodule

`default_nettype wire
