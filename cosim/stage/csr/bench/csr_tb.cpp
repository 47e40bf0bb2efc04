// Bench of the register block and the counters: an AXI4-Lite master with random pauses in front, a
// model of the engine's tables behind, pulses of every counter at the side. What must come out is
// worked out here, from docs/registers.md, not read from the RTL.
//
//   csr_tb [SEED]      exit status 0: all right; 1: a difference, printed with seed and clock
#include <array>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "Vinc_csr_tb.h"
#include "Vinc_csr_tb___024root.h"
#include "inc_csr.h"
#include "inc_spec.h"
#include "verilated.h"

// Our own code takes no warning; Verilator's headers have some.
#pragma GCC diagnostic error "-Wall"
#pragma GCC diagnostic error "-Wextra"

namespace {

constexpr int kWords = 24;  // of TABLE_DATA
using Entry = std::array<uint32_t, kWords>;

constexpr uint32_t kEndpoints = 64, kPipes = 40, kOuts = 100;  // of inc_csr_tb
constexpr uint32_t kCounters = INC_COUNTER_COUNT;
constexpr uint64_t kAllPipes = (1ULL << kPipes) - 1;
constexpr uint32_t kOkay = 0, kSlverr = 2;

// Addresses, by the generated header that a C driver would use.
#define AT(name) name = offsetof(inc_csr_t, name)
constexpr uint32_t
  AT(ID), AT(VERSION), AT(SPEC_HASH), AT(SCRATCH), AT(CAPS_DATA), AT(CAPS_TABLES), AT(CAPS_MEMORY),
  AT(CAPS_LISTS), AT(CAPS_ENGINE), AT(CTRL), AT(TICK_CLOCKS), AT(TABLE_CMD), AT(TABLE_STATUS),
  AT(CNT_INDEX), AT(CNT_LO), AT(CNT_HI), AT(IRQ_STATUS), AT(IRQ_ENABLE), AT(ERROR_FIRST),
  AT(ERROR_PSN), AT(ERROR_GOT), AT(ERROR_WANTED), AT(PIPE_ERRORS), AT(PIPE_DRAINED), AT(TABLE_DATA);
#undef AT

class Bench {
 public:
  explicit Bench(uint32_t seed) : seed_(seed), random_(seed) {
    context_.randReset(2);
    context_.randSeed(static_cast<int>(seed) + 1);
    dut.clk = 0;
    reset();
  }

  VerilatedContext context_;
  Vinc_csr_tb dut{&context_};
  std::vector<uint64_t> counts = std::vector<uint64_t>(kCounters, 0);  // what the counters must hold
  std::map<std::pair<uint32_t, uint32_t>, Entry> tables;               // what the engine's hold
  uint32_t answer = INC_TABLE_ERROR_NONE;                              // of the engine to commands
  uint64_t commands = 0;                                               // that reached the engine
  bool stuck = false;                                                  // the engine answers nothing
  int pulse_mode = 0;  // 0: none, 1: random, 2: every event and one verdict in every clock

  uint32_t below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }

  [[noreturn]] void fail(const std::string& what) {
    std::printf("csr_tb: seed %u, clock %" PRIu64 ": %s\n", seed_, clock_, what.c_str());
    std::exit(1);
  }

  void want(const char* what, uint64_t got, uint64_t wanted) {
    if (got == wanted) return;
    char text[160];
    std::snprintf(text, sizeof text, "%s: got 0x%" PRIx64 ", want 0x%" PRIx64, what, got, wanted);
    fail(text);
  }

  void reset() {
    dut.rst = 1;
    dut.s_axil_awvalid = dut.s_axil_wvalid = dut.s_axil_arvalid = 0;
    dut.s_axil_bready = dut.s_axil_rready = 0;
    dut.m_tbl_ready = dut.s_tbl_rsp_valid = 0;
    dut.status_pipe_error = 0;
    dut.status_pipe_drained = kAllPipes;  // none is bound
    dut.stat_error_valid = 0;
    pulse_mode = 0;
    waiting_ = false;
    for (int i = 0; i < 3; i++) tick();
    dut.rst = 0;
    counts.assign(kCounters, 0);
  }

