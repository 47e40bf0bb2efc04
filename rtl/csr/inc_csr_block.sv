// Registers of the engine: the generated block of rtl/spec/inc_csr.rdl and what its fields do, that
// is table commands, counter reads, interrupts and the first-error capture.
//
// Streams:       s_axil_* AXI4-Lite, 32 bits. m_tbl_* one table command, taken with ready;
//                s_tbl_rsp_* its answer, one clock, never before the clock after it was taken.
//                m_cnt_* and s_cnt_rsp_* counter reads, to inc_counters.
// Latency:       a register is read in 4 clocks and written in 3 (inc_axil); CNT_LO after the
//                counter's answer. A command is offered 4 clocks after its write is taken. An
//                answer is in TABLE_DATA and TABLE_STATUS from the next clock.
// Throughput:    one register access in 4 clocks; one table command at a time.
// Back-pressure: s_axil_* by its readies; answers (s_tbl_rsp_*, s_cnt_rsp_*) are always taken.
// Reset:         synchronous; registers to the values of inc_csr.rdl, no command under way.
// Parameters:    those of the engine, shown in CAPS_*: DATA_W 64..4096; PORTS 1..64; ENDPOINTS
//                1..4096; PIPES 1..256; OUTS 1..4096 entries of out_list, and of in_list;
//                POOL_KB 1..2^20-1; FAN_IN 2..64; MTU 256..4096; MODE2, MODE3, FLOAT,
//                CUT_THROUGH 0 or 1.
// Source:        protocol.md 9 (tables, busy) and 12 (first cause, counters).
`default_nettype none

module inc_csr_block #(
  parameter int DATA_W      = inc_build_pkg::DATA_W,
  parameter int PORTS       = inc_build_pkg::PORTS,
  parameter int ENDPOINTS   = inc_build_pkg::ENDPOINTS,
  parameter int PIPES       = inc_build_pkg::PIPES,
  parameter int OUTS        = ENDPOINTS,
  parameter int POOL_KB     = inc_build_pkg::POOL_KB,
  parameter int FAN_IN      = inc_build_pkg::FAN_IN,
  parameter int MTU         = inc_build_pkg::MTU,
  parameter int MODE2       = inc_build_pkg::MODE2,
  parameter int MODE3       = inc_build_pkg::MODE3,
  parameter int FLOAT       = inc_build_pkg::FLOAT,
  parameter int CUT_THROUGH = inc_build_pkg::CUT_THROUGH
) (
  input  wire           clk,
  input  wire           rst,

  input  wire           s_axil_awvalid,
  output wire           s_axil_awready,
  input  wire  [11:0]   s_axil_awaddr,
  input  wire  [2:0]    s_axil_awprot,
  input  wire           s_axil_wvalid,
  output wire           s_axil_wready,
  input  wire  [31:0]   s_axil_wdata,
  input  wire  [3:0]    s_axil_wstrb,
  output wire           s_axil_bvalid,
  input  wire           s_axil_bready,
  output wire  [1:0]    s_axil_bresp,
  input  wire           s_axil_arvalid,
  output wire           s_axil_arready,
  input  wire  [11:0]   s_axil_araddr,
  input  wire  [2:0]    s_axil_arprot,
  output wire           s_axil_rvalid,
  input  wire           s_axil_rready,
  output wire  [31:0]   s_axil_rdata,
  output wire  [1:0]    s_axil_rresp,

  output wire  [31:0]   cfg_tick_clocks,   // clocks of a timer tick; 0: timers stand still

  // Table commands: only those of tables and entries that exist, no write to a read-only table.
  output wire           m_tbl_valid,
  input  wire           m_tbl_ready,
  output wire           m_tbl_write,       // 1: write wdata; 0: read
  output wire  [3:0]    m_tbl_id,          // inc_spec_pkg::TABLE_*
  output wire  [11:0]   m_tbl_index,
  output wire  [1023:0] m_tbl_wdata,       // first field in the lowest bits; 0 from 640 up
  input  wire           s_tbl_rsp_valid,
  input  wire  [1:0]    s_tbl_rsp_error,   // inc_spec_pkg::TABLE_ERROR_*
  input  wire  [1023:0] s_tbl_rsp_rdata,   // of a read; 0 beyond the entry

  output wire           m_cnt_valid,
  input  wire           m_cnt_ready,
  output wire  [7:0]    m_cnt_index,
  input  wire           s_cnt_rsp_valid,
  input  wire  [47:0]   s_cnt_rsp_data,

  input  wire  [PIPES-1:0] status_pipe_error,  // level: the pipe is in error
  input  wire  [PIPES-1:0] status_pipe_drained,  // level: the pipe may be written
  input  wire           stat_bind_done,        // a pipe finished binding
  input  wire           stat_error_valid,      // a pipe goes to error, because of:
  input  wire  [7:0]    stat_error_kind,       // inc_spec_pkg::ERROR_KIND_*
  input  wire  [7:0]    stat_error_pipe,
  input  wire  [11:0]   stat_error_endpoint,
  input  wire  [23:0]   stat_error_psn,
  input  wire  [31:0]   stat_error_got,
  input  wire  [31:0]   stat_error_wanted,

  output wire           irq                    // level
);

  inc_csr_pkg::inc_csr__in_t  hwif_in;
  inc_csr_pkg::inc_csr__out_t hwif_out;

  // ---------------------------------------------------------------- table commands
  localparam int TABLE_WORDS = 24;  // TABLE_DATA of inc_csr.rdl: the longest entry and some room
  localparam logic [1:0] IDLE = 2'd0;
  localparam logic [1:0] OFFER = 2'd1;  // m_tbl_valid
  localparam logic [1:0] WAIT = 2'd2;   // for the answer

  logic        written_q;    // TABLE_CMD was written in the clock before: its fields are new
  logic [1:0]  state_q, state_d;
  logic        write_q, write_d;
  logic [3:0]  id_q, id_d;
  logic [11:0] index_q, index_d;
  logic [1:0]  error_q, error_d;
  logic        overrun_q, overrun_d;
  logic        done;         // a command is over
  logic        load;         // and was a read: take the entry
  logic [1:0]  refuse;       // what is wrong with the command in TABLE_CMD itself
  logic [12:0] entries;      // of its table

  always_comb begin
    case (hwif_out.TABLE_CMD.table_id.value)
      inc_spec_pkg::TABLE_PIPE_CFG, inc_spec_pkg::TABLE_PIPE_STATE,
      inc_spec_pkg::TABLE_PIPE_CTL, inc_spec_pkg::TABLE_PIPE_ERROR: entries = 13'(PIPES);
      inc_spec_pkg::TABLE_OUT_LIST, inc_spec_pkg::TABLE_IN_LIST: entries = 13'(OUTS);
      default:                                                entries = 13'(ENDPOINTS);
    endcase
    refuse = inc_spec_pkg::TABLE_ERROR_NONE;
    if ({1'b0, hwif_out.TABLE_CMD.index.value} >= entries) begin
      refuse = inc_spec_pkg::TABLE_ERROR_BAD_INDEX;
    end
    if ({1'b0, hwif_out.TABLE_CMD.table_id.value} >= 5'(inc_spec_pkg::TABLE_COUNT)
        || (hwif_out.TABLE_CMD.write.value
            && inc_spec_pkg::table_is_read_only(hwif_out.TABLE_CMD.table_id.value))
        || (MODE2 == 0 && (hwif_out.TABLE_CMD.table_id.value == inc_spec_pkg::TABLE_IN_LIST
                           || hwif_out.TABLE_CMD.table_id.value == inc_spec_pkg::TABLE_PIPE_CTL)))
    begin
      refuse = inc_spec_pkg::TABLE_ERROR_BAD_TABLE;
    end
  end

  always_comb begin
    state_d   = state_q;
    write_d   = write_q;
    id_d      = id_q;
    index_d   = index_q;
    error_d   = error_q;
    overrun_d = overrun_q;
    done      = 1'b0;
    load      = 1'b0;
    case (state_q)
      OFFER: if (m_tbl_ready) state_d = WAIT;
      WAIT: begin
        if (s_tbl_rsp_valid) begin
          state_d = IDLE;
          error_d = s_tbl_rsp_error;
          done    = 1'b1;
          load    = !write_q && s_tbl_rsp_error == inc_spec_pkg::TABLE_ERROR_NONE;
        end
      end
      default: ;
    endcase
    if (written_q) begin
      if (state_q != IDLE) begin
        overrun_d = 1'b1;
      end else begin
        overrun_d = 1'b0;
        write_d   = hwif_out.TABLE_CMD.write.value;
        id_d      = hwif_out.TABLE_CMD.table_id.value;
        index_d   = hwif_out.TABLE_CMD.index.value;
        error_d   = refuse;
        if (refuse == inc_spec_pkg::TABLE_ERROR_NONE) state_d = OFFER;
        else done = 1'b1;
      end
    end
  end

  always_ff @(posedge clk) begin
    written_q <= hwif_out.TABLE_CMD.write.swmod;
    state_q   <= state_d;
    write_q   <= write_d;
    id_q      <= id_d;
    index_q   <= index_d;
    error_q   <= error_d;
    overrun_q <= overrun_d;
    if (rst) begin
      written_q <= 1'b0;
      state_q   <= IDLE;
      error_q   <= inc_spec_pkg::TABLE_ERROR_NONE;
      overrun_q <= 1'b0;
    end
  end

  assign m_tbl_valid = state_q == OFFER;
  assign m_tbl_write = write_q;
  assign m_tbl_id    = id_q;
  assign m_tbl_index = index_q;
  generate
    for (genvar i = 0; i < TABLE_WORDS; i++) begin : gen_table_data
      assign m_tbl_wdata[i*32 +: 32] = hwif_out.TABLE_DATA[i].word.value;
      assign hwif_in.TABLE_DATA[i].word.next = s_tbl_rsp_rdata[i*32 +: 32];
      assign hwif_in.TABLE_DATA[i].word.we = load;
    end
  endgenerate
  assign m_tbl_wdata[1023:TABLE_WORDS*32] = '0;
  wire unused_ok = &{1'b0, s_tbl_rsp_rdata[1023:TABLE_WORDS*32]};

  // The command counts as busy from its write on, not from the clock after.
  assign hwif_in.TABLE_STATUS.busy.next    = written_q || state_q != IDLE;
  assign hwif_in.TABLE_STATUS.overrun.next = overrun_q;
  assign hwif_in.TABLE_STATUS.error.next   = error_q;

  // ---------------------------------------------------------------- counters
  logic        cnt_pend_q;
  logic        cnt_ack_q;
  logic [47:0] cnt_data_q;

  always_ff @(posedge clk) begin
    if (hwif_out.CNT_LO.req) cnt_pend_q <= 1'b1;
    else if (m_cnt_ready) cnt_pend_q <= 1'b0;
    cnt_ack_q <= s_cnt_rsp_valid;
    if (s_cnt_rsp_valid) cnt_data_q <= s_cnt_rsp_data;
    if (rst) begin
      cnt_pend_q <= 1'b0;
      cnt_ack_q  <= 1'b0;
      cnt_data_q <= '0;
    end
  end

  assign m_cnt_valid = cnt_pend_q;
  assign m_cnt_index = hwif_out.CNT_INDEX.index.value;
  assign hwif_in.CNT_LO.rd_ack        = cnt_ack_q;
  assign hwif_in.CNT_LO.rd_data.value = cnt_data_q[31:0];
  assign hwif_in.CNT_HI.value.next    = cnt_data_q[47:32];

  // ---------------------------------------------------------------- errors and interrupts
  logic [PIPES-1:0] pipe_error_q, pipe_drained_q;
  wire  [255:0]     pipe_error = 256'(pipe_error_q);
  wire  [255:0]     pipe_drained = 256'(pipe_drained_q);
  wire              capture = stat_error_valid && !hwif_out.ERROR_FIRST.valid.value;

  always_ff @(posedge clk) begin
    pipe_error_q   <= status_pipe_error;
    pipe_drained_q <= status_pipe_drained;
    if (rst) begin
      pipe_error_q   <= '0;
      pipe_drained_q <= '1;  // nothing is bound
    end
  end

  generate
    for (genvar i = 0; i < 8; i++) begin : gen_pipe_status
      assign hwif_in.PIPE_ERRORS[i].pipes.next = pipe_error[i*32 +: 32];
      assign hwif_in.PIPE_DRAINED[i].pipes.next = pipe_drained[i*32 +: 32];
    end
  endgenerate

  assign hwif_in.IRQ_STATUS.pipe_error.next = |(status_pipe_error & ~pipe_error_q);
  assign hwif_in.IRQ_STATUS.bind_done.next  = stat_bind_done;
  assign hwif_in.IRQ_STATUS.table_done.next = done;
  assign hwif_in.IRQ_STATUS.drain_done.next = |(status_pipe_drained & ~pipe_drained_q);

  assign hwif_in.ERROR_FIRST.kind.next      = stat_error_kind;
  assign hwif_in.ERROR_FIRST.kind.we        = capture;
  assign hwif_in.ERROR_FIRST.pipe_id.next   = stat_error_pipe;
  assign hwif_in.ERROR_FIRST.pipe_id.we     = capture;
  assign hwif_in.ERROR_FIRST.endpoint.next  = stat_error_endpoint;
  assign hwif_in.ERROR_FIRST.endpoint.we    = capture;
  assign hwif_in.ERROR_FIRST.valid.hwset    = capture;
  assign hwif_in.ERROR_FIRST.valid.hwclr    = hwif_out.CTRL.error_clear.value;
  assign hwif_in.ERROR_PSN.psn.next         = stat_error_psn;
  assign hwif_in.ERROR_PSN.psn.we           = capture;
  assign hwif_in.ERROR_GOT.value.next       = stat_error_got;
  assign hwif_in.ERROR_GOT.value.we         = capture;
  assign hwif_in.ERROR_WANTED.value.next    = stat_error_wanted;
  assign hwif_in.ERROR_WANTED.value.we      = capture;

  assign irq             = hwif_out.IRQ_STATUS.intr;
  assign cfg_tick_clocks = hwif_out.TICK_CLOCKS.clocks.value;

  // ---------------------------------------------------------------- the build
  assign hwif_in.SPEC_HASH.hash.next        = inc_spec_pkg::SPEC_HASH;
  assign hwif_in.CAPS_DATA.data_w.next      = 16'(DATA_W);
  assign hwif_in.CAPS_DATA.ports.next       = 8'(PORTS);
  assign hwif_in.CAPS_DATA.mode2.next       = MODE2 != 0;
  assign hwif_in.CAPS_DATA.mode3.next       = MODE3 != 0;
  assign hwif_in.CAPS_DATA.float.next       = FLOAT != 0;
  assign hwif_in.CAPS_TABLES.endpoints.next = 16'(ENDPOINTS);
  assign hwif_in.CAPS_TABLES.pipes.next     = 16'(PIPES);
  assign hwif_in.CAPS_MEMORY.pool_kb.next   = 20'(POOL_KB);
  assign hwif_in.CAPS_MEMORY.mtu_log2.next  = 4'($clog2(MTU));
  assign hwif_in.CAPS_LISTS.outs.next       = 16'(OUTS);
  assign hwif_in.CAPS_ENGINE.fan_in.next      = 7'(FAN_IN);
  assign hwif_in.CAPS_ENGINE.cut_through.next = CUT_THROUGH != 0;
  assign hwif_in.CAPS_LISTS.counters.next   = 16'(inc_spec_pkg::COUNTER_COUNT);

  // ---------------------------------------------------------------- the bus
  wire        req, req_is_wr, rd_ack, rd_err, wr_ack, wr_err, stall_wr, stall_rd;
  wire [11:0] req_addr;
  wire [31:0] wr_data, wr_biten, rd_data;

  inc_axil #(.ADDR_W(12)) u_axil (
    .clk(clk), .rst(rst),
    .s_axil_awvalid(s_axil_awvalid), .s_axil_awready(s_axil_awready),
    .s_axil_awaddr(s_axil_awaddr),
    .s_axil_wvalid(s_axil_wvalid), .s_axil_wready(s_axil_wready), .s_axil_wdata(s_axil_wdata),
    .s_axil_wstrb(s_axil_wstrb),
    .s_axil_bvalid(s_axil_bvalid), .s_axil_bready(s_axil_bready), .s_axil_bresp(s_axil_bresp),
    .s_axil_arvalid(s_axil_arvalid), .s_axil_arready(s_axil_arready),
    .s_axil_araddr(s_axil_araddr),
    .s_axil_rvalid(s_axil_rvalid), .s_axil_rready(s_axil_rready), .s_axil_rdata(s_axil_rdata),
    .s_axil_rresp(s_axil_rresp),
    .m_req(req), .m_req_is_wr(req_is_wr), .m_addr(req_addr), .m_wr_data(wr_data),
    .m_wr_biten(wr_biten), .m_rd_ack(rd_ack), .m_rd_err(rd_err), .m_rd_data(rd_data),
    .m_wr_ack(wr_ack), .m_wr_err(wr_err));

  inc_csr u_regs (
    .clk                 (clk),
    .rst                 (rst),
    .s_cpuif_req         (req),
    .s_cpuif_req_is_wr   (req_is_wr),
    .s_cpuif_addr        (req_addr),
    .s_cpuif_wr_data     (wr_data),
    .s_cpuif_wr_biten    (wr_biten),
    .s_cpuif_req_stall_wr(stall_wr),
    .s_cpuif_req_stall_rd(stall_rd),
    .s_cpuif_rd_ack      (rd_ack),
    .s_cpuif_rd_err      (rd_err),
    .s_cpuif_rd_data     (rd_data),
    .s_cpuif_wr_ack      (wr_ack),
    .s_cpuif_wr_err      (wr_err),
    .hwif_in             (hwif_in),
    .hwif_out            (hwif_out)
  );

  wire unused_prot = &{1'b0, s_axil_awprot, s_axil_arprot, stall_wr, stall_rd};

`ifdef INC_ASSERT
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert_no_stall: assert (!req || !(req_is_wr ? stall_wr : stall_rd));  // one at a time
      assert_answer_wanted: assert (!s_tbl_rsp_valid || state_q == WAIT);
      assert_error_kind: assert (!stat_error_valid
                                 || stat_error_kind != inc_spec_pkg::ERROR_KIND_NONE);
    end
  end
`endif

endmodule

`default_nettype wire
