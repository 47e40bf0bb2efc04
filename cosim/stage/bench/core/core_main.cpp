// Runs one stage of inc_bench for the Go tests.
//
//   BENCH --core STAGE SEED IDLE STALL     IDLE, STALL: pauses and back-pressure, parts per million
//
// Commands on stdin and answers on stdout are 32-bit little-endian words:
//   1 stream gap n words[n]   a token for a source; no answer
//   2 clocks drain            runs that many clocks, or (drain 1) until every token is taken
//   3 idle stall              pauses and back-pressure from now on; no answer
// To 2: status, clock, drained, number of events, then of each event clock, since, stream, words.
// status 0; 1: a rule was broken or an assertion failed, then a line on stderr says which, and the run ends.
// Once at the start: number of streams, and of each its number, kind and width.
// Exit status 0 at the end of stdin; 1 as status; 2 bad arguments or commands.
#include <unistd.h>
#include <verilated.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "Vinc_stage_bench.h"
#include "core_bench.h"

// Our own code takes no warning; Verilator's headers have some.
#pragma GCC diagnostic error "-Wall"
#pragma GCC diagnostic error "-Wextra"

namespace stage {

namespace {

class Run {
 public:
  Run(FILE* answers, unsigned stage_number, uint64_t seed, uint32_t idle_ppm, uint32_t stall_ppm)
      : answers_(answers), clk_(static_cast<uint16_t>(1u << stage_number)), bench_(seed, idle_ppm, stall_ppm) {
    // Registers and memories start random: nothing may depend on a power-up value.
    context_.randReset(2);
    context_.randSeed(static_cast<int>(seed & 0x7fffffff) + 1);
    context_.fatalOnError(false);
    top_ = std::make_unique<Vinc_stage_bench>(&context_);
    top_->core_clk = 0;
    top_->core_rst = 1;
    top_->core_handle = reinterpret_cast<uint64_t>(&bench_);
    context_.assertOn(false);  // they look at registers that reset has not reached yet
    for (uint64_t n = 3 + seed % 5; n > 0; n--) step();
    context_.assertOn(true);
    top_->core_rst = 0;
    bench_.clock = 0;
    bench_.events.clear();
  }

  int commands();

 private:
  void step() {
    top_->core_clk = clk_;
    top_->eval();
    top_->core_clk = 0;
    top_->eval();
    bench_.clock++;
  }
  bool broken() {
    if (!bench_.error.empty()) return true;
    if (!context_.gotError() && !context_.gotFinish()) return false;
    bench_.error = "an assertion failed (see the lines above)";
    return true;
  }
  bool get(uint32_t* word) { return std::fread(word, sizeof *word, 1, stdin) == 1; }
  void put(uint32_t word) { out_.push_back(word); }
  void flush() {
    std::fwrite(out_.data(), sizeof out_[0], out_.size(), answers_);
    std::fflush(answers_);
    out_.clear();
  }
  int run(uint32_t clocks, bool drain);

  FILE* answers_;
  uint16_t clk_;
  CoreBench bench_;
  VerilatedContext context_;
  std::unique_ptr<Vinc_stage_bench> top_;
  std::vector<uint32_t> out_;
};

int Run::run(uint32_t clocks, bool drain) {
  for (uint32_t n = 0; n < clocks && !broken() && !(drain && bench_.drained()); n++) step();
  put(broken() ? 1 : 0);
  put(static_cast<uint32_t>(bench_.clock));
  put(bench_.drained() ? 1 : 0);
  put(static_cast<uint32_t>(bench_.events.size()));
  for (const Event& e : bench_.events) {
    put(static_cast<uint32_t>(e.clock));
    put(static_cast<uint32_t>(e.since));
    put(e.stream);
    out_.insert(out_.end(), e.words.begin(), e.words.end());
  }
  bench_.events.clear();
  flush();
  if (!broken()) return 0;
  std::fprintf(stderr, "stage_bench: clock %llu: %s\n",
               static_cast<unsigned long long>(bench_.clock), bench_.error.c_str());
  return 1;
}

int Run::commands() {
  uint32_t streams = 0;
  for (uint32_t s = 0; s < kStreams; s++) streams += bench_.kind(s) != kUnused;
  put(streams);
  for (uint32_t s = 0; s < kStreams; s++) {
    if (bench_.kind(s) == kUnused) continue;
    put(s);
    put(bench_.kind(s));
    put(static_cast<uint32_t>(bench_.width(s)));
  }
  flush();
  uint32_t command = 0, a = 0, b = 0, n = 0;
  while (get(&command)) {
    if (!get(&a) || !get(&b)) return 2;
    if (command == 1) {
      if (!get(&n) || n > kMaxWords) return 2;
      Words words(n);
      for (uint32_t& w : words) {
        if (!get(&w)) return 2;
      }
      if (!bench_.push(a, b, std::move(words))) {
        std::fprintf(stderr, "stage_bench: stream %u takes no token of %u words\n", a, n);
        return 2;
      }
    } else if (command == 2) {
      if (const int status = run(a, b != 0)) return status;
    } else if (command == 3) {
      bench_.set_pacing(a, b);
    } else {
      std::fprintf(stderr, "stage_bench: unknown command %u\n", command);
      return 2;
    }
  }
  return 0;
}

}  // namespace

int core_main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "stage_bench: --core STAGE SEED IDLE STALL\n");
    return 2;
  }
  const unsigned long number = std::strtoul(argv[0], nullptr, 10);
  if (number > 15) {
    std::fprintf(stderr, "stage_bench: stage %lu: want 0..15\n", number);
    return 2;
  }
  // Verilator writes the text of a failed assertion to stdout: that goes to stderr, answers go alone.
  std::unique_ptr<FILE, int (*)(FILE*)> answers(fdopen(dup(STDOUT_FILENO), "wb"), std::fclose);
  if (!answers || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    std::perror("stage_bench: stdout");
    return 2;
  }
  Run run(answers.get(), static_cast<unsigned>(number), std::strtoull(argv[1], nullptr, 10),
          static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)),
          static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)));
  return run.commands();
}

}  // namespace stage