  // One clock: the engine's side drives, then the edge.
  void tick() {
    pulses();
    engine();
    dut.eval();
    const bool taken = dut.m_tbl_valid && dut.m_tbl_ready;
    if (taken) take();
    dut.clk = 1;
    dut.eval();
    dut.clk = 0;
    dut.eval();
    clock_++;
  }

  uint32_t write(uint32_t addr, uint32_t data, uint32_t strobe = 0xf) {
    // Address and data are offered in either order, with pauses of either.
    uint32_t aw_after = below(3), w_after = below(3);
    bool aw_done = false, w_done = false;
    for (int n = 0; n < 1000; n++) {
      dut.s_axil_awvalid = !aw_done && aw_after == 0;
      dut.s_axil_awaddr = addr;
      dut.s_axil_wvalid = !w_done && w_after == 0;
      dut.s_axil_wdata = data;
      dut.s_axil_wstrb = strobe;
      dut.s_axil_bready = aw_done && w_done && below(2);
      dut.eval();
      const bool aw = dut.s_axil_awvalid && dut.s_axil_awready;
      const bool w = dut.s_axil_wvalid && dut.s_axil_wready;
      const bool b = dut.s_axil_bvalid && dut.s_axil_bready;
      const uint32_t response = dut.s_axil_bresp;
      tick();
      aw_done |= aw;
      w_done |= w;
      if (aw_after) aw_after--;
      if (w_after) w_after--;
      if (b) {
        dut.s_axil_bready = 0;
        return response;
      }
    }
    fail("no answer to a write");
  }

  uint32_t read(uint32_t addr, uint32_t* data) {
    bool done = false;
    for (int n = 0; n < 1000; n++) {
      dut.s_axil_arvalid = !done;
      dut.s_axil_araddr = addr;
      dut.s_axil_rready = done && below(2);
      dut.eval();
      const bool ar = dut.s_axil_arvalid && dut.s_axil_arready;
      const bool r = dut.s_axil_rvalid && dut.s_axil_rready;
      *data = dut.s_axil_rdata;
      const uint32_t response = dut.s_axil_rresp;
      tick();
      done |= ar;
      if (r) {
        dut.s_axil_rready = 0;
        return response;
      }
    }
    fail("no answer to a read");
  }

  void put(uint32_t addr, uint32_t data) { want("response of a write", write(addr, data), kOkay); }

  uint32_t get(uint32_t addr) {
    uint32_t data = 0;
    want("response of a read", read(addr, &data), kOkay);
    return data;
  }

  // Writes TABLE_CMD and waits; returns TABLE_STATUS.
  uint32_t command(bool is_write, uint32_t table, uint32_t index) {
    put(TABLE_CMD, (is_write ? 1u : 0u) | table << 4 | index << 16);
    for (int n = 0; n < 100; n++) {
      const uint32_t status = get(TABLE_STATUS);
      if (!(status & 1)) return status;
    }
    fail("a table command is never done");
  }

  // A counter, and how much it may be: what it counted by the start and by the end of the read.
  void counter(uint32_t index) {
    const uint64_t least = index < kCounters ? counts[index] : 0;
    const uint64_t lo = get(CNT_LO);
    const uint64_t most = index < kCounters ? counts[index] : 0;
    for (uint32_t n = below(20); n > 0; n--) tick();
    const uint64_t got = static_cast<uint64_t>(get(CNT_HI)) << 32 | lo;
    if (got < least || got > most) {
      char text[160];
      std::snprintf(text, sizeof text, "counter %u: got %" PRIu64 ", want %" PRIu64 "..%" PRIu64, index, got,
                    least, most);
      fail(text);
    }
  }

