// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace weft::cli {

/// Answers `weft top` and takes the commands of `weft send` on a Unix socket, from a thread of its own
/// (docs/formats/top.md). What clients do, or leave undone, costs their own connection at most: at most kMostClients of
/// them, bounded buffers, nothing that waits.
/// @thread one at a time
class TopServer {
 public:
  static constexpr std::size_t kMostClients = 8;
  static constexpr std::size_t kLongestRequest = 4096;
  static constexpr std::size_t kLongestCommand = 4 << 20;
  static constexpr std::size_t kMostUnread = 256 * 1024;  // bytes of answers that a client has not taken
  static constexpr std::chrono::seconds kTimeout{60};     // with a client that asks nothing, while connections are free

  /// Takes a command: a line of JSON to say at once, or nothing, and `reply` says it later.
  using TakeCommand = std::function<std::optional<std::string>(std::uint64_t ticket, const Json& command)>;

  /// Makes the socket, mode 0600, in the place of one that nobody listens on any more.
  /// @param answer  one line of JSON without its end, at most kMostUnread bytes; called on the server's thread
  /// @param take_command  called on the server's thread; a client's next request waits for the reply
  /// @error invalid_argument: a path too long for a socket; storage: somebody listens there, something else stands
  /// there,
  ///        or the system refuses
  static Result<std::unique_ptr<TopServer>> open(const std::string& path, std::function<std::string()> answer,
                                                 TakeCommand take_command);
  /// Says what was replied, closes all, and removes the socket unless another has taken its place.
  ~TopServer();
  /// The answer to a command: one line of JSON without its end. Dropped where its client has gone. @thread any
  void reply(std::uint64_t ticket, std::string line);
  const std::string& path() const noexcept;

 private:
  class Thread;
  explicit TopServer(std::unique_ptr<Thread> thread);
  std::unique_ptr<Thread> thread_;
};

/// Connects to a server. @error invalid_argument: a path too long; not_found: no socket there, or nobody listens;
///                              storage: otherwise
Result<int> connect_to_top(const std::string& path);

}  // namespace weft::cli
