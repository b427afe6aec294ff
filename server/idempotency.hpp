// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_exchange.hpp"

#include "core/state_hash.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace weft::server {

/// Answers to requests with an Idempotency-Key, kept for a while: a request that comes again gets the same answer and
/// is not executed again. In memory: a server that was started anew has forgotten them.
/// @thread any
class IdempotencyStore {
 public:
  static constexpr std::chrono::minutes kKept{10};
  static constexpr std::size_t kMost = 10'000;  // answers
  static constexpr std::size_t kLongestKey = 256;
  static constexpr std::size_t kMostBytes = 1 << 20;  // of one answer; a larger one is not kept

  /// The exchange to hand on: its answer will be kept. Null: it was answered here (again, 409, 422 or 429).
  ExchangePointer admit(ExchangePointer exchange);

 private:
  class Recorder;
  struct Entry {
    Hash128 request;
    bool is_done = false;
    HttpResponse answer;
    std::chrono::steady_clock::time_point until;
  };
  struct Shared {
    std::mutex mutex;
    std::map<std::string, Entry> entries;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace weft::server
