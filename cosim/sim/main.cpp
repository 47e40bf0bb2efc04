// Main of the Verilated engine: owns the clock. It runs clocks while they are granted, and takes the
// server's messages only when the granted ones have run, so what a message does depends on its place
// in the stream and never on when it came.
//
//   inc_sim --socket PATH [--instance N] [--trace FILE.fst]
//   inc_sim --replay FILE [--probe] [--capture]
//
// --replay runs a recorded stream of the server's messages with nobody at the other end, as fast as
// it goes, and prints {"clocks":N,"wall_s":S,"rx_busy":N}: the bare engine, on the traffic of a
// checked run. Exit status: the server's finish code; 1 a failed assertion; 2 bad arguments; 3 the
// peer is lost or a signal came. The trace is complete in every case but SIGKILL, and flushed every
// second for that one. A build that counts coverage leaves it in the folder that INC_COVERAGE names.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <verilated.h>
#if VM_COVERAGE
#include <unistd.h>

#include <verilated_cov.h>
#endif
#if VM_TRACE_FST
#include <verilated_fst_c.h>
#endif

#include "Vinc_tb.h"
#include "inc_spec.h"
#include "instance.h"

#ifndef INC_DATA_W
#error "scripts/build-sim defines the engine's parameters: INC_DATA_W and the others"
#endif

namespace {

#if VM_TRACE_FST
using Fst = VerilatedFstC;
#else
// Of a build without traces (scripts/build-sim --lean), which refuses --trace: never opened.
struct Fst {
  void open(const char*) {}
  void dump(uint64_t) {}
  void flush() {}
  void close() {}
};
#endif

volatile std::sig_atomic_t g_signal = 0;  // a signal handler can reach nothing else

void on_signal(int number) { g_signal = number; }

constexpr int kConnectMs = 5000;
constexpr int kWelcomeMs = 30000;
constexpr int kPollMs = 100;
constexpr uint64_t kPumpEvery = 1024;  // clocks between two looks at the socket while running
constexpr int kExitFault = 1;
constexpr int kExitUsage = 2;
constexpr int kExitLost = 3;

using Clock = std::chrono::steady_clock;

struct Options {
  std::string socket;
  std::string replay;
  std::string trace;
  uint32_t instance = 0;
  bool probe = false;
  bool capture = false;
};

bool parse(int argc, char** argv, Options* o, std::string* error) {
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    if (arg == "--probe") {
      o->probe = true;
      continue;
    }
    if (arg == "--capture") {
      o->capture = true;
      continue;
    }
    if (arg != "--socket" && arg != "--replay" && arg != "--trace" && arg != "--instance") {
      *error = "unknown argument " + arg;
      return false;
    }
    if (++i == argc) {
      *error = arg + " needs a value";
      return false;
    }
    if (arg == "--socket") o->socket = argv[i];
    if (arg == "--replay") o->replay = argv[i];
    if (arg == "--trace") o->trace = argv[i];
    if (arg == "--instance") o->instance = static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10));
  }
  if (!VM_TRACE_FST && !o->trace.empty()) {
    *error = "--trace: this simulator was built without traces";
    return false;
  }
  if (o->socket.empty() == o->replay.empty()) {
    *error = "want one of --socket and --replay";
    return false;
  }
  return true;
}

class Simulation {
 public:
  Simulation(const Options& options, inc::Link* link)
      : options_(options), link_(*link), instance_(link, INC_DATA_W / 8) {}

  int run();

 private:
  bool welcome();
  void build();
  void step();
  void trace_clock();
  int take_messages();
  int end(int code, const std::string& why);

  const Options& options_;
  inc::Link& link_;
  inc::Instance instance_;
  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Vinc_tb> top_;
  std::unique_ptr<Fst> trace_;
  Clock::time_point flushed_ = Clock::now();
};

// The last thing a run does: says why, closes the trace.
int Simulation::end(int code, const std::string& why) {
  if (!why.empty()) {
    std::fprintf(stderr, "inc_sim: clock %llu: %s\n",
                 static_cast<unsigned long long>(instance_.clock), why.c_str());
  }
  if (code == kExitFault) {
    instance_.fault(why);
    link_.drain(2000);
  }
  if (trace_) trace_->close();
  if (top_) top_->final();
#if VM_COVERAGE
  if (const char* folder = std::getenv("INC_COVERAGE"); folder && context_) {
    context_->coveragep()->write(std::string(folder) + "/" + std::to_string(getpid()) + ".dat");
  }
#endif
  return code;
}

bool Simulation::welcome() {
  instance_.settings.capture = options_.socket.empty() ? options_.capture : true;
  instance_.settings.probe = options_.socket.empty() ? options_.probe : true;
  instance_.hello(options_.instance, INC_DATA_W, INC_PORTS, INC_ENDPOINTS, INC_PIPES, INC_POOL_KB);
  const auto deadline = Clock::now() + std::chrono::milliseconds(kWelcomeMs);
  inc::Message m;
  while (!g_signal && Clock::now() < deadline) {
    link_.pump();
    if (link_.next(&m)) {
      if (m.type == INC_MESSAGE_WELCOME) return instance_.handle(m);
      return instance_.handle(m) && false;
    }
    if (link_.closed() || !link_.error().empty()) return false;
    link_.wait(kPollMs);
  }
  return false;
}

