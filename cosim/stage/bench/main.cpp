// Drives the stages of inc_stage_bench from a text file and writes down what comes out.
//
//   stage_bench --in FILE --out FILE --seed N --idle P --stall P --bypass-stall P [--reset N]
//   stage_bench --prims CLOCKS --seed N
//   stage_bench --core ...        a stage of rtl/core: see core/core_main.cpp
//
// P: parts per thousand of clocks in which an input waits before a beat, or an output is not ready.
// Input lines (bytes of a frame in wire order, vectors as one big number, all hex):
//   R port user bypass FRAME      a frame for s_axis_rx; bypass 1: to be sent on if it fits
//   T TXHDR PAYLOAD WAIT END EWAIT  a frame for inc_deparse; PAYLOAD - for none, offered not before WAIT clocks
//                                 after its header was; END: poison of its word of s_end (- for none), offered not
//                                 before EWAIT clocks after its header was taken (WAIT, EWAIT decimal)
// Output lines, each stream in its own order; clock is when it was taken:
//   A clock0 clock1               first and last beat of an R frame taken
//   H clock shown QPN HDR         shown: clock in which it first was valid; QPN: m_early_qpn a clock before that
//   P clock last DATA    E clock verdict    D clock fits
//   B clock0 clock1 tid FRAME     frame seen at m_axis_bypass
//   S clock0 clock1 clock2 clock3 header of a T frame offered and taken, its first payload beat offered, its word
//                                 of s_end taken (0: there is none)
//   X clock0 clock1 dest user FRAME     frame seen at m_axis_tx
//   END clocks
// Exit status 0; 1 if a rule of ready/valid is broken, a primitive differs from its model, or nothing moves
// although something should; 2 bad arguments or input.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <verilated.h>

#include "Vinc_stage_bench.h"
#include "core/core_bench.h"

namespace {

constexpr int kBytes = STAGE_DATA_W / 8;
constexpr uint64_t kQuiet = 3000;  // clocks in which nothing moves: the run is over

using Bytes = std::vector<uint8_t>;

[[noreturn]] void fail(const std::string& text) {
  std::cerr << "stage_bench: " << text << "\n";
  std::exit(1);
}

[[noreturn]] void usage(const std::string& text) {
  std::cerr << "stage_bench: " << text << "\n";
  std::exit(2);
}

// Ports are integers up to 64 bits and arrays of 32-bit words above: byte i is bits 8i+7..8i.
template <typename Port>
void set_bytes(Port& port, const uint8_t* data, size_t n) {
  if constexpr (std::is_integral_v<Port>) {
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) v |= uint64_t{data[i]} << (8 * i);
    port = static_cast<Port>(v);
  } else {
    for (size_t w = 0; w < sizeof(port) / 4; w++) {
      uint32_t v = 0;
      for (size_t i = 0; i < 4 && 4 * w + i < n; i++) v |= uint32_t{data[4 * w + i]} << (8 * i);
      port[w] = v;
    }
  }
}

template <typename Port>
Bytes get_bytes(const Port& port, size_t n) {
  Bytes out(n);
  for (size_t i = 0; i < n; i++) {
    if constexpr (std::is_integral_v<Port>) {
      out[i] = static_cast<uint8_t>(uint64_t{port} >> (8 * i));
    } else {
      out[i] = static_cast<uint8_t>(port[i / 4] >> (8 * (i % 4)));
    }
  }
  return out;
}

std::string hex(const Bytes& b) {
  static const char* digits = "0123456789abcdef";
  std::string s;
  s.reserve(2 * b.size());
  for (uint8_t v : b) {
    s += digits[v >> 4];
    s += digits[v & 15];
  }
  return s;
}

// A vector as a number: most significant byte first.
std::string hex_number(Bytes b) { return hex(Bytes(b.rbegin(), b.rend())); }

Bytes unhex(const std::string& s) {
  if (s == "-") return {};
  if (s.size() % 2 != 0) usage("odd number of hex digits: " + s.substr(0, 20));
  Bytes out(s.size() / 2);
  for (size_t i = 0; i < out.size(); i++) {
    out[i] = static_cast<uint8_t>(std::stoul(s.substr(2 * i, 2), nullptr, 16));
  }
  return out;
}

