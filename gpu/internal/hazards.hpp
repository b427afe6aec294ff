// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/range.hpp"

#include <initializer_list>
#include <vector>

namespace weft::gpu {

/// Ranges that a dispatch touches. Flags are words that it sets bits of atomically, in any order.
struct Accesses {
  std::initializer_list<Range> reads, writes, flags;
};

/// Memory that commands touched since the last barrier.
class Hazards {
 public:
  /// True when a command with these accesses must wait for earlier ones, or more is remembered than a barrier costs.
  bool need_barrier_before(const Accesses& accesses) const noexcept;
  void remember(const Accesses& accesses);
  void clear() noexcept;

 private:
  std::vector<Range> reads_, writes_, flags_;
};

}  // namespace weft::gpu
