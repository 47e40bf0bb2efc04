// The virtual board's serial line, flash and Ethernet: a UART, bit by bit, between a pseudo terminal
// and the bridge's pins; frames, byte by byte, between network interfaces and the MACs' streams. Board
// time passes only while something is under way, and a little of it (for the engine's timers) with
// interfaces at the ports.
//
//   board_tb [--skew PPM] [--erase-us US] [--program-us US] [--stuck] [--seed N] [--dump FILE] [--trace]
//            [--ethernet INTERFACE]...
//
// Prints `port PATH`, and with --trace a line for each response; at SIGTERM or SIGINT a report.
// Exit status 0, or 1 if the flash was used wrongly or its golden region was touched.
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vinc_board_tb.h"
#include "flash.h"
#include "ports.h"
#include "verilated.h"

#pragma GCC diagnostic error "-Wall"
#pragma GCC diagnostic error "-Wextra"

namespace {

constexpr double kClockHz = 8333333, kBaud = 1000000;
constexpr uint32_t kUserBase = 0x100000;
// The MACs' clock is 5/2 of the core's, as 125 MHz beside 50.
constexpr int kMacClocks = 5, kCoreClocks = 2;
constexpr int kReset = 16;
constexpr int kIdleClocks = 1000, kIdleMs = 5;  // what passes of board time, how often, if nothing happens

volatile std::sig_atomic_t stop = 0;
void on_signal(int) { stop = 1; }

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "board_tb: %s\n", what);
  std::exit(2);
}

double clocks_of(double us) { return us * kClockHz / 1e6; }

// What is below the user region: no write may change it.
uint8_t golden(uint32_t address) { return static_cast<uint8_t>(address * 131 + (address >> 8)); }

// The pseudo terminal.
class Terminal {
 public:
  Terminal() {
    fd_ = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (fd_ < 0 || grantpt(fd_) != 0 || unlockpt(fd_) != 0) die("no pseudo terminal");
    path = ptsname(fd_);
    slave_ = open(path.c_str(), O_RDWR | O_NOCTTY);  // kept: the port goes on when a program closes it
    termios raw{};
    if (slave_ < 0 || tcgetattr(slave_, &raw) != 0) die("no pseudo terminal");
    cfmakeraw(&raw);
    tcsetattr(slave_, TCSANOW, &raw);
  }
  ~Terminal() {
    close(slave_);
    close(fd_);
  }
  bool wait(int ms, const Ports& ports) {
    std::vector<pollfd> all{{fd_, POLLIN, 0}};
    ports.append(&all);
    return poll(all.data(), all.size(), ms) > 0;
  }
  void fill(std::deque<uint8_t>* to) {
    uint8_t buffer[64];
    const ssize_t n = read(fd_, buffer, sizeof buffer);
    for (ssize_t i = 0; i < n; i++) to->push_back(buffer[i]);
  }
  void put(uint8_t c) {
    // Nobody reads: a line does not wait, and the byte is lost.
    if (write(fd_, &c, 1) != 1) lost++;
  }
  std::string path;
  uint64_t lost = 0;

 private:
  int fd_, slave_;
};

// One direction of the line: where the bits of a byte are, in clocks.
struct Wire {
  double bit;            // clocks
  bool active = false;
  double at = 0;         // start of the byte
  uint8_t byte = 0;
  int index = 0;         // to the board: bit on the line. From it: samples taken
};

}  // namespace