class Random {
 public:
  explicit Random(uint64_t seed) : s_(seed * 2 + 1) { next(); }
  uint32_t next() {  // xorshift64*
    s_ ^= s_ >> 12;
    s_ ^= s_ << 25;
    s_ ^= s_ >> 27;
    return static_cast<uint32_t>((s_ * 0x2545f4914f6cdd1dULL) >> 32);
  }
  bool chance(uint32_t per_mille) { return next() % 1000 < per_mille; }

 private:
  uint64_t s_;
};

struct RxFrame {
  int port, user;
  bool bypass;
  Bytes bytes;
};

struct TxFrame {
  Bytes header;  // least significant byte first
  Bytes payload;
  uint64_t wait = 0;
  int end = -1;  // poison; -1: no word of s_end
  uint64_t end_wait = 0;
};

struct Options {
  std::string in, out;
  uint64_t seed = 1, prims = 0;
  uint32_t idle = 0, stall = 0, bypass_stall = 0;
};

// One beat waiting at an input.
struct Slot {
  bool valid = false;
  size_t frame = 0, at = 0;
};

// A rule of AXI: what is valid and not taken stays as it is.
struct Held {
  std::string name;
  bool waiting = false;
  Bytes data;
  void check(bool valid, bool ready, const Bytes& now, uint64_t clock) {
    if (waiting && (!valid || now != data)) {
      fail(name + " changed while it waited, clock " + std::to_string(clock));
    }
    waiting = valid && !ready;
    data = now;
  }
};

class Bench {
 public:
  Bench(const Options& o) : opt_(o), rnd_(o.seed), drive_(o.seed ^ 0x9e3779b97f4a7c15ULL) {
    ctx_.randReset(2);
    ctx_.randSeed(static_cast<int>(o.seed & 0x7fffffff) + 1);
    top_ = new Vinc_stage_bench(&ctx_);
  }
  ~Bench() { delete top_; }

  void tick() {
    top_->clk = 1;
    top_->eval();
    top_->clk = 0;
    top_->eval();
    clock_++;
  }

  void reset() {
    top_->rx_tvalid = top_->txh_valid = top_->txp_valid = top_->end_valid = 0;
    top_->hdr_ready = top_->pay_ready = top_->eof_ready = top_->dec_valid = top_->byp_tready = 0;
    top_->dec_bypass = 0;
    top_->tx_tready = 0;
    top_->q_s_valid = top_->q_m_ready = 0;
    top_->arb_req = top_->arb_advance = 0;
    top_->ram_wr_en = top_->ram_rd_en = top_->tdp_a_en = top_->tdp_b_en = 0;
    // Assertions look at unknown registers until reset has been seen.
    ctx_.assertOn(false);
    top_->rst = 1;
    for (uint32_t n = 3 + drive_.next() % 5; n > 0; n--) tick();
    ctx_.assertOn(true);
    top_->rst = 0;
    top_->eval();
  }

  void frames();
  void prims();

 private:
  void load();

  Options opt_;
  Random rnd_, drive_;
  VerilatedContext ctx_;
  Vinc_stage_bench* top_;
  uint64_t clock_ = 0;
  std::vector<RxFrame> rx_;
  std::vector<TxFrame> tx_;
};

void Bench::load() {
  std::ifstream in(opt_.in);
  if (!in) usage("cannot read " + opt_.in);
  std::string line;
  for (int n = 1; std::getline(in, line); n++) {
    std::istringstream s(line);
    std::string kind, a, b;
    s >> kind;
    if (kind == "R") {
      RxFrame f{};
      int bypass = 0;
      s >> std::hex >> f.port >> f.user >> bypass >> a;
      f.bypass = bypass != 0;
      f.bytes = unhex(a);
      if (f.bytes.empty()) usage(opt_.in + ":" + std::to_string(n) + ": empty frame");
      rx_.push_back(f);
    } else if (kind == "T") {
      std::string end;
      TxFrame f;
      s >> a >> b >> f.wait >> end >> f.end_wait;
      Bytes h = unhex(a);
      f.header = Bytes(h.rbegin(), h.rend());
      f.payload = unhex(b);
      f.end = end == "-" ? -1 : end == "1";
      tx_.push_back(f);
    } else {
      usage(opt_.in + ":" + std::to_string(n) + ": unknown line");
    }
    if (!s) usage(opt_.in + ":" + std::to_string(n) + ": too few fields");
  }
}

