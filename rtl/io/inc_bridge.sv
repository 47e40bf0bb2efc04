// The bridge: does what the requests of a host ask, one after the other, and answers each.
//
// Streams:       s_* requests (inc_frame_rx); m_* responses (inc_frame_tx). reg_* register accesses
//                (inc_axil_host). fl_* requests to the flash (inc_flash), with fl_data_* the bytes
//                to program and fl_got_* those that are read.
// Latency:       some 20 clocks from a whole request to its response, and what registers and flash
//                take.
// Throughput:    a byte in 2 clocks.
// Back-pressure: s_ready is 0 while a request is carried out; m_ready may be 0 at any time.
// Reset:         synchronous; nothing under way.
// Parameters:    ADDR_W 3..32 bits of a register's address; HELLO what hello answers, its first
//                byte lowest; USER_BASE below which nothing is erased or programmed, HELLO's.
// Source:        docs/serial.md, operations.
`default_nettype none

module inc_bridge #(
  parameter int          ADDR_W    = 16,
  parameter logic [8*inc_uart_pkg::HELLO_BYTES-1:0] HELLO = '0,
  parameter logic [31:0] USER_BASE = 32'h0010_0000
) (
  input  wire              clk,
  input  wire              rst,

  input  wire              s_valid,
  output wire              s_ready,
  input  wire [7:0]        s_data,
  input  wire              s_last,
  input  wire              len_valid,
  input  wire [8:0]        len,

  output wire              m_valid,
  input  wire              m_ready,
  output wire [7:0]        m_data,
  output wire              m_last,

  output wire              reg_valid,
  input  wire              reg_ready,
  output wire              reg_write,
  output wire [ADDR_W-1:0] reg_addr,
  output wire [31:0]       reg_wdata,
  input  wire              reg_rsp_valid,
  input  wire              reg_rsp_error,
  input  wire              reg_rsp_timeout,
  input  wire [31:0]       reg_rsp_rdata,

  output wire              fl_valid,
  input  wire              fl_ready,
  output wire [2:0]        fl_op,           // of inc_flash
  output wire [23:0]       fl_addr,
  output wire [8:0]        fl_len,
  output wire              fl_data_valid,
  input  wire              fl_data_ready,
  output wire [7:0]        fl_data,
  input  wire              fl_got_valid,
  output wire              fl_got_ready,
  input  wire [7:0]        fl_got,
  input  wire              fl_begin,
  input  wire              fl_fail,
  input  wire              fl_done,

  output wire              reload,          // pulse: the response to a reload has been given away
  output wire              status_busy      // a request is being carried out
);

  localparam int HEADER = inc_uart_pkg::REQUEST_HEADER_BYTES;
  localparam int FEATURES = inc_uart_pkg::HELLO_FEATURES_LSB + inc_uart_pkg::FEATURE_RELOAD;

  localparam logic [3:0] IDLE    = 4'd0;
  localparam logic [3:0] HEAD    = 4'd1;   // version and op, tag, address
  localparam logic [3:0] ARGS    = 4'd2;   // the first bytes of the payload
  localparam logic [3:0] JUDGE   = 4'd3;
  localparam logic [3:0] REG     = 4'd4;   // offer the access
  localparam logic [3:0] REG_RSP = 4'd5;
  localparam logic [3:0] FLASH   = 4'd6;   // offer the request
  localparam logic [3:0] FL_WAIT = 4'd7;   // until it begins
  localparam logic [3:0] PROGRAM = 4'd8;   // until it is done; the page goes there
  localparam logic [3:0] DROP    = 4'd9;   // what is left of the request
  localparam logic [3:0] ANSWER  = 4'd10;  // version and op, tag, status
  localparam logic [3:0] DATA    = 4'd11;  // payload of the answer
  localparam logic [3:0] FL_END  = 4'd12;

  logic [3:0]  state_q, state_d;
  logic [2:0]  at_q, at_d;                 // byte of HEAD, ARGS, ANSWER
  logic [7:0]  first_q, tag_q;             // version and op; tag
  logic [31:0] addr_q, args_q;
  logic [8:0]  payload_q;                  // bytes of the request's payload
  logic        over_q, over_d;             // the request's last byte has been taken
  logic [7:0]  status_q, status_d;
  logic [31:0] rdata_q;
  logic        done_q, done_d;             // the flash is done
  logic [8:0]  left_q, left_d;             // bytes of the answer's payload
  logic [4:0]  hello_q, hello_d;           // byte of hello
  // The register access that came last, if nothing else came after it: sent again, it is answered
  // again and not done again.
  logic        last_q, last_d;
  logic [7:0]  last_tag_q;
  logic [3:0]  last_op_q;

  wire [3:0] version = first_q[7:4];
  wire [3:0] op      = first_q[3:0];
  wire is_reg   = op == inc_uart_pkg::OP_READ_REGISTER || op == inc_uart_pkg::OP_WRITE_REGISTER;
  wire is_flash = op == inc_uart_pkg::OP_FLASH_ID || op == inc_uart_pkg::OP_FLASH_STATUS
                  || op == inc_uart_pkg::OP_READ_FLASH || op == inc_uart_pkg::OP_ERASE
                  || op == inc_uart_pkg::OP_PROGRAM_PAGE;
  wire again    = last_q && is_reg && version == inc_uart_pkg::VERSION
                  && op == last_op_q && tag_q == last_tag_q;
  wire block    = args_q[7:0] == inc_uart_pkg::BLOCK_LOG2;

  // ---------------------------------------------------------------- what is wrong with a request
  logic        known;
  logic        length_ok;
  logic        address_ok;
  logic [24:0] end_addr;    // behind the bytes that are read
  always_comb begin
    known      = 1'b1;
    length_ok  = payload_q == 9'd0;
    address_ok = 1'b1;
    end_addr   = {1'b0, addr_q[23:0]} + {16'd0, args_q[8:0]};
    case (op)
      inc_uart_pkg::OP_HELLO, inc_uart_pkg::OP_FLASH_ID, inc_uart_pkg::OP_FLASH_STATUS,
      inc_uart_pkg::OP_RELOAD: ;
      inc_uart_pkg::OP_READ_REGISTER: address_ok = addr_q[1:0] == 2'd0;
      inc_uart_pkg::OP_WRITE_REGISTER: begin
        length_ok  = payload_q == 9'd4;
        address_ok = addr_q[1:0] == 2'd0;
      end
      inc_uart_pkg::OP_READ_FLASH: begin
        length_ok  = payload_q == 9'd2;
        address_ok = args_q[15:0] >= 16'd1
                     && args_q[15:0] <= 16'(inc_uart_pkg::PAYLOAD_BYTES)
                     && addr_q[31:24] == 8'd0 && end_addr <= 25'h100_0000;
      end
      inc_uart_pkg::OP_ERASE: begin
        length_ok  = payload_q == 9'd1;
        address_ok = addr_q[31:24] == 8'd0 && addr_q[11:0] == 12'd0
                     && (args_q[7:0] == inc_uart_pkg::SECTOR_LOG2
                         || (block && addr_q[15:12] == 4'd0));
      end
      inc_uart_pkg::OP_PROGRAM_PAGE: begin
        length_ok  = payload_q != 9'd0;
        address_ok = addr_q[31:24] == 8'd0
                     && {1'b0, addr_q[7:0]} + payload_q <= 9'(inc_uart_pkg::PAGE_BYTES);
      end
      default: known = 1'b0;
    endcase
  end

  logic [7:0] verdict;
  always_comb begin
    verdict = inc_uart_pkg::STATUS_OK;
    if (version != inc_uart_pkg::VERSION) verdict = inc_uart_pkg::STATUS_VERSION;
    else if (!known) verdict = inc_uart_pkg::STATUS_UNKNOWN_OP;
    else if (!length_ok) verdict = inc_uart_pkg::STATUS_LENGTH;
    else if (!address_ok) verdict = inc_uart_pkg::STATUS_ADDRESS;
    else if ((op == inc_uart_pkg::OP_ERASE || op == inc_uart_pkg::OP_PROGRAM_PAGE)
             && addr_q < USER_BASE) verdict = inc_uart_pkg::STATUS_PROTECTED;
    else if (is_reg && (addr_q >> ADDR_W) != 32'd0) verdict = inc_uart_pkg::STATUS_BUS_ERROR;
    else if (op == inc_uart_pkg::OP_RELOAD && !HELLO[FEATURES])
      verdict = inc_uart_pkg::STATUS_NO_RELOAD;
  end

  // ---------------------------------------------------------------- states
  wire take   = s_valid && s_ready;
  wire give   = m_valid && m_ready;
  wire paged  = op == inc_uart_pkg::OP_PROGRAM_PAGE;

  always_comb begin
    state_d  = state_q;
    at_d     = at_q;
    over_d   = over_q || (take && s_last);
    status_d = status_q;
    done_d   = done_q || fl_done;
    left_d   = left_q;
    hello_d  = hello_q;
    last_d   = last_q;
    case (state_q)
      IDLE: begin
        at_d    = 3'd0;
        over_d  = 1'b0;
        done_d  = 1'b0;
        hello_d = 5'd0;
        if (len_valid) state_d = HEAD;
      end
      HEAD: begin
        if (take) begin
          at_d = at_q + 3'd1;
          if (at_q == 3'(HEADER - 1)) begin
            at_d    = 3'd0;
            state_d = s_last || paged ? JUDGE : ARGS;
          end
        end
      end
      ARGS: begin
        if (take) begin
          at_d = at_q + 3'd1;
          if (s_last || at_q == 3'd3) state_d = JUDGE;
        end
      end
      JUDGE: begin
        at_d     = 3'd0;
        left_d   = 9'd0;
        last_d   = is_reg && (again || verdict == inc_uart_pkg::STATUS_OK);
        if (!again) status_d = verdict;
        if (again) left_d = op == inc_uart_pkg::OP_READ_REGISTER
                            && status_q == inc_uart_pkg::STATUS_OK ? 9'd4 : 9'd0;
        state_d  = DROP;
        if (!again && verdict == inc_uart_pkg::STATUS_OK) begin
          if (op == inc_uart_pkg::OP_HELLO) left_d = 9'(inc_uart_pkg::HELLO_BYTES);
          if (is_reg) state_d = REG;
          if (is_flash) state_d = FLASH;
        end
      end
      REG: if (reg_ready) state_d = REG_RSP;
      REG_RSP: begin
        if (reg_rsp_valid) begin
          state_d = DROP;
          if (reg_rsp_timeout) status_d = inc_uart_pkg::STATUS_BUS_TIMEOUT;
          else if (reg_rsp_error) status_d = inc_uart_pkg::STATUS_BUS_ERROR;
          else if (op == inc_uart_pkg::OP_READ_REGISTER) left_d = 9'd4;
        end
      end
      FLASH: if (fl_ready) state_d = FL_WAIT;
      FL_WAIT: begin
        if (fl_begin) begin
          state_d = ANSWER;
          case (op)
            inc_uart_pkg::OP_FLASH_ID:     left_d = 9'd3;
            inc_uart_pkg::OP_FLASH_STATUS: left_d = 9'd1;
            inc_uart_pkg::OP_READ_FLASH:   left_d = args_q[8:0];
            default:                       state_d = PROGRAM;  // erase too: until it has begun
          endcase
        end
        if (fl_fail) begin
          state_d  = DROP;
          status_d = inc_uart_pkg::STATUS_FLASH_BUSY;
        end
      end
      PROGRAM: if (done_d) state_d = DROP;
      DROP: if (over_d) state_d = ANSWER;
      ANSWER: begin
        if (give) begin
          at_d = at_q + 3'd1;
          if (at_q == 3'd2) state_d = left_q != 9'd0 ? DATA : IDLE;
        end
      end
      DATA: begin
        if (give) begin
          left_d  = left_q - 9'd1;
          hello_d = hello_q + 5'd1;
          if (left_q == 9'd1) state_d = is_flash ? FL_END : IDLE;
        end
      end
      default: if (done_d) state_d = IDLE;  // FL_END: the flash can be asked again
    endcase
  end

  always_ff @(posedge clk) begin
    state_q  <= state_d;
    at_q     <= at_d;
    over_q   <= over_d;
    status_q <= status_d;
    done_q   <= done_d;
    left_q   <= left_d;
    hello_q  <= hello_d;
    last_q   <= last_d;
    if (state_q == IDLE) begin
      payload_q <= len - 9'(HEADER);
      args_q    <= '0;
    end
    if (state_q == HEAD && take) begin
      if (at_q == 3'd0) first_q <= s_data;
      if (at_q == 3'd1) tag_q <= s_data;
      if (at_q >= 3'd2) addr_q <= {s_data, addr_q[31:8]};
    end
    if (state_q == ARGS && take) args_q[{at_q[1:0], 3'b000} +: 8] <= s_data;
    if (state_q == JUDGE) begin
      last_tag_q <= tag_q;
      last_op_q  <= op;
    end
    if (reg_rsp_valid) rdata_q <= reg_rsp_rdata;
    else if (state_q == DATA && is_reg && give) rdata_q <= {rdata_q[7:0], rdata_q[31:8]};
    if (rst) begin
      state_q <= IDLE;
      last_q  <= 1'b0;
    end
  end

  assign s_ready = state_q == HEAD || state_q == ARGS || (state_q == DROP && !over_q)
                   || (state_q == PROGRAM && fl_data_ready);

  assign reg_valid = state_q == REG;
  assign reg_write = op == inc_uart_pkg::OP_WRITE_REGISTER;
  assign reg_addr  = addr_q[ADDR_W-1:0];
  assign reg_wdata = args_q;

  logic [2:0] flash_op;
  always_comb begin
    case (op)
      inc_uart_pkg::OP_READ_FLASH:   flash_op = 3'd0;
      inc_uart_pkg::OP_PROGRAM_PAGE: flash_op = 3'd1;
      inc_uart_pkg::OP_ERASE:        flash_op = block ? 3'd3 : 3'd2;
      inc_uart_pkg::OP_FLASH_ID:     flash_op = 3'd4;
      default:                       flash_op = 3'd5;
    endcase
  end
  assign fl_valid      = state_q == FLASH;
  assign fl_op         = flash_op;
  assign fl_addr       = addr_q[23:0];
  assign fl_len        = paged ? payload_q : args_q[8:0];
  assign fl_data_valid = state_q == PROGRAM && s_valid && !over_q;
  assign fl_data       = s_data;
  assign fl_got_ready  = state_q == DATA && m_ready;

  logic [7:0] answer;
  always_comb begin
    answer = rdata_q[7:0];
    if (op == inc_uart_pkg::OP_HELLO) answer = HELLO[{hello_q, 3'b000} +: 8];
    if (is_flash) answer = fl_got;
    if (state_q == ANSWER) begin
      case (at_q)
        3'd0:    answer = {inc_uart_pkg::VERSION, op};
        3'd1:    answer = tag_q;
        default: answer = status_q;
      endcase
    end
  end
  assign m_valid = state_q == ANSWER || (state_q == DATA && (!is_flash || fl_got_valid));
  assign m_data  = answer;
  assign m_last  = state_q == ANSWER ? at_q == 3'd2 && left_q == 9'd0 : left_q == 9'd1;

  assign reload = state_q == ANSWER && give && m_last && op == inc_uart_pkg::OP_RELOAD
                  && status_q == inc_uart_pkg::STATUS_OK;
  assign status_busy = state_q != IDLE || len_valid;

endmodule

`default_nettype wire
