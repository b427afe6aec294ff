// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace lockstep {

/// Message on the link: identity (once), an input, a hash. Both sides are the same program, so memory order serves.
struct Message {
  enum class Kind : std::uint32_t { hello, input, hash } kind = Kind::input;
  std::uint32_t frame = 0;
  std::array<float, 4> input{};
  std::array<std::uint64_t, 4> words{};  // hello: network, weights; hash: the first two
};

/// A socket to the other side. A peer that is gone or silent is an error, never a wait without end.
class Link {
 public:
  /// `place`: a port of this machine, or a path.
  static weft::Result<Link> listen(const std::string& place);
  static weft::Result<Link> connect(const std::string& place);
  /// Both ends, for a fork.
  static weft::Result<std::pair<Link, Link>> pair();

  Link(Link&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Link& operator=(Link&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Link();

  /// @error storage: the other side is gone
  weft::Status send(const Message& message);
  /// Waits. @error storage: the other side is gone; timed_out: it said nothing for ten seconds
  weft::Result<Message> receive();

 private:
  explicit Link(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace lockstep
