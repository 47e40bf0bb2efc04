#include "link.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "inc_spec.h"

namespace inc {

namespace {

constexpr size_t kHeader = INC_LINK_HEADER_BYTES;  // total length, type
constexpr size_t kLongest = 16u << 20;     // of one message: far above any frame or batch
constexpr size_t kReadChunk = 256u << 10;

void append32(std::vector<uint8_t>* out, uint32_t value) {
  const uint8_t bytes[4] = {static_cast<uint8_t>(value), static_cast<uint8_t>(value >> 8),
                            static_cast<uint8_t>(value >> 16), static_cast<uint8_t>(value >> 24)};
  out->insert(out->end(), bytes, bytes + 4);
}

uint32_t read32(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 |
         static_cast<uint32_t>(p[2]) << 16 | static_cast<uint32_t>(p[3]) << 24;
}

std::string because(const std::string& what) { return what + ": " + std::strerror(errno); }

}  // namespace

uint32_t Message::u32(size_t offset) const { return read32(body + offset); }

uint64_t Message::u64(size_t offset) const {
  return static_cast<uint64_t>(u32(offset)) | static_cast<uint64_t>(u32(offset + 4)) << 32;
}

int connect_unix(const std::string& path, int timeout_ms, std::string* error) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    *error = "socket path " + path + ": got " + std::to_string(path.size()) +
             " bytes, a Unix socket takes at most " + std::to_string(sizeof(address.sun_path) - 1);
    return -1;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      *error = because("socket");
      return -1;
    }
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      const int size = 4 << 20;  // a hint: a quantum's output should fit, or both sides wait
      setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
      if (fcntl(fd, F_SETFL, O_NONBLOCK) == 0) return fd;
    }
    *error = because("connect to " + path);
    const bool again = errno == ECONNREFUSED || errno == ENOENT || errno == EAGAIN;
    close(fd);
    if (!again || std::chrono::steady_clock::now() >= deadline) return -1;
    usleep(20 * 1000);
  }
}

Link::~Link() {
  if (fd_ >= 0) close(fd_);
}

void Link::begin(uint32_t type) {
  message_at_ = out_.size();
  append32(&out_, 0);
  append32(&out_, type);
}

void Link::put32(uint32_t value) { append32(&out_, value); }

void Link::put64(uint64_t value) {
  append32(&out_, static_cast<uint32_t>(value));
  append32(&out_, static_cast<uint32_t>(value >> 32));
}

void Link::put_bytes(const void* data, size_t size) {
  const uint8_t* p = static_cast<const uint8_t*>(data);
  out_.insert(out_.end(), p, p + size);
}

void Link::end() {
  if (fd_ < 0) {
    out_.clear();
    return;
  }
  const uint32_t length = static_cast<uint32_t>(out_.size() - message_at_);
  for (int i = 0; i < 4; i++) out_[message_at_ + i] = static_cast<uint8_t>(length >> (8 * i));
}

bool Link::pump() {
  if (fd_ < 0) return true;
  while (!closed_ && out_done_ < out_.size()) {
    const ssize_t n = send(fd_, out_.data() + out_done_, out_.size() - out_done_, MSG_NOSIGNAL);
    if (n > 0) {
      out_done_ += static_cast<size_t>(n);
    } else if (errno == EINTR) {
      continue;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else {
      closed_ = true;
    }
  }
  if (out_done_ == out_.size()) {
    out_.clear();
    out_done_ = 0;
  }
  while (!closed_) {
    if (in_done_ > 0 && in_done_ == in_.size()) {
      in_.clear();
      in_done_ = 0;
    } else if (in_done_ > kReadChunk) {
      in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(in_done_));
      in_done_ = 0;
    }
    const size_t old = in_.size();
    in_.resize(old + kReadChunk);
    const ssize_t n = recv(fd_, in_.data() + old, kReadChunk, 0);
    in_.resize(old + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n > 0) {
      if (static_cast<size_t>(n) < kReadChunk) break;
    } else if (n == 0) {
      closed_ = true;
    } else if (errno == EINTR) {
      continue;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else {
      closed_ = true;
    }
  }
  return !closed_;
}

void Link::drain(int timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (fd_ >= 0 && pump() && pending() > 0 && std::chrono::steady_clock::now() < deadline) wait(20);
}

bool Link::next(Message* message) {
  if (!error_.empty() || in_.size() - in_done_ < kHeader) {
    if (fd_ < 0) closed_ = true;  // a recorded stream is over
    return false;
  }
  const uint8_t* p = in_.data() + in_done_;
  const size_t length = read32(p);
  if (length < kHeader || length > kLongest) {
    error_ = "message of " + std::to_string(length) + " bytes, want " + std::to_string(kHeader) +
             ".." + std::to_string(kLongest);
    return false;
  }
  if (in_.size() - in_done_ < length) {
    if (fd_ < 0) closed_ = true;
    return false;
  }
  message->type = read32(p + 4);
  message->body = p + kHeader;
  message->size = length - kHeader;
  in_done_ += length;
  return true;
}

void Link::wait(int timeout_ms) {
  if (fd_ < 0) return;
  pollfd p = {fd_, static_cast<short>(POLLIN | (pending() > 0 ? POLLOUT : 0)), 0};
  poll(&p, 1, timeout_ms);
}

}  // namespace inc