int main(int argc, char** argv) {
  double skew = 0, erase_us = 2000, program_us = 100;
  bool trace = false, stuck = false;
  unsigned seed = 1;
  const char* dump = nullptr;
  Ports ports;
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    const bool more = i + 1 < argc;
    if (name == "--trace") trace = true;
    else if (name == "--stuck") stuck = true;
    else if (name == "--skew" && more) skew = std::atof(argv[++i]);
    else if (name == "--erase-us" && more) erase_us = std::atof(argv[++i]);
    else if (name == "--program-us" && more) program_us = std::atof(argv[++i]);
    else if (name == "--seed" && more) seed = static_cast<unsigned>(std::atoi(argv[++i]));
    else if (name == "--dump" && more) dump = argv[++i];
    else if (name == "--ethernet" && more) {
      const std::string wrong = ports.open(argv[++i]);
      if (!wrong.empty()) die(wrong.c_str());
    } else die(("unknown argument " + name).c_str());
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);

  VerilatedContext context;
  context.randReset(2);
  context.randSeed(static_cast<int>(seed));
  Vinc_board_tb dut{&context};
  Flash flash(4 << 20, static_cast<uint64_t>(clocks_of(program_us)), static_cast<uint64_t>(clocks_of(erase_us)));
  flash.stuck = stuck;
  for (uint32_t i = 0; i < kUserBase; i++) flash.memory[i] = golden(i);
  Terminal terminal;
  std::printf("port %s\n", terminal.path.c_str());
  std::fflush(stdout);

  Wire down{kClockHz / kBaud * (1 + skew / 1e6)}, up{kClockHz / kBaud * (1 + skew / 1e6)};
  std::deque<uint8_t> to_board;
  std::deque<uint64_t> asked;      // when the first bit of each request that is unanswered came
  std::vector<double> round_trips; // us
  uint64_t clock = 0, frame_at = 0, reloads = 0, still = 0;
  size_t down_bytes = 0, up_bytes = 0;
  int reset = kReset;
  bool reloading = false;
  dut.rx = 1;
  dut.clk = 0;
  dut.mac_clk = 0;
  Ports::Pins pins;
  uint64_t mac_clocks = 0, rx_lost = 0, idle_until = 0;
  const auto began = std::chrono::steady_clock::now();

  while (!stop) {
    // Nothing has been under way for some bits' time: it stands still until a byte comes.
    const bool busy = dut.status_busy || down.active || up.active || reset > 0 || flash.busy(clock) || reloading || ports.busy();
    still = busy ? 0 : still + 1;
    const bool quiet = static_cast<double>(still) > 4 * down.bit;
    if (to_board.empty() && reset == 0 && (quiet || clock % 256 == 0)) {
      if (quiet && clock >= idle_until) {
        if (!terminal.wait(ports.count() > 0 ? kIdleMs : 50, ports) && ports.count() == 0) continue;
        idle_until = clock + (ports.count() > 0 ? kIdleClocks : 0);
      }
      terminal.fill(&to_board);
    }

    // To the board: start bit, 8 data bits, stop bit.
    if (!down.active && !to_board.empty()) {
      down.active = true;
      down.index = 0;
      down.at = static_cast<double>(clock);
      down.byte = to_board.front();
      to_board.pop_front();
      if (down.byte != 0 && down_bytes == 0) frame_at = clock;
      if (down.byte != 0) down_bytes++;
      if (down.byte == 0 && down_bytes > 0) {
        asked.push_back(frame_at);
        down_bytes = 0;
      }
    }
    dut.rx = 1;
    if (down.active) {
      while (static_cast<double>(clock) >= down.at + (down.index + 1) * down.bit) down.index++;
      const int bit = down.index;
      if (bit == 0) dut.rx = 0;
      else if (bit <= 8) dut.rx = down.byte >> (bit - 1) & 1;
      if (static_cast<double>(clock + 1) >= down.at + 10 * down.bit) down.active = false;
    }

    dut.rst = reset > 0;
    context.assertOn(reset == 0);  // nothing is promised of random state before the reset is over
    if (reset > 0 && --reset == 0 && reloads > 0) {  // what comes before is lost, as on a board
      std::printf("configured\n");
      std::fflush(stdout);
    }
    // The pins of the flash come from registers: they are those of the clock before. In reset they mean nothing.
    const bool running = !dut.rst;
    const uint64_t mac_due = ports.count() > 0 || reset > 0 ? (clock + 1) * kMacClocks / kCoreClocks - clock * kMacClocks / kCoreClocks : 0;
    for (uint64_t i = 0; i < mac_due; i++) {
      if (running) {
        pins.tx_valid = dut.mac_tx_tvalid;
        pins.tx_last = dut.mac_tx_tlast;
        pins.tx_user = dut.mac_tx_tuser;
        pins.tx_data = dut.mac_tx_tdata;
        ports.clock(&pins);
      }
      dut.mac_rx_tdata = pins.rx_data;
      dut.mac_rx_tvalid = pins.rx_valid;
      dut.mac_rx_tlast = pins.rx_last;
      dut.mac_tx_tready = pins.tx_ready;
      dut.mac_clk = 1;
      dut.eval();
      dut.mac_clk = 0;
      dut.eval();
      mac_clocks++;
      if (running) rx_lost += static_cast<uint64_t>(__builtin_popcount(dut.stat_rx_lost));
    }
    if (!dut.rst) dut.spi_miso = flash.clock(clock, dut.spi_cs_n, dut.spi_sck, dut.spi_mosi);
    dut.clk = 1;
    dut.eval();
    dut.clk = 0;
    dut.eval();
    clock++;

    // From the board: the middle of each bit.
    if (!up.active && !dut.tx && reset == 0) {
      up = Wire{up.bit, true, static_cast<double>(clock), 0, 0};
    } else if (up.active && static_cast<double>(clock) >= up.at + (up.index + 0.5) * up.bit) {
      if (up.index >= 1 && up.index <= 8) up.byte = static_cast<uint8_t>(up.byte >> 1 | (dut.tx ? 0x80 : 0));
      if (up.index == 0 && dut.tx) up.active = false;  // no start bit
      if (up.index == 9) {
        if (!dut.tx) die("a byte of the board has no stop bit");
        terminal.put(up.byte);
        up.active = false;
        if (up.byte != 0) up_bytes++;
        if (up.byte == 0 && up_bytes > 0) {
          // To the end of the stop bit.
          const double us = (static_cast<double>(clock - (asked.empty() ? clock : asked.front())) + up.bit / 2) * 1e6 / kClockHz;
          if (!asked.empty()) asked.pop_front();
          round_trips.push_back(us);
          if (trace) {
            std::printf("response of %zu bytes after %.1f us of board time\n", up_bytes + 1, us);
            std::fflush(stdout);
          }
          up_bytes = 0;
        }
      }
      up.index++;
    }

    if (dut.rst) continue;  // its pins mean nothing yet
    if (dut.reload && !reloading) {
      reloads++;
      std::printf("reload\n");
      std::fflush(stdout);
    }
    if (!dut.reload && reloading) reset = kReset;  // the FPGA is there again
    reloading = dut.reload;
  }

  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  bool untouched = flash.lowest >= kUserBase;
  for (uint32_t i = 0; i < kUserBase; i++) untouched &= flash.memory[i] == golden(i);
  std::sort(round_trips.begin(), round_trips.end());
  std::printf("board time %.6f s, wall time %.3f s, %zu responses", static_cast<double>(clock) / kClockHz, wall, round_trips.size());
  if (!round_trips.empty()) std::printf(", the median after %.1f us", round_trips[round_trips.size() / 2]);
  if (ports.count() > 0) {
    std::printf("\nports: %" PRIu64 " frames received, %" PRIu64 " sent, %" PRIu64 " sent with a bad FCS; lost: %" PRIu64
                " received, %" PRIu64 " sent; clocks: core %" PRIu64 ", MACs %" PRIu64,
                ports.received, ports.sent, ports.bad, rx_lost, ports.lost, clock, mac_clocks);
  }
  std::printf("\nflash: %" PRIu64 " pages programmed, %" PRIu64 " erases, golden image %s%s%s\nreloads %" PRIu64 ", bytes that nobody read %" PRIu64 "\n",
              flash.programs, flash.erases, untouched ? "untouched" : "TOUCHED", flash.fault.empty() ? "" : ", fault: ",
              flash.fault.c_str(), reloads, terminal.lost);
  if (dump != nullptr) {
    FILE* f = std::fopen(dump, "wb");
    if (f == nullptr || std::fwrite(flash.memory.data(), 1, flash.memory.size(), f) != flash.memory.size()) die("cannot write the dump");
    std::fclose(f);
  }
  return untouched && flash.fault.empty() ? 0 : 1;
}
