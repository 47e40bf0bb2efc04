// The Ethernet ports of the virtual board: frames between network interfaces and the byte streams of
// its MACs, a byte a clock, with the gaps that preamble, FCS and the pause between frames take.
#ifndef EPIC_BOARD_PORTS_H_
#define EPIC_BOARD_PORTS_H_

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

class Ports {
 public:
  static constexpr int kPorts = 4;

  // An interface for the next port. Returns what is wrong, or nothing.
  std::string open(const std::string& interface);
  int count() const { return static_cast<int>(ports_.size()); }
  void append(std::vector<pollfd>* to) const;

  // What is at the MACs' streams for one clock.
  struct Pins {
    uint32_t rx_data = 0, tx_data = 0;
    uint8_t rx_valid = 0, rx_last = 0, tx_valid = 0, tx_last = 0, tx_user = 0, tx_ready = 0;
  };
  // Sets rx_* and tx_ready for the coming edge and takes what tx_* will move at it. Ports without an
  // interface receive nothing and lose what they send.
  void clock(Pins* pins);
  bool busy() const { return busy_; }  // a frame was on a wire in the last clock

  uint64_t received = 0, sent = 0, bad = 0, lost = 0;

 private:
  struct Port {
    int fd;
    std::vector<uint8_t> in, out;
    size_t at = 0;             // of in
    int in_gap = 0, out_gap = 0, look = 0;
  };
  void receive(Port* p);
  void send(Port* p);
  std::vector<Port> ports_;
  bool busy_ = false;
};

#endif