void Bench::frames() {
  load();
  std::ofstream out(opt_.out);
  if (!out) usage("cannot write " + opt_.out);
  reset();

  Slot rx, txh, txp, end;
  std::vector<uint64_t> rx_first(rx_.size()), offered(tx_.size()), txh_clock(tx_.size()), txp_clock(tx_.size()),
      end_clock(tx_.size());
  size_t ends = 0, decided = 0;      // frames whose verdict came, frames decided
  Bytes tx_now, byp_now;
  uint64_t tx_first = 0, byp_first = 0, quiet = 0, hdr_shown = 0;
  bool hdr_due = true, early = false;  // m_hdr is new if it is valid now; it was announced
  uint32_t early_qpn = 0, hdr_qpn = 0;
  Held held_tx{"m_axis_tx"}, held_byp{"m_axis_bypass"}, held_hdr{"m_hdr"}, held_pay{"m_pay"}, held_eof{"m_eof"};
  constexpr size_t hdr_bytes = sizeof(top_->hdr);

  while (quiet < kQuiet) {
    // Inputs: a beat, once valid, stays until taken.
    if (!rx.valid && rx.frame < rx_.size() && !drive_.chance(opt_.idle)) {
      const RxFrame& f = rx_[rx.frame];
      size_t n = std::min<size_t>(kBytes, f.bytes.size() - rx.at);
      rx.valid = true;
      Bytes beat(f.bytes.begin() + rx.at, f.bytes.begin() + rx.at + n);
      while (beat.size() < kBytes) beat.push_back(static_cast<uint8_t>(drive_.next()));
      Bytes keep(kBytes / 8 ? kBytes / 8 : 1, 0);
      for (size_t i = 0; i < n; i++) keep[i / 8] |= 1 << (i % 8);
      set_bytes(top_->rx_tdata, beat.data(), beat.size());
      set_bytes(top_->rx_tkeep, keep.data(), keep.size());
      top_->rx_tlast = rx.at + n == f.bytes.size();
      top_->rx_tuser = top_->rx_tlast ? f.user : drive_.next() & 1;
      top_->rx_tid = f.port;
    }
    top_->rx_tvalid = rx.valid;
    if (!txh.valid && txh.frame < tx_.size() && !drive_.chance(opt_.idle)) {
      txh.valid = true;
      offered[txh.frame] = clock_;
      set_bytes(top_->txh, tx_[txh.frame].header.data(), tx_[txh.frame].header.size());
    }
    top_->txh_valid = txh.valid;
    while (!txp.valid && txp.frame < tx_.size() && tx_[txp.frame].payload.empty()) txp.frame++;
    auto waited = [&](uint64_t since, uint64_t clocks, bool begun) {
      return clocks == 0 || (begun && clock_ - since >= clocks);
    };
    if (!txp.valid && txp.frame < tx_.size() &&
        waited(offered[txp.frame], tx_[txp.frame].wait, txp.frame < txh.frame || (txp.frame == txh.frame && txh.valid)) &&
        !drive_.chance(opt_.idle)) {
      const Bytes& p = tx_[txp.frame].payload;
      if (txp.at == 0) txp_clock[txp.frame] = clock_;
      size_t n = std::min<size_t>(kBytes, p.size() - txp.at);
      txp.valid = true;
      Bytes beat(p.begin() + txp.at, p.begin() + txp.at + n);
      while (beat.size() < kBytes) beat.push_back(static_cast<uint8_t>(drive_.next()));
      set_bytes(top_->txp_data, beat.data(), beat.size());
      top_->txp_last = txp.at + n == p.size();
    }
    top_->txp_valid = txp.valid;
    while (!end.valid && end.frame < tx_.size() && tx_[end.frame].end < 0) end.frame++;
    if (!end.valid && end.frame < tx_.size() &&
        waited(txh_clock[end.frame], tx_[end.frame].end_wait, end.frame < txh.frame) && !drive_.chance(opt_.idle)) {
      end.valid = true;
      top_->end_poison = tx_[end.frame].end;
    }
    top_->end_valid = end.valid;
    top_->hdr_ready = !drive_.chance(opt_.stall);
    top_->pay_ready = !drive_.chance(opt_.stall);
    top_->eof_ready = !drive_.chance(opt_.stall);
    top_->tx_tready = !drive_.chance(opt_.stall);
    top_->byp_tready = !drive_.chance(opt_.bypass_stall);
    top_->dec_valid = 0;
    top_->eval();
    // The decision comes after the verdict, as in the engine; never bypass what does not fit.
    if (top_->head_valid && decided < ends && !drive_.chance(opt_.stall)) {
      top_->dec_valid = 1;
      top_->dec_bypass = rx_[decided].bypass && top_->head_fits;
      top_->eval();
    }

    held_tx.check(top_->tx_tvalid, top_->tx_tready, get_bytes(top_->tx_tdata, kBytes), clock_);
    held_byp.check(top_->byp_tvalid, top_->byp_tready, get_bytes(top_->byp_tdata, kBytes), clock_);
    held_hdr.check(top_->hdr_valid, top_->hdr_ready, get_bytes(top_->hdr, hdr_bytes), clock_);
    held_pay.check(top_->pay_valid, top_->pay_ready, get_bytes(top_->pay_data, kBytes), clock_);
    held_eof.check(top_->eof_valid, top_->eof_ready, Bytes{top_->eof_verdict}, clock_);

    bool moved = false;
    if (top_->rx_tvalid && top_->rx_tready) {
      moved = true;
      if (rx.at == 0) rx_first[rx.frame] = clock_;
      if (top_->rx_tlast) {
        out << "A " << rx_first[rx.frame] << ' ' << clock_ << '\n';
        rx.frame++;
        rx.at = 0;
      } else {
        rx.at += kBytes;
      }
      rx.valid = false;
    }
    if (txh.valid && top_->txh_ready) {
      moved = true;
      txh_clock[txh.frame] = clock_;
      txh.frame++;
      txh.valid = false;
    }
    if (end.valid && top_->end_ready) {
      moved = true;
      end_clock[end.frame] = clock_;
      end.frame++;
      end.valid = false;
    }
    if (txp.valid && top_->txp_ready) {
      moved = true;
      if (top_->txp_last) {
        txp.frame++;
        txp.at = 0;
      } else {
        txp.at += kBytes;
      }
      txp.valid = false;
    }
    if (top_->hdr_valid && hdr_due) {
      if (!early) fail("m_hdr without m_early the clock before, clock " + std::to_string(clock_));
      hdr_qpn = early_qpn;
      hdr_shown = clock_;
    }
    hdr_due = !top_->hdr_valid || top_->hdr_ready;
    early = top_->early_valid;
    early_qpn = top_->early_qpn;
    if (top_->hdr_valid && top_->hdr_ready) {
      moved = true;
      out << "H " << clock_ << ' ' << hdr_shown << ' ' << hdr_qpn << ' ' << hex_number(get_bytes(top_->hdr, hdr_bytes)) << '\n';
    }
    if (top_->pay_valid && top_->pay_ready) {
      moved = true;
      out << "P " << clock_ << ' ' << int{top_->pay_last} << ' ' << hex(get_bytes(top_->pay_data, kBytes)) << '\n';
    }
    if (top_->eof_valid && top_->eof_ready) {
      moved = true;
      ends++;
      out << "E " << clock_ << ' ' << int{top_->eof_verdict} << '\n';
    }
    if (top_->dec_valid) {
      moved = true;
      decided++;
      out << "D " << clock_ << ' ' << int{top_->head_fits} << '\n';
    }
    auto collect = [&](Bytes& now, uint64_t& first, const Bytes& data, const Bytes& keep, bool last) {
      if (now.empty()) first = clock_;
      size_t n = 0;
      while (n < size_t{kBytes} && (keep[n / 8] >> (n % 8) & 1)) n++;
      for (size_t i = n; i < size_t{kBytes}; i++) {
        if (keep[i / 8] >> (i % 8) & 1) fail("tkeep has a hole, clock " + std::to_string(clock_));
      }
      if (n == 0 || (!last && n != size_t{kBytes})) fail("tkeep is not full, clock " + std::to_string(clock_));
      now.insert(now.end(), data.begin(), data.begin() + n);
    };
    constexpr size_t keep_bytes = kBytes / 8 ? kBytes / 8 : 1;
    if (top_->tx_tvalid && top_->tx_tready) {
      moved = true;
      collect(tx_now, tx_first, get_bytes(top_->tx_tdata, kBytes), get_bytes(top_->tx_tkeep, keep_bytes), top_->tx_tlast);
      if (top_->tx_tlast) {
        out << "X " << tx_first << ' ' << clock_ << ' ' << int{top_->tx_tdest} << ' ' << int{top_->tx_tuser} << ' '
            << hex(tx_now) << '\n';
        tx_now.clear();
      }
    }
    if (top_->byp_tvalid && top_->byp_tready) {
      moved = true;
      collect(byp_now, byp_first, get_bytes(top_->byp_tdata, kBytes), get_bytes(top_->byp_tkeep, keep_bytes), top_->byp_tlast);
      if (top_->byp_tlast) {
        out << "B " << byp_first << ' ' << clock_ << ' ' << int{top_->byp_tid} << ' ' << hex(byp_now) << '\n';
        byp_now.clear();
      }
    }
    quiet = moved ? 0 : quiet + 1;
    tick();
  }
  for (size_t i = 0; i < txh.frame; i++) {
    out << "S " << offered[i] << ' ' << txh_clock[i] << ' ' << txp_clock[i] << ' ' << end_clock[i] << '\n';
  }
  if (!tx_now.empty() || !byp_now.empty()) fail("a frame has no end");
  out << "END " << clock_ << '\n';
  if (rx.frame != rx_.size() || txh.frame != tx_.size() || end.frame != tx_.size()) fail("nothing moves any more, but not every frame went in");
}