 private:
  uint32_t seed_;
  std::mt19937 random_;
  uint64_t clock_ = 0;
  bool waiting_ = false;  // the engine owes an answer
  uint32_t delay_ = 0;
  bool write_ = false;
  Entry entry_{};  // the answer to a read

  void pulses() {
    dut.stat_valid = 0;
    dut.stat_verdict = static_cast<uint8_t>(below(INC_VERDICT_COUNT));
    dut.stat_event = 0;
    if (dut.rst || pulse_mode == 0) return;
    dut.stat_valid = pulse_mode == 2 || below(2);
    if (pulse_mode == 2) dut.stat_verdict = INC_VERDICT_COUNT - 1;
    dut.stat_event = pulse_mode == 2 ? (1u << INC_EVENT_COUNT) - 1 : below(1u << INC_EVENT_COUNT);
    if (dut.stat_valid) counts[dut.stat_verdict]++;
    for (uint32_t i = 0; i < INC_EVENT_COUNT; i++) counts[INC_VERDICT_COUNT + i] += dut.stat_event >> i & 1;
  }

  void engine() {
    dut.m_tbl_ready = !waiting_ && !stuck && below(2);
    dut.s_tbl_rsp_valid = 0;
    for (int i = 0; i < 32; i++) dut.s_tbl_rsp_rdata[i] = below(0x7fffffff);  // not valid: anything
    dut.s_tbl_rsp_error = static_cast<uint8_t>(below(4));
    if (!waiting_ || delay_-- > 0) return;
    waiting_ = false;
    dut.s_tbl_rsp_valid = 1;
    dut.s_tbl_rsp_error = static_cast<uint8_t>(answer);
    if (!write_ && answer == INC_TABLE_ERROR_NONE) {
      for (int i = 0; i < kWords; i++) dut.s_tbl_rsp_rdata[i] = entry_[i];
    }
  }

  void take() {
    commands++;
    waiting_ = true;
    delay_ = below(5);
    write_ = dut.m_tbl_write;
    Entry& entry = tables[{dut.m_tbl_id, dut.m_tbl_index}];
    if (write_ && answer == INC_TABLE_ERROR_NONE) {
      for (int i = 0; i < kWords; i++) entry[i] = dut.m_tbl_wdata[i];
      for (int i = kWords; i < 32; i++) want("m_tbl_wdata beyond TABLE_DATA", dut.m_tbl_wdata[i], 0);
    }
    entry_ = entry;
  }
};

void identification(Bench& b) {
  b.want("ID", b.get(ID), 0x45504943);
  b.want("VERSION", b.get(VERSION), 0x00010001);
  b.want("SPEC_HASH", b.get(SPEC_HASH), INC_SPEC_HASH);
  b.want("CAPS_DATA", b.get(CAPS_DATA), 256 | 5 << 16 | 1 << 24 | 1 << 25);
  b.want("CAPS_TABLES", b.get(CAPS_TABLES), kEndpoints | kPipes << 16);
  b.want("CAPS_MEMORY", b.get(CAPS_MEMORY), 128 | 10 << 24);
  b.want("CAPS_LISTS", b.get(CAPS_LISTS), kOuts | kCounters << 16);
  b.want("CAPS_ENGINE", b.get(CAPS_ENGINE), 48 | 1 << 8);
  b.want("TICK_CLOCKS after reset", b.dut.cfg_tick_clocks, 1250);
  b.put(TICK_CLOCKS, 0x12345678);
  b.want("cfg_tick_clocks", b.dut.cfg_tick_clocks, 0x12345678);
}

