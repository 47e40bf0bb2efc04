// SPI NOR flash: what the bridge can ask of it, as commands on four wires (mode 0).
//
// Streams:       s_* a request; s_data_* the bytes of a page to program; m_* bytes that are read.
// Latency:       what the wires take: 8 bits of 2 * HALF clocks for a byte, commands and addresses
//                before it; and the flash.
// Throughput:    one request at a time.
// Back-pressure: s_ready is 0 during a request. SCK stands still while a byte waits to be taken, or
//                to come.
// Reset:         synchronous; the flash is not selected. A command that was under way is cut off.
// Parameters:    HALF 1..255 clocks of half a period of SCK; GAP 1..255 clocks of CS# high;
//                PATIENCE clocks that a flash may be busy before a request fails.
// Source:        docs/serial.md, flash; commands as all common parts have them (JESD216).
`default_nettype none

module inc_flash #(
  parameter int HALF     = 2,
  parameter int GAP      = 16,
  parameter int PATIENCE = 12500000
) (
  input  wire        clk,
  input  wire        rst,
  input  wire        s_valid,
  output wire        s_ready,
  input  wire [2:0]  s_op,          // localparams below
  input  wire [23:0] s_addr,
  input  wire [8:0]  s_len,         // bytes to read or to program, 1..256
  input  wire        s_data_valid,
  output wire        s_data_ready,
  input  wire [7:0]  s_data,
  output wire        m_valid,
  input  wire        m_ready,
  output wire [7:0]  m_data,
  output wire        stat_begin,    // the flash is idle, and the request is on its way
  output wire        stat_fail,     // the flash stayed busy: the request is over
  output wire        stat_done,     // the request is over

  output wire        spi_cs_n,
  output wire        spi_sck,
  output wire        spi_mosi,
  input  wire        spi_miso
);

  // Requests: as inc_bridge has them.
  localparam logic [2:0] READ    = 3'd0;
  localparam logic [2:0] PROGRAM = 3'd1;
  localparam logic [2:0] SECTOR  = 3'd2;
  localparam logic [2:0] BLOCK   = 3'd3;
  localparam logic [2:0] ID      = 3'd4;
  localparam logic [2:0] STATUS  = 3'd5;

  // Commands of the flash.
  localparam logic [7:0] PAGE_PROGRAM = 8'h02;
  localparam logic [7:0] READ_DATA    = 8'h03;
  localparam logic [7:0] READ_STATUS  = 8'h05;
  localparam logic [7:0] WRITE_ENABLE = 8'h06;
  localparam logic [7:0] SECTOR_ERASE = 8'h20;
  localparam logic [7:0] BLOCK_ERASE  = 8'hd8;
  localparam logic [7:0] JEDEC_ID     = 8'h9f;

  // The parts of a request: wait for the flash, enable the write, the thing itself.
  localparam logic [1:0] POLL   = 2'd0;
  localparam logic [1:0] ENABLE = 2'd1;
  localparam logic [1:0] MAIN   = 2'd2;

  localparam logic [2:0] IDLE   = 3'd0;
  localparam logic [2:0] SELECT = 3'd1;
  localparam logic [2:0] NEXT   = 3'd2;  // choose the next byte
  localparam logic [2:0] SHIFT  = 3'd3;
  localparam logic [2:0] GIVE   = 3'd4;  // a byte that was read waits
  localparam logic [2:0] RELEASE = 3'd5;

  localparam int PW = $clog2(PATIENCE + 1);

  logic [2:0]    state_q;
  logic [1:0]    part_q;
  logic [2:0]    op_q;
  logic [23:0]   addr_q;
  logic [8:0]    len_q, left_q;       // data bytes of the request, and those to come
  logic [2:0]    head_q;              // bytes of command and address that have been sent
  logic [6:0]    shift_q;             // bits to send, behind the one on the wire
  logic [7:0]    got_q;
  logic [3:0]    bit_q;
  logic [7:0]    clocks_q;
  logic [PW-1:0] patience_q;
  logic          cs_q, sck_q, mosi_q;
  logic          begin_q, fail_q, done_q;

  wire is_write = op_q == PROGRAM || op_q == SECTOR || op_q == BLOCK;
  wire is_read  = op_q == READ || op_q == ID || op_q == STATUS;

  // What the part sends and how much data it has.
  logic [7:0] command, head_byte;
  logic       has_addr, reads;
  always_comb begin
    command = READ_STATUS;
    if (part_q == ENABLE) command = WRITE_ENABLE;
    if (part_q == MAIN) begin
      case (op_q)
        READ:    command = READ_DATA;
        PROGRAM: command = PAGE_PROGRAM;
        SECTOR:  command = SECTOR_ERASE;
        BLOCK:   command = BLOCK_ERASE;
        ID:      command = JEDEC_ID;
        default: command = READ_STATUS;
      endcase
    end
    has_addr = part_q == MAIN && (op_q == READ || is_write);
    reads    = part_q == POLL || (part_q == MAIN && is_read);
    case (head_q)
      3'd0:    head_byte = command;
      3'd1:    head_byte = addr_q[23:16];
      3'd2:    head_byte = addr_q[15:8];
      default: head_byte = addr_q[7:0];
    endcase
  end

  wire in_head = head_q == 3'd0 || (has_addr && head_q != 3'd4);
  wire tick    = clocks_q == 8'd0;
  wire wants   = state_q == NEXT && !in_head && left_q != 9'd0 && !reads;

  assign s_ready      = state_q == IDLE;
  assign s_data_ready = wants;
  assign m_valid      = state_q == GIVE;
  assign m_data       = got_q;
  assign stat_begin   = begin_q;
  assign stat_fail    = fail_q;
  assign stat_done    = done_q;
  assign spi_cs_n     = !cs_q;
  assign spi_sck      = sck_q;
  assign spi_mosi     = mosi_q;

  always_ff @(posedge clk) begin
    begin_q <= 1'b0;
    fail_q  <= 1'b0;
    done_q  <= 1'b0;
    if (!tick) clocks_q <= clocks_q - 8'd1;
    if (patience_q != '0) patience_q <= patience_q - PW'(1);
    case (state_q)
      IDLE: begin
        if (s_valid) begin
          op_q       <= s_op;
          addr_q     <= s_addr;
          len_q      <= s_op == READ || s_op == PROGRAM ? s_len : s_op == ID ? 9'd3
                        : s_op == STATUS ? 9'd1 : 9'd0;
          part_q     <= s_op == STATUS ? MAIN : POLL;
          begin_q    <= s_op == STATUS;
          patience_q <= PW'(PATIENCE);
          state_q    <= SELECT;
          clocks_q   <= 8'(HALF - 1);
        end
      end
      SELECT: begin
        cs_q   <= 1'b1;
        head_q <= 3'd0;
        left_q <= part_q == POLL ? 9'd1 : part_q == MAIN ? len_q : 9'd0;
        if (tick) state_q <= NEXT;
      end
      NEXT: begin
        bit_q    <= 4'd0;
        clocks_q <= 8'(HALF - 1);
        if (in_head) begin
          shift_q <= head_byte[6:0];
          mosi_q  <= head_byte[7];
          head_q  <= head_q + 3'd1;
          state_q <= SHIFT;
        end else if (left_q == 9'd0) begin
          cs_q     <= 1'b0;
          clocks_q <= 8'(GAP - 1);
          state_q  <= RELEASE;
        end else if (reads || s_data_valid) begin
          shift_q <= reads ? 7'd0 : s_data[6:0];
          mosi_q  <= !reads && s_data[7];
          left_q  <= left_q - 9'd1;
          state_q <= SHIFT;
        end
      end
      SHIFT: begin
        if (tick) begin
          clocks_q <= 8'(HALF - 1);
          sck_q    <= !sck_q;
          if (sck_q) begin  // it falls: the flash has had all of the high half to answer
            got_q   <= {got_q[6:0], spi_miso};
            shift_q <= {shift_q[5:0], 1'b0};
            mosi_q  <= shift_q[6];
            bit_q   <= bit_q + 4'd1;
            if (bit_q == 4'd7) begin
              // Bytes behind the command are data; those of the poll stay here.
              state_q <= reads && part_q == MAIN && !in_head && left_q != len_q ? GIVE : NEXT;
            end
          end
        end
      end
      GIVE: if (m_ready) state_q <= NEXT;
      RELEASE: begin
        if (tick) begin
          clocks_q <= 8'(HALF - 1);
          state_q  <= SELECT;
          case (part_q)
            POLL: begin
              if (!got_q[0]) begin
                part_q  <= is_write ? ENABLE : MAIN;
                begin_q <= 1'b1;
              end else if (patience_q == '0) begin
                fail_q  <= 1'b1;
                state_q <= IDLE;
              end
            end
            ENABLE: part_q <= MAIN;
            default: begin
              done_q  <= 1'b1;
              state_q <= IDLE;
            end
          endcase
        end
      end
      default: state_q <= IDLE;
    endcase
    if (rst) begin
      state_q  <= IDLE;
      cs_q     <= 1'b0;
      sck_q    <= 1'b0;
      clocks_q <= 8'd0;
      begin_q  <= 1'b0;
      fail_q   <= 1'b0;
      done_q   <= 1'b0;
    end
  end

`ifdef INC_ASSERT
  initial assert_halves: assert (HALF >= 1 && HALF <= 255 && GAP >= 1 && GAP <= 255);
`endif

endmodule

`default_nettype wire
