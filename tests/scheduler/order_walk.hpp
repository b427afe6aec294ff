// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/order.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace weft::scheduler::test {

/// Walks all orders of a run, one run after another: each takes the choices of the one before but for the last that
/// may still be another.
///   OrderWalk walk;
///   do run(walk); while (walk.next());
class OrderWalk final : public Order {
 public:
  std::size_t pick(std::size_t count) noexcept override {
    if (count == 1) return 0;
    if (depth_ == choices_.size()) choices_.push_back({0, count});
    if (choices_[depth_].count != count) is_broken_ = true;  // the run is no function of its choices
    return choices_[depth_++].taken;
  }
  /// The next order from here on. False: there is none.
  bool next() {
    if (depth_ != choices_.size()) is_broken_ = true;
    depth_ = 0;
    while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().count) choices_.pop_back();
    if (choices_.empty()) return false;
    ++choices_.back().taken;
    return true;
  }
  /// True when a run with the same choices was asked for others.
  bool is_broken() const noexcept { return is_broken_; }

 private:
  struct Choice {
    std::size_t taken = 0, count = 0;
  };
  std::vector<Choice> choices_;
  std::size_t depth_ = 0;
  bool is_broken_ = false;
};

}  // namespace weft::scheduler::test
