// A SPI NOR flash at its four pins, written from the data sheets of common parts (JESD216 commands,
// mode 0) and from nothing of the bridge. What a real one would answer with silence or with spoiled
// contents is a fault here, and said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

class Flash {
 public:
  Flash(size_t bytes, uint64_t program_clocks, uint64_t erase_clocks)
      : memory(bytes, 0xff), program_clocks_(program_clocks), erase_clocks_(erase_clocks) {}

  // Call once a clock; returns what MISO is.
  bool clock(uint64_t now, bool cs_n, bool sck, bool mosi);
  bool busy(uint64_t now) const { return now < idle_at_; }

  std::vector<uint8_t> memory;
  std::string fault;      // the first thing that was done wrong
  uint64_t programs = 0;  // pages
  uint64_t erases = 0;
  uint32_t lowest = ~0u;  // address that was erased or programmed
  bool stuck = false;     // busy for ever

 private:
  void begin();
  void byte(uint64_t now);
  void end(uint64_t now);
  void wrong(const std::string& what) {
    if (fault.empty()) fault = what;
  }

  uint64_t program_clocks_, erase_clocks_, idle_at_ = 0;
  bool selected_ = false, sck_ = false, miso_ = true;
  bool write_enabled_ = false;
  int bits_ = 0;
  uint8_t in_ = 0, out_ = 0xff;
  std::vector<uint8_t> command_;  // bytes since CS# fell
  uint32_t next_ = 0;             // address of the next byte of a read
};