// Addresses without a register, and accesses that a register does not allow, are answered SLVERR.
void refusals(Bench& b) {
  uint32_t data = 0;
  for (uint32_t addr : {0x02cu, 0x038u, 0x04cu, 0x058u, 0x070u, 0x0c0u, 0x160u, 0x180u, 0xffcu}) {
    b.want("read of no register", b.read(addr, &data), kSlverr);
    b.want("write of no register", b.write(addr, 1), kSlverr);
  }
  for (uint32_t addr : {ID, VERSION, SPEC_HASH, CAPS_DATA, CAPS_LISTS, TABLE_STATUS, CNT_LO, CNT_HI, ERROR_FIRST,
                        ERROR_PSN, ERROR_GOT, ERROR_WANTED, PIPE_ERRORS, PIPE_ERRORS + 28, PIPE_DRAINED,
                        PIPE_DRAINED + 28, CAPS_ENGINE}) {
    b.want("write of a read-only register", b.write(addr, 0xffffffff), kSlverr);
  }
  b.want("read of CTRL", b.read(CTRL, &data), kSlverr);
}

void scratch(Bench& b) {
  uint32_t wanted = b.get(SCRATCH);
  b.want("SCRATCH after reset", wanted, 0);
  for (int n = 0; n < 200; n++) {
    const uint32_t data = b.below(0xffffffff), strobe = b.below(16);
    b.want("response", b.write(SCRATCH, data, strobe), kOkay);
    for (int i = 0; i < 4; i++) {
      if (strobe >> i & 1) wanted = (wanted & ~(0xffu << 8 * i)) | (data & 0xffu << 8 * i);
    }
    b.want("SCRATCH", b.get(SCRATCH), wanted);
  }
}

void tables(Bench& b) {
  const uint32_t entries[] = {kEndpoints, kPipes, kOuts, kEndpoints, kEndpoints, kPipes, kOuts, kPipes, kPipes};
  const bool read_only[] = {false, false, false, true, true, true, false, false, true};
  static_assert(std::size(entries) == INC_TABLE_COUNT && std::size(read_only) == INC_TABLE_COUNT);
  std::map<std::pair<uint32_t, uint32_t>, Entry> mirror;
  b.tables.clear();
  Entry data{};
  for (int n = 0; n < 400; n++) {
    const bool write = b.below(2);
    const uint32_t table = b.below(INC_TABLE_COUNT + 2);
    const bool known = table < INC_TABLE_COUNT;
    const uint32_t limit = known ? entries[table] : 4096;
    // The edges of a table more often than chance would have it.
    const uint32_t index = b.below(4) == 0 ? limit - 1 + b.below(2) : b.below(limit);
    if (index > 4095) continue;
    b.answer = b.below(4) == 0 ? INC_TABLE_ERROR_BUSY : INC_TABLE_ERROR_NONE;
    uint32_t wanted = b.answer;
    if (index >= limit) wanted = INC_TABLE_ERROR_BAD_INDEX;
    if (!known || (write && read_only[table])) wanted = INC_TABLE_ERROR_BAD_TABLE;
    const bool reaches = wanted == b.answer;
    for (int i = 0; i < kWords; i++) {
      if (b.below(4) == 0) {
        data[i] = b.below(0xffffffff);
        b.put(TABLE_DATA + 4 * i, data[i]);
      }
    }
    if (!write && known && read_only[table] && reaches) {
      for (uint32_t& w : b.tables[{table, index}]) w = b.below(0xffffffff);
      mirror[{table, index}] = b.tables[{table, index}];
    }
    const uint64_t before = b.commands;
    b.want("TABLE_STATUS", b.command(write, table, index), wanted << 4);
    b.want("commands that reach the engine", b.commands - before, reaches);
    if (wanted == INC_TABLE_ERROR_NONE) {
      Entry& entry = mirror[{table, index}];
      if (write) entry = data;
      else data = entry;
      if (b.tables[{table, index}] != entry) b.fail("the engine's entry is not what was written");
    }
    // A read that was refused leaves TABLE_DATA alone.
    for (int i = 0; i < kWords; i++) b.want("TABLE_DATA", b.get(TABLE_DATA + 4 * i), data[i]);
  }
  b.answer = INC_TABLE_ERROR_NONE;

  // A command on top of a busy one is not done, and says so until the next.
  b.stuck = true;
  b.put(TABLE_CMD, 1 | 0 << 4 | 3 << 16);
  b.want("busy", b.get(TABLE_STATUS), 1);
  const uint64_t before = b.commands;
  b.put(TABLE_CMD, 0 | 1 << 4 | 4 << 16);
  b.want("busy and overrun", b.get(TABLE_STATUS), 3);
  b.stuck = false;
  for (int n = 0; n < 50; n++) b.tick();
  b.want("overrun stays", b.get(TABLE_STATUS), 2);
  b.want("only the first is done", b.commands - before, 1);
  if (b.tables.at({0, 3}) != data) b.fail("the first command did not write its own entry");
  b.want("the next clears it", b.command(true, 0, 5), 0);
}

