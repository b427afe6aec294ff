// SPDX-License-Identifier: Apache-2.0

#include "server/internal/connection_table.hpp"

#include "server/internal/http_connection.hpp"

#include <boost/asio/post.hpp>

#include <charconv>

namespace weft::server::internal {

bool ConnectionTable::add(Connection& connection, const std::string& peer) {
  const std::lock_guard hold(mutex_);
  if (open_.size() >= limits.connections || draining_.load(std::memory_order_relaxed)) return false;
  if (peer != "unix") {
    std::size_t& of_address = by_address_[peer];
    if (of_address >= limits.per_address) return false;
    ++of_address;
  }
  open_.emplace(&connection, connection.weak_from_this());
  accepted.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ConnectionTable::remove(Connection& connection, const std::string& peer) noexcept {
  const std::lock_guard hold(mutex_);
  if (open_.erase(&connection) == 0 || peer == "unix") return;
  const auto found = by_address_.find(peer);
  if (found != by_address_.end() && --found->second == 0) by_address_.erase(found);
}

void ConnectionTable::request_begins() noexcept {
  const std::lock_guard hold(mutex_);
  ++handled_;
}

void ConnectionTable::request_ends() noexcept {
  const std::lock_guard hold(mutex_);
  if (--handled_ == 0) idle_.notify_all();
}

std::vector<std::shared_ptr<Connection>> ConnectionTable::all() {
  std::vector<std::shared_ptr<Connection>> found;
  const std::lock_guard hold(mutex_);
  for (const auto& [_, each] : open_)
    if (auto connection = each.lock()) found.push_back(std::move(connection));
  return found;
}

void ConnectionTable::drain() {
  draining_.store(true, std::memory_order_relaxed);
  for (const auto& each : all()) boost::asio::post(each->executor(), [each] { each->drain(); });
}

void ConnectionTable::close_all() {
  draining_.store(true, std::memory_order_relaxed);
  for (const auto& each : all()) boost::asio::post(each->executor(), [each] { each->close(); });
}

bool ConnectionTable::wait_idle(std::chrono::milliseconds time) {
  std::unique_lock hold(mutex_);
  return idle_.wait_for(hold, time, [this] { return handled_ == 0; });
}

HttpStatistics ConnectionTable::statistics() const noexcept {
  const std::lock_guard hold(mutex_);
  return {accepted.load(), refused.load(), open_.size(), cancelled.load(), timed_out.load(), urgent_threads.load()};
}

std::string ConnectionTable::next_id() {
  char text[32] = "req-";
  const auto end = std::to_chars(text + 4, text + sizeof text, ++ids_, 16).ptr;
  return std::string(text, end);
}

}  // namespace weft::server::internal