// Each primitive beside a model of a few lines, under random inputs whose density changes.
void Bench::prims() {
  reset();
  std::deque<uint16_t> queue[3];
  const size_t depth[3] = {2, 8, 8};
  bool waiting[3] = {};
  uint64_t taken[3] = {};
  int last_grant = 4;
  std::map<int, uint16_t> ram, tdp;
  bool old_known = false, new_known = false, a_known = false, b_known = false;
  uint16_t old_want = 0, new_want = 0, a_want = 0, b_want = 0;
  auto want = [&](bool good, const char* what) {
    if (!good) fail(std::string(what) + " differs from its model, clock " + std::to_string(clock_));
  };
  for (uint64_t n = 0; n < opt_.prims; n++) {
    uint32_t in_gap = n / 500 % 4 * 300, out_gap = n / 2000 % 4 * 300;
    for (int q = 0; q < 3; q++) {
      if (!waiting[q]) {
        bool valid = !rnd_.chance(in_gap);
        top_->q_s_valid = (top_->q_s_valid & ~(1 << q)) | valid << q;
        uint64_t data = top_->q_s_data;
        data &= ~(uint64_t{0xffff} << (16 * q));
        data |= uint64_t{rnd_.next() & 0xffff} << (16 * q);
        top_->q_s_data = data;
      }
      top_->q_m_ready = (top_->q_m_ready & ~(1 << q)) | (!rnd_.chance(out_gap)) << q;
    }
    top_->arb_req = rnd_.next() & rnd_.next() & 31;
    top_->arb_advance = rnd_.next() & 1;
    top_->ram_wr_en = rnd_.next() & 1;
    top_->ram_wr_addr = rnd_.next() % 24;
    top_->ram_wr_data = rnd_.next();
    top_->ram_rd_en = rnd_.next() & 1;
    top_->ram_rd_addr = rnd_.next() & 1 ? top_->ram_wr_addr : rnd_.next() % 24;
    top_->ram_rd_addr2 = rnd_.next() % 24;
    top_->tdp_a_en = rnd_.next() & 1;
    top_->tdp_a_we = rnd_.next() & 1;
    top_->tdp_a_addr = rnd_.next() % 24;
    top_->tdp_a_wr_data = rnd_.next();
    top_->tdp_b_en = rnd_.next() & 1;
    top_->tdp_b_we = rnd_.next() & 1;
    top_->tdp_b_addr = rnd_.next() % 24;
    top_->tdp_b_wr_data = rnd_.next();
    if (top_->tdp_a_addr == top_->tdp_b_addr && (top_->tdp_a_we || top_->tdp_b_we)) top_->tdp_b_en = 0;
    top_->eval();

    for (int q = 0; q < 3; q++) {
      bool s_valid = top_->q_s_valid >> q & 1, s_ready = top_->q_s_ready >> q & 1;
      bool m_valid = top_->q_m_valid >> q & 1, m_ready = top_->q_m_ready >> q & 1;
      uint16_t in = top_->q_s_data >> (16 * q), outw = top_->q_m_data >> (16 * q);
      static const char* names[] = {"inc_skid", "inc_fifo", "inc_fifo OUT_REG"};
      if (q > 0) {
        want((top_->q_count >> (4 * (q - 1)) & 15) == queue[q].size(), names[q]);
        want(s_ready == (queue[q].size() < depth[q]), names[q]);
      }
      if (q == 1) want(m_valid == !queue[q].empty(), names[q]);
      if (m_valid) want(!queue[q].empty() && queue[q].front() == outw, names[q]);
      if (m_valid && m_ready) {
        queue[q].pop_front();
        taken[q]++;
      }
      if (s_valid && s_ready) queue[q].push_back(in);
      want(queue[q].size() <= depth[q], names[q]);
      waiting[q] = s_valid && !s_ready;
    }

    int grant = -1;
    for (int i = 1; i <= 5 && grant < 0; i++) {
      if (top_->arb_req >> (last_grant + i) % 5 & 1) grant = (last_grant + i) % 5;
    }
    want(top_->arb_valid == (grant >= 0), "inc_rr_arb");
    want(top_->arb_grant == (grant >= 0 ? 1 << grant : 0), "inc_rr_arb");
    if (grant >= 0) want(top_->arb_idx == grant, "inc_rr_arb");
    if (grant >= 0 && top_->arb_advance) last_grant = grant;

    if (old_known) want(top_->ram_old == old_want, "inc_ram_1r1w");
    if (new_known) want(top_->ram_new == new_want, "inc_ram_1r1w FORWARD");
    if (ram.count(top_->ram_rd_addr)) want((top_->ram_lut & 0xffff) == ram[top_->ram_rd_addr], "inc_lutram");
    if (ram.count(top_->ram_rd_addr2)) want(top_->ram_lut >> 16 == ram[top_->ram_rd_addr2], "inc_lutram");
    if (top_->ram_rd_en) {
      old_known = ram.count(top_->ram_rd_addr) != 0;
      if (old_known) old_want = ram[top_->ram_rd_addr];
    }
    if (top_->ram_wr_en) ram[top_->ram_wr_addr] = top_->ram_wr_data;
    if (top_->ram_rd_en) {
      new_known = ram.count(top_->ram_rd_addr) != 0;
      if (new_known) new_want = ram[top_->ram_rd_addr];
    }
    if (a_known) want(top_->tdp_a_rd_data == a_want, "inc_ram_tdp a");
    if (b_known) want(top_->tdp_b_rd_data == b_want, "inc_ram_tdp b");
    if (top_->tdp_a_en && !top_->tdp_a_we) {
      a_known = tdp.count(top_->tdp_a_addr) != 0;
      if (a_known) a_want = tdp[top_->tdp_a_addr];
    }
    if (top_->tdp_b_en && !top_->tdp_b_we) {
      b_known = tdp.count(top_->tdp_b_addr) != 0;
      if (b_known) b_want = tdp[top_->tdp_b_addr];
    }
    if (top_->tdp_a_en && top_->tdp_a_we) tdp[top_->tdp_a_addr] = top_->tdp_a_wr_data;
    if (top_->tdp_b_en && top_->tdp_b_we) tdp[top_->tdp_b_addr] = top_->tdp_b_wr_data;
    tick();
    // With no gap on either side a queue moves a word in every clock.
    if (n % 8000 == 499) {
      for (int q = 0; q < 3; q++) {
        if (taken[q] < 490) fail("queue " + std::to_string(q) + " moved only " + std::to_string(taken[q]) + " words in 500 clocks");
      }
    }
    if (n % 8000 == 7999) taken[0] = taken[1] = taken[2] = 0;
  }
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i += 2) {
    std::string name = argv[i];
    if (i + 1 == argc) usage(name + " needs a value");
    std::string value = argv[i + 1];
    if (name == "--in") o.in = value;
    else if (name == "--out") o.out = value;
    else if (name == "--seed") o.seed = std::stoull(value);
    else if (name == "--prims") o.prims = std::stoull(value);
    else if (name == "--idle") o.idle = std::stoul(value);
    else if (name == "--stall") o.stall = std::stoul(value);
    else if (name == "--bypass-stall") o.bypass_stall = std::stoul(value);
    else usage("unknown argument " + name);
  }
  if (o.prims == 0 && (o.in.empty() || o.out.empty())) usage("--in and --out are needed");
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--core") == 0) return stage::core_main(argc - 2, argv + 2);
  Options o = parse(argc, argv);
  Bench bench(o);
  if (o.prims != 0) {
    bench.prims();
  } else {
    bench.frames();
  }
  return 0;
}
