// inc_frame_cdc with two clocks of random periods and random pauses at both ends: every frame comes
// out whole, unchanged and in order, or not at all and counted.
//
//   cdc_tb SEED LOSSY DEPTH
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

#include "Vinc_frame_cdc.h"
#include "verilated.h"

namespace {

using Frame = std::vector<uint16_t>;

[[noreturn]] void wrong(const char* what, unsigned seed, uint64_t time) {
  std::printf("wrong: %s (seed %u, time %llu)\n", what, seed, static_cast<unsigned long long>(time));
  std::exit(1);
}

}  // namespace

int main(int, char** argv) {
  const unsigned seed = static_cast<unsigned>(std::atoi(argv[1]));
  const bool lossy = std::atoi(argv[2]) != 0;
  const size_t depth = static_cast<size_t>(std::atoi(argv[3]));
  std::mt19937 random(seed);
  auto pick = [&](unsigned low, unsigned high) { return low + random() % (high - low + 1); };

  VerilatedContext context;
  context.randReset(2);
  context.randSeed(static_cast<int>(seed));
  Vinc_frame_cdc dut{&context};
  uint64_t now = 0, s_at = 0, m_at = 0, moved = 0, out = 0, gone = 0, told = 0;
  unsigned s_period = 10, m_period = 10, s_pause = 0, m_pause = 0;
  Frame in, got;
  size_t at = 0;
  bool drop = false, holding = false;
  std::deque<Frame> wanted;  // ended and not seen to come; LOSSY: some never do
  uint16_t next = 0;
  int reset = 40;
  bool was_valid = false;
  uint32_t was_data = 0;
  dut.s_clk = dut.m_clk = 0;
  dut.s_rst = dut.m_rst = 1;
  dut.s_valid = 0;
  dut.m_ready = 0;
  context.assertOn(false);
  dut.eval();

  while (out < 3000) {
    if (moved > 400000) wrong("it stands still", seed, now);
    if (moved % 2000 == 0) {  // other clocks, other pauses
      s_period = pick(3, 40);
      m_period = pick(3, 40);
      s_pause = pick(0, 3) * 25;
      m_pause = pick(0, 3) * 25;
    }
    now = std::min(s_at, m_at);
    if (s_at == now) {
      s_at += s_period;
      moved++;
      if (reset > 0 && --reset == 0) {
        dut.s_rst = dut.m_rst = 0;
        context.assertOn(true);
      }
      // Inputs of this edge. A word that was offered stays.
      if (reset == 0) {
        if (at == in.size()) {
          in.resize(pick(0, 9) == 0 ? pick(1, static_cast<unsigned>(depth + 4)) : pick(1, static_cast<unsigned>(depth / 2)));
          for (uint16_t& w : in) w = next++;
          at = 0;
          drop = pick(0, 7) == 0;
        }
        if (!holding) holding = pick(0, 99) >= s_pause;
        dut.s_valid = holding;
        dut.s_data = in[at];
        dut.s_last = at + 1 == in.size();
        dut.s_drop = drop;
      }
      dut.eval();
      const bool taken = holding && dut.s_ready;
      if (lossy && reset == 0 && !dut.s_ready) wrong("it makes a MAC wait", seed, now);
      dut.s_clk = 1;
      dut.eval();
      dut.s_clk = 0;
      dut.eval();
      if (reset == 0 && dut.stat_dropped) told++;
      if (taken) {
        holding = false;
        if (++at == in.size()) {
          if (drop || in.size() > depth) gone++;
          else wanted.push_back(in);
        }
      }
    }
    if (m_at == now) {
      m_at += m_period;
      dut.m_ready = reset == 0 && pick(0, 99) >= m_pause;
      dut.eval();
      const bool taken = reset == 0 && dut.m_valid && dut.m_ready;
      const uint32_t data = dut.m_data | static_cast<uint32_t>(dut.m_last) << 16;
      if (was_valid && (!dut.m_valid || data != was_data)) wrong("a word that waits changes", seed, now);
      was_valid = reset == 0 && dut.m_valid && !taken;
      was_data = data;
      if (taken) {
        got.push_back(dut.m_data);
        if (dut.m_last) {
          while (lossy && !wanted.empty() && wanted.front() != got) {
            wanted.pop_front();
            gone++;
          }
          if (wanted.empty() || wanted.front() != got) wrong("a frame comes that was not sent, or is another", seed, now);
          wanted.pop_front();
          got.clear();
          out++;
        }
      }
      dut.m_clk = 1;
      dut.eval();
      dut.m_clk = 0;
      dut.eval();
    }
  }
  // What is still inside may be lost or not: the count is held to the bounds.
  if (told < gone - std::min<uint64_t>(gone, 2) || told > gone + wanted.size() + 1) wrong("frames forgotten are not counted", seed, now);
  std::printf("right: %llu frames came, %llu were forgotten, %llu were told\n", static_cast<unsigned long long>(out),
              static_cast<unsigned long long>(gone), static_cast<unsigned long long>(told));
}
