// Synchronous FIFO, show-ahead: m_data is the oldest word whenever m_valid is 1.
//
// Streams:       s_* in, m_* out.
// Latency:       OUT_REG 0: 1 clock (memory read asynchronously: registers or LUT RAM). OUT_REG
//                1: 2 clocks (synchronous-read memory plus an output register; m_* come straight
//                from flip-flops).
// Throughput:    1 word per clock in and out at the same time, at any fill.
// Back-pressure: s_ready is a register and 0 only while DEPTH words are inside. m_valid is a
//                register.
// Reset:         synchronous, empties. The memory is not reset.
// Parameters:    DATA_W 1.. ; DEPTH 2.. a power of two; OUT_REG 0..1.
// Ports:         count: words inside, 0..DEPTH.
`default_nettype none

module inc_fifo #(
  parameter int DATA_W  = 8,
  parameter int DEPTH   = 4,
  parameter int OUT_REG = 0
) (
  input  wire                     clk,
  input  wire                     rst,
  input  wire                     s_valid,
  output wire                     s_ready,
  input  wire [DATA_W-1:0]        s_data,
  output wire                     m_valid,
  input  wire                     m_ready,
  output wire [DATA_W-1:0]        m_data,
  output wire [$clog2(DEPTH+1)-1:0] count
);

  localparam int AW = $clog2(DEPTH);
  localparam int CW = $clog2(DEPTH+1);

  logic [AW-1:0] wr_q, rd_q;
  logic [CW-1:0] count_q, count_d, more, less;
  logic          ready_q;

  wire push = s_valid && ready_q;
  wire pop  = m_valid && m_ready;

  assign s_ready = ready_q;
  assign count   = count_q;

  // One more and one less stand by (as gates: synthesis would make one late adder of two), and
  // push and pop, which come late, choose.
  always_comb begin
    for (int i = 0; i < CW; i++) begin
      more[i] = count_q[i] ^ (&(count_q | ({CW{1'b1}} << i)));
      less[i] = count_q[i] ^ !(|(count_q & ~({CW{1'b1}} << i)));
    end
    count_d = count_q;
    if (push && !pop) count_d = more;
    if (pop && !push) count_d = less;
  end

  always_ff @(posedge clk) begin
    count_q <= count_d;
    ready_q <= pop || (push ? count_q != CW'(DEPTH - 1) : ready_q);
    if (push) wr_q <= wr_q + AW'(1);
    if (rst) begin
      count_q <= '0;
      ready_q <= 1'b1;
      wr_q    <= '0;
    end
  end

  generate
    if (OUT_REG == 0) begin : gen_async
      logic [DATA_W-1:0] mem [DEPTH];
      logic              valid_q;
      always_ff @(posedge clk) begin
        if (push) mem[wr_q] <= s_data;
      end
      always_ff @(posedge clk) begin
        valid_q <= push || (pop ? count_q != CW'(1) : valid_q);
        if (pop) rd_q <= rd_q + AW'(1);
        if (rst) begin
          valid_q <= 1'b0;
          rd_q    <= '0;
        end
      end
      assign m_valid = valid_q;
      assign m_data  = mem[rd_q];
    end else begin : gen_reg
      logic [DATA_W-1:0] mem [DEPTH];
      logic [DATA_W-1:0] out_q;
      logic              valid_q, valid_d;
      logic              valid_copy_q;       // the same (keep: two), for the many bits of out_q
      logic              stored_q, stored_d; // words are in the memory, behind the one in out_q
      wire free   = !valid_q || m_ready;
      wire fetch  = stored_q && free;
      wire direct = push && !stored_q && free;
      // The last stored word leaves and none comes: what is left is the one in out_q.
      always_comb begin
        stored_d = stored_q;
        if (push && !direct) stored_d = 1'b1;
        else if (fetch) stored_d = count_q > CW'(2);
      end
      always_ff @(posedge clk) begin
        if (push) mem[wr_q] <= s_data;
      end
      always_ff @(posedge clk) begin
        if (!valid_copy_q || m_ready)
          out_q <= stored_q ? mem[rd_q] : s_data;      // not s_valid: it may come late
      end
      always_ff @(posedge clk) begin
        stored_q <= stored_d;
        if (fetch || direct) rd_q <= rd_q + AW'(1); // a direct word has passed its place
        if (rst) begin
          stored_q <= 1'b0;
          rd_q     <= '0;
        end
      end
      assign valid_d = !rst && (fetch || direct || (valid_q && !m_ready));
      (* keep *) always_ff @(posedge clk) begin
        valid_q <= valid_d;
      end
      (* keep *) always_ff @(posedge clk) begin
        valid_copy_q <= valid_d;
      end
      assign m_valid = valid_q;
      assign m_data  = out_q;
    end
  endgenerate

`ifdef INC_ASSERT
  logic f_past_q;
  initial begin
    assert (DEPTH >= 2 && (DEPTH & (DEPTH - 1)) == 0);
  end
  always_ff @(posedge clk) begin
    f_past_q <= !rst;
    if (!rst && f_past_q) begin
      assert (count_q <= CW'(DEPTH));
      assert (ready_q == (count_q != CW'(DEPTH)));
      if (count_q == '0) assert (!m_valid);
    end
  end
`endif

endmodule

`default_nettype wire
