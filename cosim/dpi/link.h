// The simulator's end of the co-simulation link: a Unix stream socket and the message framing of
// rtl/spec/inc.yaml `link`. Nothing here blocks but connect_unix and wait.
#ifndef EPIC_COSIM_DPI_LINK_H
#define EPIC_COSIM_DPI_LINK_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace inc {

// One received message: its type, its fixed words and the raw bytes after them. Points into the
// link's buffer: valid until the next call of Link::next or Link::pump.
struct Message {
  uint32_t type = 0;
  const uint8_t* body = nullptr;
  size_t size = 0;

  // Field at byte `offset` of the body (INC_MSG_*), little-endian. The caller has checked `size`.
  uint32_t u32(size_t offset) const;
  uint64_t u64(size_t offset) const;
};

// Connects to the socket at `path`, again and again for at most `timeout_ms` while nobody listens.
// Returns the descriptor, or -1 and why in `error`.
int connect_unix(const std::string& path, int timeout_ms, std::string* error);

class Link {
 public:
  // A connected socket, or, with replay bytes and fd -1, a recorded stream: it is read to its end and
  // everything sent is dropped.
  explicit Link(int fd) : fd_(fd) {}
  explicit Link(std::vector<uint8_t> recorded) : fd_(-1), in_(std::move(recorded)) {}
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  bool recorded() const { return fd_ < 0; }

  // Starts a message; put* append to it; end() makes it part of what pump sends.
  void begin(uint32_t type);
  void put32(uint32_t value);
  void put64(uint64_t value);
  void put_bytes(const void* data, size_t size);
  void end();

  // Sends what the peer takes now and reads what is there. False once the peer is gone.
  bool pump();
  // Sends everything that is pending, for at most `timeout_ms`. For the last words before an exit.
  void drain(int timeout_ms);
  // Next complete message. False if there is none yet. A malformed one sets error().
  bool next(Message* message);
  // Sleeps until the peer has sent something or takes more, or `timeout_ms` have passed.
  void wait(int timeout_ms);

  bool closed() const { return closed_; }
  const std::string& error() const { return error_; }
  size_t pending() const { return out_.size() - out_done_; }

 private:
  int fd_;
  bool closed_ = false;
  std::string error_;
  std::vector<uint8_t> in_;
  size_t in_done_ = 0;
  std::vector<uint8_t> out_;
  size_t out_done_ = 0;
  size_t message_at_ = 0;  // where the message being written starts in out_
};

}  // namespace inc

#endif
