// SPDX-License-Identifier: Apache-2.0

#include "server/idempotency.hpp"

#include <optional>
#include <utility>

namespace weft::server {
namespace {

using Clock = std::chrono::steady_clock;

Hash128 fingerprint(const HttpRequest& request) {
  StateHasher hasher;
  hasher.add(std::uint64_t{request.target.size()});
  hasher.add_bytes(request.target.data(), request.target.size());
  hasher.add_bytes(request.body.data(), request.body.size());
  return hasher.digest();
}

}  // namespace

/// Hands an answer on and keeps it.
class IdempotencyStore::Recorder final : public HttpExchange {
 public:
  Recorder(ExchangePointer to, std::shared_ptr<Shared> shared, std::string key)
      : to_(std::move(to)), shared_(std::move(shared)), key_(std::move(key)) {
    request = to_->request;
    request.body_file.clear();  // the other one's to remove
    route = to_->route;
  }
  ~Recorder() override {
    if (is_answered_) return;
    const std::lock_guard hold(shared_->mutex);
    shared_->entries.erase(key_);
  }

  using HttpExchange::respond;
  void respond(HttpResponse response) override {
    is_answered_ = true;
    {
      const std::lock_guard hold(shared_->mutex);
      // A request that was not executed may be tried again.
      if (response.status >= 500 || response.status == 429 || response.body.size() > kMostBytes) {
        shared_->entries.erase(key_);
      } else if (const auto found = shared_->entries.find(key_); found != shared_->entries.end()) {
        found->second.is_done = true;
        found->second.answer = response;
      }
    }
    to_->respond(std::move(response));
  }
  std::shared_ptr<HttpStream> stream(HttpResponse head) override { return to_->stream(std::move(head)); }

 private:
  const ExchangePointer to_;
  const std::shared_ptr<Shared> shared_;
  const std::string key_;
  bool is_answered_ = false;
};

ExchangePointer IdempotencyStore::admit(ExchangePointer exchange) {
  const HttpRequest& request = exchange->request;
  if (!request.has_header("idempotency-key") || !request.body_file.empty()) return exchange;
  const std::string given(request.header("idempotency-key"));
  if (given.empty() || given.size() > kLongestKey) {
    exchange->respond(error_response(400, "invalid_request_error", "Idempotency-Key: give 1 to 256 characters"));
    return nullptr;
  }
  const std::string key = request.method + " " + request.path + " " + given;
  const Hash128 print = fingerprint(request);
  std::optional<HttpResponse> answer;
  {
    const std::lock_guard hold(shared_->mutex);
    auto& entries = shared_->entries;
    const auto now = Clock::now();
    if (entries.size() >= kMost) std::erase_if(entries, [&](const auto& each) { return each.second.until < now; });
    const auto found = entries.find(key);
    if (found != entries.end() && found->second.until >= now) {
      if (found->second.request != print)
        answer = error_response(422, "invalid_request_error", "Idempotency-Key: it came with another request before");
      else if (!found->second.is_done)
        answer = error_response(409, "conflict_error", "Idempotency-Key: this request is being executed");
      else
        answer = found->second.answer;
    } else if (entries.size() >= kMost) {
      answer = error_response(429, "rate_limit_error", "Idempotency-Key: too many are remembered; try again later");
    } else {
      entries[key] = {print, false, {}, now + kKept};
    }
  }
  if (answer) {
    exchange->respond(*std::move(answer));
    return nullptr;
  }
  auto recorder = std::make_shared<Recorder>(exchange, shared_, key);
  exchange->on_cancel([weak = std::weak_ptr<Recorder>(recorder)] {
    if (const auto still = weak.lock()) still->cancel();
  });
  return recorder;
}

}  // namespace weft::server
