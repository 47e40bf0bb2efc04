#include "instance.h"

#include <algorithm>
#include <cstring>

#include "inc_spec.h"

namespace inc {

namespace {

constexpr size_t kRecordsPerMessage = 256;

unsigned be16(const uint8_t* p) { return static_cast<unsigned>(p[0]) << 8 | p[1]; }

std::string number(uint64_t v) { return std::to_string(v); }

// Length of the headers between BTH and payload.
size_t extension_bytes(uint8_t opcode) {
  switch (opcode) {
    case INC_OPCODE_SEND_LAST_IMM:
    case INC_OPCODE_SEND_ONLY_IMM:
    case INC_OPCODE_WRITE_LAST_IMM:
    case INC_OPCODE_ACKNOWLEDGE:
      return 4;
    case INC_OPCODE_WRITE_FIRST:
    case INC_OPCODE_WRITE_ONLY:
      return 16;
    case INC_OPCODE_WRITE_ONLY_IMM:
      return 20;
    default:
      return 0;
  }
}

// Smallest body of each message that the server sends; 0: not one of its messages.
size_t body_bytes(uint32_t type) {
  switch (type) {
    case INC_MESSAGE_WELCOME: return INC_MSG_WELCOME_BYTES;
    case INC_MESSAGE_FRAME_IN: return INC_MSG_FRAME_IN_BYTES;
    case INC_MESSAGE_GRANT: return INC_MSG_GRANT_BYTES;
    case INC_MESSAGE_REG_REQ: return INC_MSG_REG_REQ_BYTES;
    case INC_MESSAGE_FINISH: return INC_MSG_FINISH_BYTES;
    case INC_MESSAGE_RESET: return INC_MSG_RESET_BYTES;
    default: return 0;
  }
}

}  // namespace

size_t header_bytes(const uint8_t* frame, size_t size) {
  size_t at = 12;
  while (at + 2 <= size &&
         (be16(frame + at) == INC_ETHERTYPE_VLAN || be16(frame + at) == INC_ETHERTYPE_QINQ)) {
    at += 4;
  }
  if (at + 2 > size) return size;
  const unsigned type = be16(frame + at);
  at += 2;
  if (type == INC_ETHERTYPE_IPV4) {
    if (at + 20 > size) return size;
    if (frame[at + 9] != 17) return at + 20;
    at += 4 * std::max<size_t>(5, frame[at] & 15u);
  } else if (type == INC_ETHERTYPE_IPV6) {
    if (at + 40 > size) return size;
    if (frame[at + 6] != 17) return at + 40;
    at += 40;
  } else {
    return at;
  }
  if (at + 8 > size) return size;
  const bool roce = be16(frame + at + 2) == INC_ROCE_UDP_PORT;
  at += 8;
  if (!roce) return at;
  if (at + 12 > size) return size;
  at += 12 + extension_bytes(frame[at]);
  return std::min(at, size);
}

bool Instance::handle(const Message& message) {
  const size_t want = body_bytes(message.type);
  if (want == 0) {
    error_ = "message type " + number(message.type) + " is not one that the server sends";
    return false;
  }
  if (message.size < want || (message.size > want && message.type != INC_MESSAGE_FRAME_IN)) {
    error_ = "message type " + number(message.type) + ": got " + number(message.size) +
             " bytes, want " + number(want);
    return false;
  }
  if (message.type != INC_MESSAGE_WELCOME && !welcomed_) {
    error_ = "message type " + number(message.type) + " before the welcome";
    return false;
  }
  switch (message.type) {
    case INC_MESSAGE_WELCOME:
      return take_welcome(message);
    case INC_MESSAGE_FRAME_IN:
      take_frame(message);
      return true;
    case INC_MESSAGE_GRANT: {
      const uint64_t until = message.u64(INC_MSG_GRANT_UNTIL);
      if (until < horizon) {
        error_ = "grant until clock " + number(until) + ", but " + number(horizon) + " is granted";
        return false;
      }
      horizon = until;
      return true;
    }
    case INC_MESSAGE_REG_REQ:
      accesses_.push_back({message.u32(INC_MSG_REG_REQ_ID), message.u32(INC_MSG_REG_REQ_ADDR),
                           message.u32(INC_MSG_REG_REQ_DATA),
                           message.u32(INC_MSG_REG_REQ_WRITE) != 0});
      return true;
    case INC_MESSAGE_RESET:
      take_reset(message.u32(INC_MSG_RESET_CLOCKS));
      return true;
    default:
      finished = true;
      finish_code = message.u32(INC_MSG_FINISH_CODE);
      return true;
  }
}

bool Instance::take_welcome(const Message& message) {
  if (welcomed_) {
    error_ = "a second welcome";
    return false;
  }
  const uint32_t magic = message.u32(INC_MSG_WELCOME_MAGIC);
  const uint32_t version = message.u32(INC_MSG_WELCOME_VERSION);
  const uint32_t hash = message.u32(INC_MSG_WELCOME_SPEC_HASH);
  if (magic != INC_LINK_MAGIC || version != INC_LINK_VERSION || hash != INC_SPEC_HASH) {
    error_ = "welcome: got magic " + number(magic) + ", version " + number(version) + ", spec hash " +
             number(hash) + "; want " + number(INC_LINK_MAGIC) + ", " + number(INC_LINK_VERSION) +
             ", " + number(INC_SPEC_HASH) + ": rebuild both sides";
    return false;
  }
  settings.seed = message.u64(INC_MSG_WELCOME_SEED);
  settings.pacing = message.u32(INC_MSG_WELCOME_PACING);
  settings.idle_ppm = message.u32(INC_MSG_WELCOME_IDLE_PPM);
  settings.backpressure_ppm = message.u32(INC_MSG_WELCOME_BACKPRESSURE_PPM);
  settings.bypass_backpressure_ppm = message.u32(INC_MSG_WELCOME_BYPASS_BACKPRESSURE_PPM);
  settings.trace_from = message.u64(INC_MSG_WELCOME_TRACE_FROM);
  settings.trace_to = message.u64(INC_MSG_WELCOME_TRACE_TO);
  settings.probe = settings.probe && message.u32(INC_MSG_WELCOME_PROBE) != 0;
  welcomed_ = true;
  return true;
}

void Instance::take_reset(uint32_t clocks) {
  reset_until = clock + clocks;
  frames_.clear();
  driven_ = accepted_ = 0;
  frame_number_ = 0;
  accesses_.clear();
  for (Output& o : outputs_) o.bytes.clear();
}

void Instance::take_frame(const Message& message) {
  const uint8_t* bytes = message.body + INC_MSG_FRAME_IN_BYTES;
  const size_t size = message.size - INC_MSG_FRAME_IN_BYTES;
  frames_.emplace_back();
  Frame& f = frames_.back();
  f.time = message.u64(INC_MSG_FRAME_IN_TIME);
  f.port = static_cast<uint8_t>(message.u32(INC_MSG_FRAME_IN_PORT));
  f.error = message.u32(INC_MSG_FRAME_IN_ERROR) != 0;
  f.size = size;
  const size_t beats = std::max<size_t>(1, (size + beat_bytes_ - 1) / beat_bytes_);
  f.words.assign(beats * beat_bytes_ / 4, 0);
  std::memcpy(f.words.data(), bytes, size);
  const size_t headers = header_bytes(bytes, size);
  f.header_end = headers == 0 ? 0 : (headers - 1) / beat_bytes_;
}

bool Instance::step_source(bool accepted, bool want, uint32_t* data, uint32_t* keep, bool* last,
                           bool* user, uint8_t* tid) {
  if (accepted) {
    const Frame& f = frames_.front();
    if (accepted_ == 0) first_ = clock;
    if (accepted_ == f.header_end) header_ = clock;
    accepted_++;
    rx_busy++;
    count_busy();
    if (accepted_ * beat_bytes_ == f.words.size() * 4) {
      if (settings.capture) {
        link_->begin(INC_MESSAGE_FRAME_ACK);
        link_->put32(frame_number_);
        link_->put64(first_);
        link_->put64(header_);
        link_->put64(clock);
        link_->end();
      }
      frame_number_++;
      frames_.pop_front();
      driven_ = accepted_ = 0;
    }
  }
  if (!want || frames_.empty()) return false;
  const Frame& f = frames_.front();
  if (f.time > clock) return false;
  const size_t words = beat_bytes_ / 4;
  std::memcpy(data, f.words.data() + driven_ * words, beat_bytes_);
  driven_++;
  *last = driven_ * words == f.words.size();
  *user = *last && f.error;
  *tid = f.port;
  const size_t in_beat = *last ? f.size - (driven_ - 1) * beat_bytes_ : beat_bytes_;
  for (size_t lane = 0; lane < beat_bytes_; lane += 32) {
    const size_t n = in_beat <= lane ? 0 : std::min<size_t>(32, in_beat - lane);
    keep[lane / 32] = n == 32 ? 0xffffffffu : (1u << n) - 1;
  }
  return true;
}

void Instance::take_beat(unsigned stream, const uint32_t* data, const uint32_t* keep, bool last,
                         bool user, uint8_t port) {
  Output& o = outputs_[stream & 1u];
  if (o.bytes.empty()) o.first = clock;
  if (stream == 0) {
    tx_busy++;
    count_busy();
  }
  size_t size = beat_bytes_;
  if (last) {  // tkeep is contiguous: the sink has checked
    size = 0;
    for (size_t lane = 0; lane < beat_bytes_; lane += 32) {
      size += static_cast<size_t>(__builtin_popcount(keep[lane / 32]));
    }
  }
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(data);
  o.bytes.insert(o.bytes.end(), bytes, bytes + size);
  if (!last) return;
  link_->begin(INC_MESSAGE_FRAME_OUT);
  link_->put64(o.first);
  link_->put64(clock);
  link_->put32(stream);
  link_->put32(port);
  link_->put32(user ? 1 : 0);
  link_->put_bytes(o.bytes.data(), o.bytes.size());
  link_->end();
  o.bytes.clear();
}

void Instance::count_busy() {
  if (busy_clock_ == clock) return;
  busy_clock_ = clock;
  busy++;
}

bool Instance::next_access(bool* is_write, uint32_t* addr, uint32_t* data) {
  if (accesses_.empty()) return false;
  const Access& a = accesses_.front();
  access_id_ = a.id;
  *is_write = a.write;
  *addr = a.addr;
  *data = a.data;
  accesses_.pop_front();
  return true;
}

void Instance::end_access(uint32_t data, uint32_t resp) {
  link_->begin(INC_MESSAGE_REG_RSP);
  link_->put32(access_id_);
  link_->put32(data);
  link_->put32(resp);
  link_->end();
}

void Instance::retire(const uint32_t* words, size_t count) {
  const size_t at = records_.size();
  records_.insert(records_.end(), words, words + count);
  records_[at + INC_RECORD_CLOCK_WORD] = static_cast<uint32_t>(clock);
  records_[at + INC_RECORD_CLOCK_WORD + 1] = static_cast<uint32_t>(clock >> 32);
  record_count_++;
  if (record_count_ == kRecordsPerMessage) flush_records();
}

void Instance::flush_records() {
  if (record_count_ == 0) return;
  link_->begin(INC_MESSAGE_RETIRE);
  link_->put32(record_count_);
  link_->put_bytes(records_.data(), records_.size() * sizeof(records_[0]));
  link_->end();
  records_.clear();
  record_count_ = 0;
}

void Instance::report_reached() {
  flush_records();
  link_->begin(INC_MESSAGE_REACHED);
  link_->put64(clock);
  link_->put64(rx_busy);
  link_->put64(tx_busy);
  link_->put64(busy);
  link_->end();
}

void Instance::fault(const std::string& text) {
  flush_records();
  link_->begin(INC_MESSAGE_FAULT);
  link_->put_bytes(text.data(), text.size());
  link_->end();
}

void Instance::hello(uint32_t instance, uint32_t data_w, uint32_t ports, uint32_t endpoints,
                     uint32_t pipes, uint32_t pool_kb) {
  link_->begin(INC_MESSAGE_HELLO);
  for (const uint32_t v : {static_cast<uint32_t>(INC_LINK_MAGIC), static_cast<uint32_t>(INC_LINK_VERSION),
                           static_cast<uint32_t>(INC_SPEC_HASH), instance, data_w, ports, endpoints,
                           pipes, pool_kb}) {
    link_->put32(v);
  }
  link_->end();
}

}  // namespace inc
