// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <utility>

namespace weft::scheduler {

/// A source of choices among what may come next. An executor of tests hands one to its program, so that the order of
/// everything that is free to come in any order is drawn, or written down and walked.
/// @thread the one that runs
class Order {
 public:
  virtual ~Order() = default;
  /// Picks what comes next among `count`, which is not 0: a number below it.
  virtual std::size_t pick(std::size_t count) noexcept = 0;
};

/// Puts [first, last) into an order that may be any.
template <class Iterator>
void arrange(Iterator first, Iterator last, Order& order) noexcept {
  for (; last - first > 1; ++first)
    std::swap(*first, first[static_cast<decltype(last - first)>(order.pick(static_cast<std::size_t>(last - first)))]);
}

}  // namespace weft::scheduler
