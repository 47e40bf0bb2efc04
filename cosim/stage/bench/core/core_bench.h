// The driver of the streams around one stage of inc_bench: holds the tokens to offer, draws pauses and
// back-pressure from the seed, writes down every token that moved. The model holds its address as its
// 64-bit handle; nothing is kept outside.
#ifndef EPIC_COSIM_STAGE_CORE_BENCH_H
#define EPIC_COSIM_STAGE_CORE_BENCH_H

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace stage {

constexpr unsigned kStreams = 32;
constexpr unsigned kMaxWords = 40;  // inc_bench_pkg::MAX_W / 32
constexpr uint32_t kMillion = 1000000;

using Words = std::vector<uint32_t>;

// xorshift64*; enough for pauses and for what is on a bus while it is not valid.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {
    for (int i = 0; i < 4; i++) next();
  }
  uint32_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>((state_ * 0x2545f4914f6cdd1dull) >> 32);
  }
  bool chance(uint32_t ppm) { return next() % kMillion < ppm; }

 private:
  uint64_t state_;
};

enum Kind { kSource = 0, kSink = 1, kLawlessSink = 2, kWatch = 3, kUnused };

// A token that moved: a source's or a sink's in the clock it was taken, a watch's when it was seen.
struct Event {
  uint64_t clock, since;  // since: first clock in which it was valid
  uint32_t stream;
  Words words;
};

class CoreBench {
 public:
  CoreBench(uint64_t seed, uint32_t idle_ppm, uint32_t stall_ppm)
      : idle_ppm_(idle_ppm), stall_ppm_(stall_ppm), random_(seed) {}
  CoreBench(const CoreBench&) = delete;
  CoreBench& operator=(const CoreBench&) = delete;

  uint64_t clock = 0;         // number of the rising edge being simulated
  std::vector<Event> events;  // since they were last fetched
  std::string error;          // the first rule that was broken

  // From the command line's side. push: `gap` clocks of pause before the token, beside the random ones.
  bool push(uint32_t stream, uint32_t gap, Words words);
  void set_pacing(uint32_t idle_ppm, uint32_t stall_ppm);
  bool drained() const;       // every token given has been taken
  int width(uint32_t stream) const { return streams_[stream].width; }
  Kind kind(uint32_t stream) const { return streams_[stream].kind; }

  // From the model's side (DPI).
  void open(int stream, int kind, int width);
  bool source(int stream, bool accepted, uint32_t* data);
  bool sink(int stream, bool valid, bool ready, const uint32_t* data);
  void watch(int stream, const uint32_t* data);

 private:
  struct Token {
    uint32_t gap;
    Words words;
  };
  struct Stream {
    Kind kind = kUnused;
    int width = 0;
    std::deque<Token> queue;  // source
    bool offered = false;     // source: the front is on the bus; sink: a token waits
    uint64_t since = 0;
    Words waiting;            // sink: what waits
  };

  void log(int stream, uint64_t since, Words words);
  Words take(int stream, const uint32_t* data) const;

  uint32_t idle_ppm_, stall_ppm_;
  Random random_;
  std::array<Stream, kStreams> streams_;
};

// Runs `--core ...`: reads commands on stdin, answers on stdout. Returns the exit status.
int core_main(int argc, char** argv);

}  // namespace stage

#endif
