// One instance of the link inside a simulation: what the transactors of one test bench take from and
// give to the server. No state outside: two engines in one process are two instances. The test bench
// holds the instance's address as its 64-bit handle.
#ifndef EPIC_COSIM_DPI_INSTANCE_H
#define EPIC_COSIM_DPI_INSTANCE_H

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "link.h"

namespace inc {

// Numbers of inc_dpi_param, as in cosim/tb/inc_tb_pkg.sv.
enum Param {
  kParamSeed = 0,
  kParamPacing = 1,
  kParamIdlePpm = 2,
  kParamBackpressurePpm = 3,
  kParamBypassPpm = 4,
  kParamProbe = 5,
  kParamCapture = 6,
};

// What the server's welcome says about the run.
struct Settings {
  uint64_t seed = 0;
  uint32_t pacing = 0;
  uint32_t idle_ppm = 0;
  uint32_t backpressure_ppm = 0;
  uint32_t bypass_backpressure_ppm = 0;
  uint64_t trace_from = 0;
  uint64_t trace_to = 0;
  bool probe = true;
  bool capture = true;  // outputs and accepted frames are reported
};

class Instance {
 public:
  // `beat_bytes` is DATA_W / 8.
  Instance(Link* link, size_t beat_bytes) : link_(link), beat_bytes_(beat_bytes) {}
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Settings settings;
  uint64_t clock = 0;    // number of the rising edge being simulated; the main sets it
  uint64_t horizon = 0;  // granted: clocks below it may run
  uint64_t reset_until = 0;  // rst is high in the clocks below it
  uint64_t rx_busy = 0;  // beats accepted on s_axis_rx
  uint64_t tx_busy = 0;  // beats accepted on m_axis_tx
  uint64_t busy = 0;     // clocks with a beat accepted on either
  bool finished = false;
  uint32_t finish_code = 0;

  // Takes one message of the server. False, and why in error(), if it is not one.
  bool handle(const Message& message);
  const std::string& error() const { return error_; }

  // The transactors (inc_dpi.cpp has their contracts).
  bool step_source(bool accepted, bool want, uint32_t* data, uint32_t* keep, bool* last, bool* user,
                   uint8_t* tid);
  void take_beat(unsigned stream, const uint32_t* data, const uint32_t* keep, bool last, bool user,
                 uint8_t port);
  bool next_access(bool* is_write, uint32_t* addr, uint32_t* data);
  void end_access(uint32_t data, uint32_t resp);
  void retire(const uint32_t* words, size_t count);

  // Sends the collected records, then `reached`.
  void report_reached();
  void fault(const std::string& text);
  void hello(uint32_t instance, uint32_t data_w, uint32_t ports, uint32_t endpoints, uint32_t pipes,
             uint32_t pool_kb);

 private:
  struct Frame {
    uint64_t time = 0;
    uint8_t port = 0;
    bool error = false;
    size_t size = 0;              // bytes of the frame
    size_t header_end = 0;        // number of the beat that ends its headers
    std::vector<uint32_t> words;  // the frame, zero filled to whole beats
  };
  struct Access {
    uint32_t id, addr, data;
    bool write;
  };
  struct Output {
    std::vector<uint8_t> bytes;
    uint64_t first = 0;
  };

  void count_busy();
  bool take_welcome(const Message& message);
  void take_reset(uint32_t clocks);
  void take_frame(const Message& message);
  void flush_records();

  Link* link_;
  size_t beat_bytes_;
  bool welcomed_ = false;
  uint64_t busy_clock_ = ~uint64_t{0};  // the last one counted in busy
  std::string error_;

  std::deque<Frame> frames_;  // front: being driven, or next
  size_t driven_ = 0;         // beats of the front given to the source
  size_t accepted_ = 0;       // of these, accepted by the engine
  uint64_t first_ = 0;        // clocks of the front frame
  uint64_t header_ = 0;
  uint32_t frame_number_ = 0;

  std::deque<Access> accesses_;
  uint32_t access_id_ = 0;
  Output outputs_[2];
  std::vector<uint32_t> records_;
  uint32_t record_count_ = 0;
};

// Bytes from the frame's start to the end of its RoCEv2 headers (the opcode's included), or, if it is
// not a RoCEv2 frame, to the end of what headers it has; at most `size`.
size_t header_bytes(const uint8_t* frame, size_t size);

}  // namespace inc

#endif