void Simulation::build() {
  // Registers and memories start random, from the seed: nothing may depend on a power-up value.
  context_ = std::make_unique<VerilatedContext>();
  context_->randReset(2);
  context_->randSeed(static_cast<int>((instance_.settings.seed * 0x9e3779b97f4a7c15ull >> 33) | 1));
  context_->fatalOnError(false);
  context_->assertOn(false);  // nothing is promised of random state before the reset is over
  context_->traceEverOn(!options_.trace.empty());
  top_ = std::make_unique<Vinc_tb>(context_.get(), "inc_tb");
  top_->clk = 0;
  top_->rst = 1;
  top_->handle = reinterpret_cast<uint64_t>(&instance_);
  top_->eval();
  instance_.reset_until = 8 + (instance_.settings.seed * 0xbf58476d1ce4e5b9ull >> 58);
}

// Opens the trace at the start of its window, closes it at the end.
void Simulation::trace_clock() {
  const inc::Settings& s = instance_.settings;
  if (instance_.clock >= s.trace_to) {
    if (trace_) {
      trace_->close();
      trace_.reset();
    }
    return;
  }
  if (!trace_ && instance_.clock >= s.trace_from) {
    trace_ = std::make_unique<Fst>();
#if VM_TRACE_FST
    top_->trace(trace_.get(), 99);
#endif
    trace_->open(options_.trace.c_str());
  }
}

void Simulation::step() {
  const bool tracing = !options_.trace.empty();
  if (tracing) trace_clock();
  const bool rst = instance_.clock < instance_.reset_until;
  if (rst != (top_->rst != 0)) {
    top_->rst = rst;
    context_->assertOn(!rst);  // see build()
  }
  top_->clk = 1;
  top_->eval();
  if (trace_) trace_->dump(2 * instance_.clock);
  top_->clk = 0;
  top_->eval();
  if (trace_) {
    trace_->dump(2 * instance_.clock + 1);
    if ((instance_.clock & 63) == 0 && Clock::now() - flushed_ > std::chrono::seconds(1)) {
      trace_->flush();
      flushed_ = Clock::now();
    }
  }
  instance_.clock++;
}

// Takes messages until clocks are granted, or the run is over: -1 to go on, else the exit status.
int Simulation::take_messages() {
  inc::Message m;
  for (;;) {
    link_.pump();
    while (instance_.clock >= instance_.horizon && link_.next(&m)) {
      if (!instance_.handle(m)) return end(kExitLost, "bad message: " + instance_.error());
      if (instance_.finished) return end(static_cast<int>(instance_.finish_code), "");
    }
    if (!link_.error().empty()) return end(kExitLost, "bad stream: " + link_.error());
    if (instance_.clock < instance_.horizon) return -1;
    if (link_.closed()) {
      if (link_.recorded()) return end(0, "");
      return end(kExitLost, "the server is gone");
    }
    if (g_signal) return end(kExitLost, "stopped by signal " + std::to_string(g_signal));
    link_.wait(kPollMs);
  }
}

int Simulation::run() {
  if (!welcome()) {
    std::string why = instance_.error().empty() ? link_.error() : instance_.error();
    if (why.empty()) why = g_signal ? "stopped by a signal" : "no welcome from the server";
    return end(kExitLost, why);
  }
  build();
  const auto start = Clock::now();
  for (;;) {
    if (instance_.clock >= instance_.horizon) {
      instance_.report_reached();
      const int code = take_messages();
      if (code < 0) continue;
      if (link_.recorded()) {
        const std::chrono::duration<double> wall = Clock::now() - start;
        std::printf("{\"clocks\":%llu,\"wall_s\":%.6f,\"rx_busy\":%llu}\n",
                    static_cast<unsigned long long>(instance_.clock), wall.count(),
                    static_cast<unsigned long long>(instance_.rx_busy));
      }
      return code;
    }
    step();
    if (context_->gotFinish() || context_->gotError()) {
      return end(kExitFault, "an assertion of the simulation failed (see the lines above)");
    }
    if ((instance_.clock & (kPumpEvery - 1)) == 0) {
      if (!link_.pump()) return end(kExitLost, "the server is gone");
      if (g_signal) return end(kExitLost, "stopped by signal " + std::to_string(g_signal));
    }
  }
}

int usage(const std::string& error) {
  std::fprintf(stderr,
               "inc_sim: %s\nusage: inc_sim --socket PATH [--instance N] [--trace FILE.fst]\n"
               "       inc_sim --replay FILE [--probe] [--capture]\n",
               error.c_str());
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string error;
  if (!parse(argc, argv, &options, &error)) return usage(error);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  setvbuf(stdout, nullptr, _IOLBF, 0);

  std::unique_ptr<inc::Link> link;
  if (options.replay.empty()) {
    const int fd = inc::connect_unix(options.socket, kConnectMs, &error);
    if (fd < 0) {
      std::fprintf(stderr, "inc_sim: %s\n", error.c_str());
      return kExitLost;
    }
    link = std::make_unique<inc::Link>(fd);
  } else {
    std::ifstream file(options.replay, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "inc_sim: open %s: %s\n", options.replay.c_str(), std::strerror(errno));
      return kExitUsage;
    }
    link = std::make_unique<inc::Link>(std::vector<uint8_t>(std::istreambuf_iterator<char>(file),
                                                            std::istreambuf_iterator<char>()));
  }
  return Simulation(options, link.get()).run();
}