void counters(Bench& b) {
  for (int mode : {1, 2, 1}) {
    b.pulse_mode = mode;
    // A reader that does nothing else: reads as often as the bus can.
    for (int n = 0; n < 1500; n++) {
      const uint32_t index = b.below(8) == 0 ? b.below(256) : b.below(kCounters);
      if (b.below(4)) b.put(CNT_INDEX, index);
      b.counter(b.get(CNT_INDEX));
    }
  }
  b.pulse_mode = 0;
  for (uint32_t i = 0; i < 256; i++) {
    b.put(CNT_INDEX, i);
    b.counter(i);  // nothing counts: exact
  }

  // A carry into the high part between the two reads.
  b.put(CNT_INDEX, INC_VERDICT_COUNT);
  auto& ram = b.dut.rootp->inc_csr_tb__DOT__u_counters__DOT__u_events__DOT__gen_port__BRA__0__KET____DOT__mem;
  for (int n = 0; n < 200; n++) {
    b.pulse_mode = 0;
    for (uint32_t i = 0; i < 3 * kCounters; i++) b.tick();  // the sweep has taken everything in
    b.counts[INC_VERDICT_COUNT] = 0x1fffffffcULL - b.below(12);
    // Twice, because a visit under way would write the old count back over the first.
    ram[0] = b.counts[INC_VERDICT_COUNT];
    for (int i = 0; i < 3; i++) b.tick();
    ram[0] = b.counts[INC_VERDICT_COUNT];
    b.pulse_mode = 2;
    b.counter(INC_VERDICT_COUNT);
    b.counter(INC_VERDICT_COUNT);
  }
  b.pulse_mode = 0;
}

void errors(Bench& b) {
  b.want("no error", b.get(ERROR_FIRST), 0);
  struct Error {
    uint8_t kind, pipe;
    uint16_t endpoint;
    uint32_t psn, got, wanted;
  };
  auto raise = [&](const Error& e) {
    b.dut.stat_error_valid = 1;
    b.dut.stat_error_kind = e.kind;
    b.dut.stat_error_pipe = e.pipe;
    b.dut.stat_error_endpoint = e.endpoint;
    b.dut.stat_error_psn = e.psn;
    b.dut.stat_error_got = e.got;
    b.dut.stat_error_wanted = e.wanted;
    b.tick();
    b.dut.stat_error_valid = 0;
    b.dut.stat_error_kind = 0xee;
  };
  auto kept = [&](const Error& e) {
    b.want("ERROR_FIRST", b.get(ERROR_FIRST), 1u << 31 | e.endpoint << 16 | e.pipe << 8 | e.kind);
    b.want("ERROR_PSN", b.get(ERROR_PSN), e.psn);
    b.want("ERROR_GOT", b.get(ERROR_GOT), e.got);
    b.want("ERROR_WANTED", b.get(ERROR_WANTED), e.wanted);
  };
  const Error first{INC_ERROR_KIND_MISMATCH_LENGTH, 39, 0xabc, 0xfffff0, 1020, 1024};
  const Error second{INC_ERROR_KIND_RETRIES, 1, 2, 3, 8, 7};
  raise(first);
  raise(second);
  kept(first);
  b.put(CTRL, 0);
  kept(first);
  b.put(CTRL, 1);
  b.want("forgotten", b.get(ERROR_FIRST) >> 31, 0);
  raise(second);
  kept(second);
}

