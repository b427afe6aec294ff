// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_exchange.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace weft::server::internal {

class Connection;

/// An answer in pieces: what waits to be written.
class StreamOfConnection final : public HttpStream {
 public:
  StreamOfConnection(std::weak_ptr<Connection> connection, std::size_t capacity)
      : connection_(std::move(connection)), capacity_(capacity) {}
  bool send(std::string text) override;
  void end() override;
  bool is_open() const noexcept override { return open_.load(std::memory_order_relaxed); }
  /// Text that waits, and whether it is the end. @thread the connection's
  std::string take(bool& is_end);
  void close() noexcept { open_.store(false, std::memory_order_relaxed); }

 private:
  void wake();

  const std::weak_ptr<Connection> connection_;
  const std::size_t capacity_;
  std::mutex mutex_;
  std::string waiting_;
  bool ended_ = false, woken_ = false;
  std::atomic<bool> open_{true};
};

/// An exchange whose answer goes to a connection.
class ExchangeOfConnection final : public HttpExchange {
 public:
  ExchangeOfConnection(std::weak_ptr<Connection> connection, std::uint64_t number)
      : connection_(std::move(connection)), number_(number) {}
  ~ExchangeOfConnection() override;

  using HttpExchange::respond;
  void respond(HttpResponse response) override;
  void respond(std::function<HttpResponse()> make) override;
  std::shared_ptr<HttpStream> stream(HttpResponse head) override;

 private:
  template <class Do>
  bool hand_over(Do&& what);

  const std::weak_ptr<Connection> connection_;
  const std::uint64_t number_;
  std::atomic<bool> answered_{false};
};

}  // namespace weft::server::internal
