// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "tests/cli/program.hpp"

namespace weft::cli_test {

/// The digits for so long that no test sees its end, at `place` and with its socket there.
inline Words endless(const std::string& place) {
  return {"run", kDigits, "--json", "--epochs", "1000000", "--checkpoint", place};
}

/// The socket of the run kept in `directory`, as its note says.
inline std::string socket_in(const std::string& directory) {
  const std::string note = read_file(directory + "/top.path");
  return note.substr(0, note.find('\n'));
}

/// Waits until the run has run a sample or has ended.
inline void wait_for_progress(const Process& process) {
  while (!process.has_ended() && process.out_so_far().find("\"progress\"") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// A Unix socket's address; a first character '@' stands for the abstract ones' NUL.
inline std::pair<sockaddr_un, socklen_t> socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path));
  if (path[0] == '@') address.sun_path[0] = '\0';
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size())};
}

/// A client of weft top's socket, that speaks the protocol by hand.
class Client {
 public:
  explicit Client(const std::string& path) : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto [address, size] = socket_address(path);
    is_connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0;
    const timeval timeout{60, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_connected() const { return is_connected_; }
  bool send(const std::string& text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  /// The next line as JSON; null when the server has closed.
  Json read() {
    for (;;) {
      if (const auto end = in_.find('\n'); end != std::string::npos) {
        const Json line = Json::parse(in_.substr(0, end));
        in_.erase(0, end + 1);
        return line;
      }
      char chunk[4096];
      const ssize_t got = recv(socket_, chunk, sizeof chunk, 0);
      if (got <= 0) return nullptr;
      in_.append(chunk, static_cast<std::size_t>(got));
    }
  }
  int descriptor() const { return socket_; }

 private:
  int socket_;
  bool is_connected_ = false;
  std::string in_;
};

}  // namespace weft::cli_test
