#include "core_bench.h"

#include <svdpi.h>

#include <utility>

// Our own code takes no warning; Verilator's headers have some.
#pragma GCC diagnostic error "-Wall"
#pragma GCC diagnostic error "-Wextra"

namespace stage {

namespace {

size_t words_of(int width) { return (static_cast<size_t>(width) + 31) / 32; }

}  // namespace

void CoreBench::open(int stream, int kind, int width) {
  Stream& s = streams_[static_cast<size_t>(stream)];
  s.kind = static_cast<Kind>(kind);
  s.width = width;
}

bool CoreBench::push(uint32_t stream, uint32_t gap, Words words) {
  if (stream >= kStreams || streams_[stream].kind != kSource ||
      words.size() != words_of(streams_[stream].width)) {
    return false;
  }
  streams_[stream].queue.push_back({gap, std::move(words)});
  return true;
}

void CoreBench::set_pacing(uint32_t idle_ppm, uint32_t stall_ppm) {
  idle_ppm_ = idle_ppm;
  stall_ppm_ = stall_ppm;
}

bool CoreBench::drained() const {
  for (const Stream& s : streams_) {
    if (!s.queue.empty()) return false;
  }
  return true;
}

void CoreBench::log(int stream, uint64_t since, Words words) {
  events.push_back({clock, since, static_cast<uint32_t>(stream), std::move(words)});
}

Words CoreBench::take(int stream, const uint32_t* data) const {
  return Words(data, data + words_of(streams_[static_cast<size_t>(stream)].width));
}

bool CoreBench::source(int stream, bool accepted, uint32_t* data) {
  Stream& s = streams_[static_cast<size_t>(stream)];
  if (accepted) {
    log(stream, s.since, std::move(s.queue.front().words));
    s.queue.pop_front();
    s.offered = false;
  }
  if (!s.offered && !s.queue.empty()) {
    if (s.queue.front().gap > 0) {
      s.queue.front().gap--;
    } else if (!random_.chance(idle_ppm_)) {
      s.offered = true;
      s.since = clock + 1;
    }
  }
  if (s.offered) {
    const Words& w = s.queue.front().words;
    for (size_t i = 0; i < kMaxWords; i++) data[i] = i < w.size() ? w[i] : 0;
  } else {
    for (size_t i = 0; i < words_of(s.width); i++) data[i] = random_.next();
  }
  return s.offered;
}

bool CoreBench::sink(int stream, bool valid, bool ready, const uint32_t* data) {
  Stream& s = streams_[static_cast<size_t>(stream)];
  if (s.offered && s.kind == kSink && error.empty()) {
    if (!valid) error = "stream " + std::to_string(stream) + ": withdrawn before it was taken";
    else if (take(stream, data) != s.waiting) error = "stream " + std::to_string(stream) + ": changed before it was taken";
  }
  if (valid && !s.offered) s.since = clock;
  if (valid && ready) log(stream, s.since, take(stream, data));
  s.offered = valid && !ready;
  if (s.offered && s.kind == kSink) s.waiting = take(stream, data);
  return !random_.chance(stall_ppm_);
}

void CoreBench::watch(int stream, const uint32_t* data) { log(stream, clock, take(stream, data)); }

}  // namespace stage

namespace {

stage::CoreBench* bench(long long handle) { return reinterpret_cast<stage::CoreBench*>(handle); }

}  // namespace

extern "C" {

void inc_bench_open(long long handle, int stream, int kind, int width) {
  bench(handle)->open(stream, kind, width);
}

svBit inc_bench_source(long long handle, int stream, svBit accepted, svBitVecVal* data) {
  return bench(handle)->source(stream, accepted != 0, data);
}

svBit inc_bench_sink(long long handle, int stream, svBit valid, svBit ready, const svBitVecVal* data) {
  return bench(handle)->sink(stream, valid != 0, ready != 0, data);
}

void inc_bench_watch(long long handle, int stream, const svBitVecVal* data) {
  bench(handle)->watch(stream, data);
}

}
