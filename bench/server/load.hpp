// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/assert.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::bench {

using LoadClock = std::chrono::steady_clock;

/// Request with a body of JSON, kept alive.
inline std::string post(const std::string& path, std::string_view body, std::string_view type = "application/json") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}
inline std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"; }

/// A connection to a server on loopback, from an address of its own where `source` names one.
class Wire {
 public:
  explicit Wire(const std::string& address, const char* source = "127.0.0.1") {
    sockaddr_in there{}, here{};
    there.sin_family = here.sin_family = AF_INET;
    there.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
    inet_pton(AF_INET, source, &here.sin_addr);
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    WEFT_ASSERT(bind(socket_, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0, "no source");
    WEFT_ASSERT(connect(socket_, reinterpret_cast<sockaddr*>(&there), sizeof there) == 0, "no connection");
    const int yes = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  Wire(Wire&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  Wire& operator=(Wire&&) = delete;
  ~Wire() {
    if (socket_ >= 0) close(socket_);
  }

  int socket_number() const noexcept { return socket_; }
  void send_text(std::string_view text) const {
    WEFT_ASSERT(send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()),
                "not sent as a whole");
  }
  /// Bytes that are there; empty: the server closed.
  std::string receive() const {
    std::string bytes(std::size_t{64} << 10, '\0');
    const ssize_t count = recv(socket_, bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return bytes;
  }
  /// A whole answer with a Content-Length: its body. @pre the status is 2xx
  std::string answer() const {
    std::string all;
    while (true) {
      const std::string part = receive();
      WEFT_ASSERT(!part.empty(), "closed before the answer");
      all += part;
      const std::size_t end = all.find("\r\n\r\n");
      if (end == all.npos) continue;
      WEFT_ASSERT(all[9] == '2', "not answered by 2xx");
      const std::size_t field = all.find("Content-Length: ");
      const std::size_t size = field < end ? std::stoul(all.substr(field + 16)) : 0;
      if (all.size() >= end + 4 + size) return all.substr(end + 4);
    }
  }

 private:
  int socket_ = -1;
};

/// Connections of one client thread, with at most one request under way on each.
class Load {
 public:
  /// Text of the next request of a connection; `before`: the whole answer to its last one, empty at first.
  using Next = std::function<std::string(std::size_t connection, std::string_view before)>;

  Load(const std::string& address, std::size_t connections, Next next) : next_(std::move(next)) {
    for (std::size_t i = 0; i < connections; ++i) {
      wires_.emplace_back(address);
      polled_.push_back({wires_.back().socket_number(), POLLIN, 0});
      free_.push_back(i);
    }
    due_.resize(connections);
    answers_.resize(connections);
  }

  bool has_free() const noexcept { return !free_.empty(); }
  void ask(LoadClock::time_point due) {
    const std::size_t at = free_.front();
    free_.pop_front();
    due_[at] = due;
    wires_[at].send_text(next_(at, answers_[at]));
  }
  /// Takes answers that came within `wait`; returns how many, and appends their latencies.
  std::size_t take(std::chrono::milliseconds wait, std::vector<double>* milliseconds) {
    if (poll(polled_.data(), polled_.size(), static_cast<int>(wait.count())) <= 0) return 0;
    std::size_t taken = 0;
    for (std::size_t i = 0; i < polled_.size(); ++i) {
      if (!(polled_[i].revents & POLLIN)) continue;
      char bytes[4096];  // an answer comes as a whole: it is one write of less than a packet
      const ssize_t count = recv(polled_[i].fd, bytes, sizeof bytes, 0);
      WEFT_ASSERT(count > 12 && bytes[9] == '2', "not answered by 200");
      answers_[i].assign(bytes, static_cast<std::size_t>(count));
      free_.push_back(i);
      ++taken;
      if (milliseconds)
        milliseconds->push_back(std::chrono::duration<double, std::milli>(LoadClock::now() - due_[i]).count());
    }
    return taken;
  }

 private:
  const Next next_;
  std::vector<Wire> wires_;
  std::vector<pollfd> polled_;
  std::deque<std::size_t> free_;
  std::vector<LoadClock::time_point> due_;
  std::vector<std::string> answers_;
};

/// The value that a share of the values do not exceed. @pre sorted, at least one
inline double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

}  // namespace weft::bench
