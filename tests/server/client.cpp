// SPDX-License-Identifier: Apache-2.0

#include "tests/server/client.hpp"

#include "core/assert.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <poll.h>
#include <unistd.h>

#include <cstring>

namespace weft::testing {
namespace {

using Clock = std::chrono::steady_clock;

int connect_to(const std::string& address) {
  if (address.starts_with("unix:")) {
    sockaddr_un there{};
    there.sun_family = AF_UNIX;
    std::strncpy(there.sun_path, address.c_str() + 5, sizeof there.sun_path - 1);
    const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return ::connect(made, reinterpret_cast<sockaddr*>(&there), sizeof there) == 0 ? made : -1;
  }
  sockaddr_in there{};
  there.sin_family = AF_INET;
  const std::size_t colon = address.rfind(':');
  there.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &there.sin_addr);
  const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return ::connect(made, reinterpret_cast<sockaddr*>(&there), sizeof there) == 0 ? made : -1;
}

}  // namespace

Client::Client(const std::string& address) : socket_(connect_to(address)) {
  WEFT_ASSERT(socket_ >= 0, "no connection to " + address);
}

Client::~Client() { ::close(socket_); }

void Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void Client::finish() { ::shutdown(socket_, SHUT_WR); }

void Client::abort() {
  const linger at_once{1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(socket_);
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

bool Client::receive(Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  pollfd polled{socket_, POLLIN, 0};
  if (left.count() <= 0 || poll(&polled, 1, static_cast<int>(left.count())) <= 0) return false;
  char bytes[65536];
  const ssize_t count = recv(socket_, bytes, sizeof bytes, 0);
  if (count <= 0) return false;
  in_.append(bytes, static_cast<std::size_t>(count));
  return true;
}

std::string Client::read_until(std::string_view text, std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  while (in_.find(text) == std::string::npos && receive(until)) {
  }
  return std::exchange(in_, {});
}

bool Client::is_closed(std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  while (Clock::now() < until) {
    pollfd polled{socket_, POLLIN, 0};
    if (poll(&polled, 1, 20) <= 0) continue;
    char bytes[4096];
    const ssize_t count = recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) return true;
    in_.append(bytes, static_cast<std::size_t>(count));
  }
  return false;
}

std::optional<Reply> Client::read(std::chrono::milliseconds time, bool of_head) {
  const auto until = Clock::now() + time;
  while (in_.find("\r\n\r\n") == std::string::npos)
    if (!receive(until)) return std::nullopt;
  Reply reply;
  const std::size_t end = in_.find("\r\n\r\n");
  std::string head = in_.substr(0, end);
  in_.erase(0, end + 4);
  reply.status = std::stoi(head.substr(9, 3));
  for (std::size_t at = head.find("\r\n"); at != std::string::npos; at = head.find("\r\n", at + 2)) {
    const std::string line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    const std::size_t colon = line.find(": ");
    reply.headers[server::lowered(line.substr(0, colon))] = line.substr(colon + 2);
  }
  const auto length = reply.headers.find("content-length");
  const std::size_t size = length == reply.headers.end() || of_head ? 0 : std::stoul(length->second);
  while (in_.size() < size)
    if (!receive(until)) return std::nullopt;
  reply.body = in_.substr(0, size);
  in_.erase(0, size);
  return reply;
}

std::optional<std::string> Client::read_chunks(std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  const auto need = [&](auto&& is_there) {
    while (!is_there())
      if (!receive(until)) return false;
    return true;
  };
  std::string body;
  while (true) {
    if (!need([&] { return in_.find("\r\n") != std::string::npos; })) return std::nullopt;
    const std::size_t line = in_.find("\r\n");
    const std::size_t size = std::stoul(in_.substr(0, line), nullptr, 16);
    if (!need([&] { return in_.size() >= line + 2 + size + 2; })) return std::nullopt;
    body += in_.substr(line + 2, size);
    in_.erase(0, line + 2 + size + 2);
    if (size == 0) return body;
  }
}

Reply Client::ask(std::string_view method, std::string_view path, std::string_view body,
                  const std::vector<server::HttpHeader>& headers) {
  std::string request = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n";
  bool has_type = false;
  for (const auto& each : headers) {
    request += each.name + ": " + each.value + "\r\n";
    has_type |= server::lowered(each.name) == "content-type";
  }
  if (!body.empty() && !has_type) request += "Content-Type: application/json\r\n";
  if (!body.empty() || method != "GET") request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  send(request + "\r\n" + std::string(body));
  return read(std::chrono::seconds(60), method == "HEAD").value_or(Reply());
}

}  // namespace weft::testing
