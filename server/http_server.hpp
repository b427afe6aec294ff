// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_exchange.hpp"

#include "core/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::server {

/// Limits of connections. What passes one costs that connection alone.
struct HttpLimits {
  std::size_t head_bytes = 16 * 1024;
  std::chrono::milliseconds head{10'000};        ///< from a head's first byte to its last
  std::chrono::milliseconds body{30'000};        ///< between two parts of a body
  std::chrono::milliseconds keep_alive{75'000};  ///< between two requests
  std::chrono::milliseconds write{60'000};       ///< in which a client reads nothing
  std::size_t connections = 1024;
  std::size_t per_address = 64;          ///< connections; not of Unix sockets
  std::size_t stream_bytes = 256 << 10;  ///< queued of one answer in pieces
};

/// Statistics of an HttpServer at a moment.
struct HttpStatistics {
  std::uint64_t accepted = 0, refused = 0;  ///< connections since it was opened
  std::uint64_t connections = 0;            ///< open now
  std::uint64_t cancelled = 0;              ///< requests whose client went before the answer
  std::uint64_t timed_out = 0;              ///< connections ended by a limit of time
  std::uint64_t urgent_threads = 0;         ///< threads for connections that run before those that compute
};

/// HTTP/1.1 and 1.0 over TCP and Unix sockets: keep-alive, pipelined requests, chunked bodies, timeouts, cancellation.
/// A client that closes its connection, or its sending half, cancels the request that is being handled.
/// @thread one at a time; the statistics: any
class HttpServer {
 public:
  struct Options {
    /// "127.0.0.1:8080", "[::1]:0" (any free port) or "unix:PATH" (mode 0600; a socket nobody listens on is replaced).
    std::vector<std::string> listen{};
    /// Listening sockets that were opened for the process (socket activation).
    std::vector<int> inherited{};
    HttpLimits limits{};
    std::size_t threads = 1;
    /// Threads for connections have real-time priority where the system allows it, so that a probe does not wait for a
    /// slice of those that compute.
    bool urgent = false;
    std::string upload_directory{};  ///< of bodies that are streamed to files
  };

  /// Listens, and serves from then on. `handler` must outlive the server.
  /// @error invalid_argument: an address that is none; storage: it cannot be listened on
  static Result<std::unique_ptr<HttpServer>> open(Options options, HttpHandler& handler);
  /// Closes everything at once.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Addresses that it listens on, in the order of the options: "127.0.0.1:41234", "unix:/run/weft.sock".
  const std::vector<std::string>& addresses() const noexcept;
  /// From now on each answer closes its connection, and idle connections are closed.
  void drain();
  /// True when no request is being handled within `time`.
  bool wait_idle(std::chrono::milliseconds time);
  HttpStatistics statistics() const noexcept;

 private:
  class Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::server