void interrupts(Bench& b) {
  b.put(IRQ_STATUS, 15);
  b.want("cleared", b.get(IRQ_STATUS), 0);
  b.dut.status_pipe_error = 1ULL << 39;
  b.tick();
  b.tick();
  b.want("PIPE_ERRORS[1]", b.get(PIPE_ERRORS + 4), 1u << 7);
  b.want("PIPE_ERRORS[0]", b.get(PIPE_ERRORS), 0);
  b.want("pipe error", b.get(IRQ_STATUS), 1);
  b.want("irq while not enabled", b.dut.irq, 0);
  b.put(IRQ_ENABLE, 1);
  b.tick();
  b.want("irq", b.dut.irq, 1);
  b.put(IRQ_STATUS, 6);
  b.want("writing 0 clears nothing", b.get(IRQ_STATUS), 1);
  b.put(IRQ_STATUS, 1);
  b.want("a pipe that stays in error is no new event", b.get(IRQ_STATUS), 0);
  b.want("irq after clearing", b.dut.irq, 0);
  b.dut.status_pipe_error |= 1;
  b.tick();
  b.tick();
  b.want("a second pipe", b.get(IRQ_STATUS), 1);
  b.put(IRQ_STATUS, 1);
  b.want("table command", b.command(true, 0, 0), 0);
  b.want("table done", b.get(IRQ_STATUS), 4);
  b.put(IRQ_STATUS, 4);
  b.want("refused table command", b.command(true, 0, 4095), INC_TABLE_ERROR_BAD_INDEX << 4);
  b.want("refused is done too", b.get(IRQ_STATUS), 4);
  b.put(IRQ_STATUS, 4);
  b.pulse_mode = 2;
  b.tick();
  b.pulse_mode = 0;
  b.tick();
  b.want("bind done", b.get(IRQ_STATUS), 2);
  b.put(IRQ_STATUS, 2);

  b.want("PIPE_DRAINED[1]", b.get(PIPE_DRAINED + 4), kAllPipes >> 32);
  b.dut.status_pipe_drained = kAllPipes & ~(1ULL << 39 | 1);
  b.tick();
  b.tick();
  b.want("PIPE_DRAINED[0] with pipe 0 at work", b.get(PIPE_DRAINED), 0xfffffffe);
  b.want("PIPE_DRAINED[1] with pipe 39 at work", b.get(PIPE_DRAINED + 4), 0x7f);
  b.want("PIPE_DRAINED[2]: no such pipes", b.get(PIPE_DRAINED + 8), 0);
  b.want("a pipe that begins to work is no event", b.get(IRQ_STATUS), 0);
  b.dut.status_pipe_drained |= 1ULL << 39;
  b.tick();
  b.tick();
  b.want("drain done", b.get(IRQ_STATUS), 8);
  b.want("irq while another is enabled", b.dut.irq, 0);
  b.put(IRQ_ENABLE, 8);
  b.tick();
  b.want("irq of a drain", b.dut.irq, 1);
  b.put(IRQ_STATUS, 8);
  b.want("a pipe that stays drained is no new event", b.get(IRQ_STATUS), 0);
  b.dut.status_pipe_drained = kAllPipes;
  b.tick();
  b.tick();
  b.want("the other one's drain", b.get(IRQ_STATUS), 8);
  b.put(IRQ_STATUS, 8);
  b.put(IRQ_ENABLE, 1);
}

}  // namespace

int main(int argc, char** argv) {
  const uint32_t seed = argc > 1 ? static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 0)) : 1;
  Bench b(seed);
  for (int round = 0; round < 2; round++) {  // the second after a reset with everything used
    identification(b);
    refusals(b);
    scratch(b);
    errors(b);
    interrupts(b);
    tables(b);
    counters(b);
    b.pulse_mode = 1;
    for (int n = 0; n < 100; n++) b.tick();
    b.reset();
  }
  std::printf("csr_tb: seed %u: right\n", seed);
  return 0;
}
