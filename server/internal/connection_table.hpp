// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_server.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::server::internal {

class Connection;

/// Connections of a server, and what they share. @thread any
class ConnectionTable {
 public:
  ConnectionTable(const HttpLimits& of, HttpHandler& to, std::string uploads)
      : limits(of), handler(to), upload_directory(std::move(uploads)) {}

  const HttpLimits limits;
  HttpHandler& handler;
  const std::string upload_directory;

  /// False: there are too many, of that address or altogether.
  bool add(Connection& connection, const std::string& peer);
  void remove(Connection& connection, const std::string& peer) noexcept;
  void request_begins() noexcept;
  void request_ends() noexcept;
  bool is_draining() const noexcept { return draining_.load(std::memory_order_relaxed); }
  void drain();
  void close_all();
  bool wait_idle(std::chrono::milliseconds time);
  HttpStatistics statistics() const noexcept;
  std::string next_id();

  std::atomic<std::uint64_t> accepted{0}, refused{0}, cancelled{0}, timed_out{0}, urgent_threads{0};

 private:
  std::vector<std::shared_ptr<Connection>> all();

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> open_;
  std::map<std::string, std::size_t> by_address_;
  std::size_t handled_ = 0;  // requests
  std::atomic<bool> draining_{false};
  std::atomic<std::uint64_t> ids_{0};
};

}  // namespace weft::server::internal
