// SPDX-License-Identifier: Apache-2.0

#include "server/internal/connection_exchange.hpp"

#include "server/internal/http_connection.hpp"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include <unistd.h>

#include <algorithm>

namespace weft::server::internal {

template <class Do>
bool ExchangeOfConnection::hand_over(Do&& what) {
  if (answered_.exchange(true)) return false;
  if (const auto connection = connection_.lock())
    boost::asio::dispatch(connection->executor(),
                          [connection, number = number_, route_of = route, act = std::forward<Do>(what)]() mutable {
                            act(*connection, number, route_of);
                          });
  return true;
}

ExchangeOfConnection::~ExchangeOfConnection() {
  if (!request.body_file.empty()) unlink(request.body_file.c_str());
  if (!answered_.load()) respond(error_response(500, "server_error", "this request was given up without an answer"));
}

void ExchangeOfConnection::respond(HttpResponse response) {
  hand_over([response = std::move(response)](Connection& to, std::uint64_t number, const std::string& of) mutable {
    to.write(number, of, std::move(response));
  });
}

void ExchangeOfConnection::respond(std::function<HttpResponse()> make) {
  hand_over([make = std::move(make)](Connection& to, std::uint64_t number, const std::string& of) {
    to.write(number, of, make());
  });
}

std::shared_ptr<HttpStream> ExchangeOfConnection::stream(HttpResponse head) {
  const auto connection = connection_.lock();
  if (!connection) {
    answered_ = true;
    return nullptr;
  }
  auto made = std::make_shared<StreamOfConnection>(connection_, connection->limits().stream_bytes);
  // Before anything that its sender adds, and before its end: the connection begins it in its own time.
  if (!head.body.empty()) (void)made->send(std::exchange(head.body, {}));
  const bool first =
      hand_over([head = std::move(head), made](Connection& to, std::uint64_t number, const std::string& of) mutable {
        to.begin_stream(number, of, std::move(head), made);
      });
  return first ? made : nullptr;
}

bool StreamOfConnection::send(std::string text) {
  {
    const std::lock_guard hold(mutex_);
    if (!is_open() || ended_ || text.size() > capacity_ - std::min(capacity_, waiting_.size())) return false;
    waiting_ += text;
    if (std::exchange(woken_, true)) return true;
  }
  wake();
  return true;
}

void StreamOfConnection::end() {
  {
    const std::lock_guard hold(mutex_);
    ended_ = true;
    if (std::exchange(woken_, true)) return;
  }
  wake();
}

void StreamOfConnection::wake() {
  if (const auto connection = connection_.lock())
    boost::asio::post(connection->executor(), [connection] { connection->flush_stream(); });
}

std::string StreamOfConnection::take(bool& is_end) {
  const std::lock_guard hold(mutex_);
  is_end = ended_;
  if (waiting_.empty()) woken_ = false;
  return std::exchange(waiting_, {});
}

}  // namespace weft::server::internal
