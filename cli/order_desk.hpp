// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/order.hpp"
#include "cli/run_state.hpp"

#include "core/json.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {

/// Orders of `weft send` to a running agent, from the socket's thread to the run loop, which carries them out between
/// two blocks of samples: each is in the journal before it is answered, so a replay carries it out at the same place.
class OrderDesk {
 public:
  static constexpr std::size_t kMostWaiting = 64;
  /// Says the answer to a ticket: one line of JSON.
  using Reply = std::function<void(std::uint64_t ticket, std::string line)>;

  /// An order that came. An answer where it is refused at once; else it waits for the run loop. @thread any
  std::optional<std::string> take(std::uint64_t ticket, const Json& order);
  /// Carries out what waits. @thread the run loop's, between its blocks
  void carry_out(RunState& state, const Reply& reply);
  /// No order is carried out any more; those that wait are refused too. @thread the run loop's
  void close(const std::string& why, const Reply& reply);

 private:
  struct Waiting {
    std::uint64_t ticket = 0;
    Order order;
  };
  std::vector<Waiting> take_all();

  std::mutex mutex_;  // of the two below
  std::vector<Waiting> waiting_;
  std::optional<std::string> closed_;  // why
  std::atomic<bool> has_orders_{false};
};

}  // namespace weft::cli
