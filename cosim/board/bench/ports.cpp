#include "ports.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace {

constexpr int kGap = 24;         // clocks: FCS 4, pause 12, preamble 8
constexpr size_t kShortest = 60; // bytes without FCS: a MAC pads what is shorter
constexpr size_t kLongest = 9216;
constexpr int kLook = 64;        // clocks between two looks at an interface that had nothing

}  // namespace

std::string Ports::open(const std::string& interface) {
  if (count() == kPorts) return "it has 4 ports, and each has an interface";
  const unsigned index = if_nametoindex(interface.c_str());
  if (index == 0) return interface + ": no interface of that name (ip link lists them)";
  // Bound before it can receive: until then it would hear all interfaces.
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return interface + ": " + std::strerror(errno) + ": it needs root, or the capability CAP_NET_RAW";
  const int one = 1, size = 16 << 20;
  packet_mreq all{};
  all.mr_ifindex = static_cast<int>(index);
  all.mr_type = PACKET_MR_PROMISC;
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = static_cast<int>(index);
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0)
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);  // what it gives: frames may be lost then
  if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0 ||
      bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    const std::string why = std::strerror(errno);
    close(fd);
    return interface + ": " + why;
  }
  Port p{};
  p.fd = fd;
  ports_.push_back(p);
  return "";
}

void Ports::append(std::vector<pollfd>* to) const {
  for (const Port& p : ports_) to->push_back(pollfd{p.fd, POLLIN, 0});
}

void Ports::receive(Port* p) {
  uint8_t frame[kLongest];
  const ssize_t n = recv(p->fd, frame, sizeof frame, MSG_TRUNC);
  if (n < ETH_HLEN || static_cast<size_t>(n) > sizeof frame) return;  // none, or what no wire carries
  p->in.assign(frame, frame + n);
  if (p->in.size() < kShortest) p->in.resize(kShortest);
  p->at = 0;
  received++;
}

void Ports::send(Port* p) {
  if (p->out.size() < kShortest) p->out.resize(kShortest);
  for (int tries = 0; ::send(p->fd, p->out.data(), p->out.size(), 0) < 0; tries++) {
    if ((errno != EAGAIN && errno != ENOBUFS) || tries == 1000) {  // as on a cable that is not plugged in
      lost++;
      return;
    }
    usleep(50);
  }
  sent++;
}

void Ports::clock(Pins* pins) {
  pins->rx_valid = pins->rx_last = pins->tx_ready = 0;
  busy_ = false;
  for (int i = 0; i < kPorts; i++) {
    const uint8_t bit = static_cast<uint8_t>(1 << i);
    if (i >= count()) {
      pins->tx_ready |= bit;
      continue;
    }
    Port* p = &ports_[static_cast<size_t>(i)];
    if (p->in_gap > 0) {
      p->in_gap--;
    } else if (p->in.empty() && p->look-- <= 0) {
      p->look = kLook;
      receive(p);
    }
    if (p->in_gap == 0 && !p->in.empty()) {
      busy_ = true;
      pins->rx_valid |= bit;
      pins->rx_data = (pins->rx_data & ~(0xffu << 8 * i)) | static_cast<uint32_t>(p->in[p->at]) << 8 * i;
      if (++p->at == p->in.size()) {
        pins->rx_last |= bit;
        p->in.clear();
        p->in_gap = kGap;
        p->look = 0;
      }
    }
    if (p->out_gap > 0) {
      p->out_gap--;
      continue;
    }
    pins->tx_ready |= bit;
    if (!(pins->tx_valid & bit)) continue;
    busy_ = true;
    p->out.push_back(static_cast<uint8_t>(pins->tx_data >> 8 * i));
    if (!(pins->tx_last & bit)) continue;
    if (pins->tx_user & bit) bad++;  // with a bad FCS: nobody takes it
    else send(p);
    p->out.clear();
    p->out_gap = kGap;
  }
}
