// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/philox.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft::learning {

/// Fisher and Yates; Knuth, TAOCP 3.4.2, algorithm P.
inline void shuffle(std::vector<std::uint32_t>& items, RandomStream random) {
  for (std::size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[random.next_below(static_cast<std::uint32_t>(i))]);
}

}  // namespace weft::learning
