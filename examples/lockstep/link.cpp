// SPDX-License-Identifier: Apache-2.0

#include "link.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace lockstep {
namespace {

using weft::Errc;
using weft::fail;

constexpr int kTimeoutMs = 10'000;

weft::Failure system_error(const std::string& what) { return fail(Errc::storage, what + ": " + std::strerror(errno)); }

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  int family = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

weft::Result<Address> address_of(const std::string& place) {
  Address made;
  const bool is_port =
      !place.empty() && std::all_of(place.begin(), place.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (is_port) {
    if (place.size() > 5 || std::stoul(place) > 65535)
      return fail(Errc::invalid_argument, "port " + place + " is outside [0, 65535]");
    auto& to = reinterpret_cast<sockaddr_in&>(made.bytes);
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoul(place)));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    made.size = sizeof to;
  } else {
    auto& to = reinterpret_cast<sockaddr_un&>(made.bytes);
    if (place.empty() || place.size() >= sizeof to.sun_path)
      return fail(Errc::invalid_argument, "'" + place + "' is no port and too short or long for a socket's path");
    to.sun_family = AF_UNIX;
    std::copy(place.begin(), place.end(), to.sun_path);
    made.size = sizeof to;
  }
  made.family = made.bytes.ss_family;
  return made;
}

// Small messages that the other side waits for: none may be held back to be sent with the next one.
void hurry(int fd) {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

weft::Result<Link> Link::listen(const std::string& place) {
  WEFT_TRY(const Address address, address_of(place));
  Link door(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (door.fd_ >= 0) (void)setsockopt(door.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (door.fd_ < 0 || bind(door.fd_, address.get(), address.size) != 0 || ::listen(door.fd_, 1) != 0)
    return system_error("cannot listen at " + place);
  Link made(accept4(door.fd_, nullptr, nullptr, SOCK_CLOEXEC));
  if (address.family == AF_UNIX) (void)unlink(place.c_str());
  if (made.fd_ < 0) return system_error("nobody could be let in at " + place);
  hurry(made.fd_);
  return made;
}

weft::Result<Link> Link::connect(const std::string& place) {
  WEFT_TRY(const Address address, address_of(place));
  Link made(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (made.fd_ < 0 || ::connect(made.fd_, address.get(), address.size) != 0)
    return system_error("cannot connect to " + place + " (is the other side listening?)");
  hurry(made.fd_);
  return made;
}

weft::Result<std::pair<Link, Link>> Link::pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return system_error("socketpair");
  return std::pair(Link(ends[0]), Link(ends[1]));
}

Link::~Link() {
  if (fd_ >= 0) (void)close(fd_);
}

weft::Status Link::send(const Message& message) {
  const auto* next = reinterpret_cast<const char*>(&message);
  for (std::size_t left = sizeof message; left > 0;) {
    const ssize_t sent = ::send(fd_, next, left, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return system_error("the other side is gone");
    next += sent;
    left -= static_cast<std::size_t>(sent);
  }
  return {};
}

weft::Result<Message> Link::receive() {
  Message message;
  auto* next = reinterpret_cast<char*>(&message);
  for (std::size_t left = sizeof message; left > 0;) {
    pollfd ready{fd_, POLLIN, 0};
    const int polled = poll(&ready, 1, kTimeoutMs);
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return fail(Errc::timed_out, "the other side has said nothing for 10 s; it hangs or is cut off");
    const ssize_t got = recv(fd_, next, left, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("the other side is gone");
    if (got == 0) return fail(Errc::storage, "the other side is gone: it closed the connection");
    next += got;
    left -= static_cast<std::size_t>(got);
  }
  return message;
}

}  // namespace lockstep
