#include "flash.h"

#include <algorithm>

#pragma GCC diagnostic error "-Wall"
#pragma GCC diagnostic error "-Wextra"

namespace {
constexpr uint8_t kId[] = {0xef, 0x40, 0x16};  // 4 MiB
constexpr size_t kPage = 256;
}  // namespace

bool Flash::clock(uint64_t now, bool cs_n, bool sck, bool mosi) {
  if (!cs_n && !selected_) {
    if (sck) wrong("SCK is high when CS# falls: not mode 0");
    begin();
  }
  if (cs_n && selected_) end(now);
  if (!cs_n && sck && !sck_) {
    in_ = static_cast<uint8_t>(in_ << 1 | (mosi ? 1 : 0));
    if (++bits_ == 8) {
      bits_ = 0;
      command_.push_back(in_);
      byte(now);
    }
  }
  if (!cs_n && !sck && sck_) {
    miso_ = (out_ & 0x80) != 0;
    out_ = static_cast<uint8_t>(out_ << 1 | 1);
  }
  if (cs_n) miso_ = true;  // pulled up
  selected_ = !cs_n;
  sck_ = sck;
  return miso_;
}

void Flash::begin() {
  command_.clear();
  bits_ = 0;
  out_ = 0xff;
}

// A byte has come; out_ is what the next one brings.
void Flash::byte(uint64_t now) {
  const uint8_t op = command_[0];
  const size_t n = command_.size();
  if (busy(now) && op != 0x05) {
    wrong("a command other than 05 while it is busy");
    return;
  }
  out_ = 0xff;
  switch (op) {
    case 0x05:
      out_ = static_cast<uint8_t>((busy(now) || stuck ? 1 : 0) | (write_enabled_ ? 2 : 0));
      break;
    case 0x9f:
      if (n <= sizeof kId) out_ = kId[n - 1];
      break;
    case 0x03:
      if (n == 4) next_ = static_cast<uint32_t>(command_[1] << 16 | command_[2] << 8 | command_[3]);
      if (n >= 4) out_ = memory[next_++ % memory.size()];
      break;
    default:
      break;
  }
}

// CS# rises: what writes is carried out now.
void Flash::end(uint64_t now) {
  if (bits_ != 0) wrong("CS# rises within a byte");
  if (command_.empty() || busy(now)) return;
  const uint8_t op = command_[0];
  const size_t n = command_.size();
  const bool writes = op == 0x02 || op == 0x20 || op == 0xd8;
  uint32_t address = 0;
  if (n >= 4) address = static_cast<uint32_t>(command_[1] << 16 | command_[2] << 8 | command_[3]);
  if (writes && !write_enabled_) {
    wrong("a write that was not enabled");
    return;
  }
  if (op == 0x06) {
    if (n != 1) wrong("06 with data");
    write_enabled_ = true;
  } else if (op == 0x02) {
    if (n < 5 || n > 4 + kPage) wrong("a program of no byte, or of more than a page");
    for (size_t i = 4; i < n; i++) {
      const uint32_t at = (address & ~(kPage - 1)) | ((address + (i - 4)) & (kPage - 1));
      if (at < address) wrong("a program that goes round in its page");
      memory[at % memory.size()] &= command_[i];
    }
    programs++;
    idle_at_ = now + program_clocks_;
  } else if (op == 0x20 || op == 0xd8) {
    const uint32_t size = op == 0x20 ? 4096 : 65536;
    if (n != 4) wrong("an erase with data, or without its address");
    if (address % size != 0) wrong("an erase that does not begin where it can");
    for (uint32_t i = 0; i < size; i++) memory[(address / size * size + i) % memory.size()] = 0xff;
    erases++;
    idle_at_ = now + erase_clocks_ * (op == 0x20 ? 1 : 4);
  } else if (op != 0x05 && op != 0x9f && op != 0x03) {
    wrong("unknown command " + std::to_string(op));
  }
  if (writes) {
    write_enabled_ = false;
    lowest = std::min(lowest, address);
  }
}
