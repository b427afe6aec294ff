// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "actors/fwd.hpp"

#include "core/result.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::actors {

/// One message as it was delivered: before which tick, to whom, with which stamp.
template <class Message>
struct Delivery {
  std::uint64_t tick = 0;
  ActorId actor = 0;
  std::uint64_t stamp = 0;
  Message message{};
};

/// Log of deliveries, in order. Each thread that delivers keeps its own; merging is ReplaySchedule's.
/// @thread one at a time
template <class Message>
class DeliveryLog {
 public:
  void append(Delivery<Message> delivery) { deliveries_.push_back(std::move(delivery)); }
  void clear() noexcept { deliveries_.clear(); }
  std::span<const Delivery<Message>> deliveries() const noexcept { return deliveries_; }

 private:
  std::vector<Delivery<Message>> deliveries_;
};

/// Sends recorded messages again, each before the tick at which it was delivered, so a replayed run receives exactly
/// what the recorded one did. Only the schedule may send while it replays: stamps must come out as recorded.
template <class Message>
class ReplaySchedule {
 public:
  ReplaySchedule() = default;
  explicit ReplaySchedule(std::vector<Delivery<Message>> deliveries) : deliveries_(std::move(deliveries)) {
    // Stamps order an actor's messages; between actors order does not matter, and this one is the same every time.
    std::stable_sort(deliveries_.begin(), deliveries_.end(), [](const auto& a, const auto& b) {
      return std::tie(a.tick, a.actor, a.stamp) < std::tie(b.tick, b.actor, b.stamp);
    });
  }

  /// Sends what was delivered at the boundary before `tick`: calls `push(actor, message) -> Result<stamp>`. Call it
  /// once per boundary, before mailboxes are drained. Returns how many were sent.
  /// @error corrupt: a message of an earlier tick was left over, or a stamp differs from the recorded one;
  ///        whatever push fails with
  template <class Push>
  Result<std::size_t> send_due(std::uint64_t tick, Push&& push) {
    std::size_t sent = 0;
    for (; position_ < deliveries_.size() && deliveries_[position_].tick <= tick; ++position_, ++sent) {
      const Delivery<Message>& due = deliveries_[position_];
      const std::string where = "replay: actor " + std::to_string(due.actor) + ", tick " + std::to_string(due.tick);
      if (due.tick < tick) return fail(Errc::corrupt, where + " has passed, now at " + std::to_string(tick));
      Result<std::uint64_t> stamp = push(due.actor, due.message);
      if (!stamp) return fail(std::move(stamp).error().within(where));
      if (*stamp != due.stamp) {
        return fail(Errc::corrupt, where + ": stamp " + std::to_string(*stamp) + " against " +
                                       std::to_string(due.stamp) + " recorded");
      }
    }
    return sent;
  }

  bool done() const noexcept { return position_ == deliveries_.size(); }
  std::span<const Delivery<Message>> remaining() const noexcept { return std::span(deliveries_).subspan(position_); }

 private:
  std::vector<Delivery<Message>> deliveries_;
  std::size_t position_ = 0;
};

}  // namespace weft::actors
