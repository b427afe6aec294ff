// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_message.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace weft::server {

/// An answer that is sent in pieces for as long as somebody reads it.
/// @thread any
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  /// Queues a piece. False: the queue is full or the client has gone, and the piece is dropped.
  virtual bool send(std::string text) = 0;
  /// After what is queued the answer ends.
  virtual void end() = 0;
  virtual bool is_open() const noexcept = 0;
};

/// One request and the place for its answer. Whoever holds it may answer, once; where nobody does, the client gets 500.
/// @thread any; `request` is not changed once a handler has it
class HttpExchange {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~HttpExchange() = default;

  HttpRequest request;
  std::string route;  ///< the pattern that matched, for metrics
  Clock::time_point begun = Clock::now();

  /// The first answer counts.
  virtual void respond(HttpResponse response) = 0;
  /// As above; `make` is called on the connection's thread, so that the caller's does not format the answer.
  virtual void respond(std::function<HttpResponse()> make) { respond(make()); }
  /// Begins an answer in pieces; `head.body` is the first. Null: it was answered before.
  virtual std::shared_ptr<HttpStream> stream(HttpResponse head) = 0;

  /// True once the client has gone: nobody will read the answer.
  bool is_cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }
  /// Called once when the client goes, or at once where it has gone already.
  void on_cancel(std::function<void()> call) {
    {
      const std::lock_guard hold(mutex_);
      if (!is_cancelled()) {
        call_ = std::move(call);
        return;
      }
    }
    call();
  }
  void cancel() {
    std::function<void()> call;
    {
      const std::lock_guard hold(mutex_);
      cancelled_.store(true, std::memory_order_release);  // pairs with the acquire in is_cancelled
      call = std::exchange(call_, {});
    }
    if (call) call();
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> cancelled_{false};
  std::function<void()> call_;
};
using ExchangePointer = std::shared_ptr<HttpExchange>;

/// Takes the requests of an HttpServer. @thread the server's, several at once; must not wait
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Decides by the head alone: an answer, or how large a body may be and where it goes.
  struct Admission {
    std::optional<HttpResponse> refusal;
    std::uint64_t max_body = 0;
    bool to_file = false;  ///< the body is streamed to a file: request.body_file
  };
  virtual Admission admit(const HttpRequest& head) = 0;
  virtual void handle(ExchangePointer exchange) = 0;
  /// Fields that each answer has, by its request.
  virtual std::vector<HttpHeader> headers(const HttpRequest& request) = 0;
  /// An answer was written, or (status 499) its client has gone. `route` is empty where no handler saw the request.
  virtual void finished(const std::string& route, int status, std::chrono::nanoseconds took) = 0;
};

}  // namespace weft::server
