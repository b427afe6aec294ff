// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace weft::kernels::detail {

/// This thread's workspace for packed operands, at least `floats` long and 64-byte aligned; contents are left over from
/// the last call. It only grows, so a steady state allocates nothing. Without memory the program ends.
float* linear_scratch(std::size_t floats) noexcept;

/// `count` things in parts of at most `most`, as even as can be or full: part `i` is [begin(i), begin(i + 1)).
struct EvenParts {
  EvenParts(std::size_t units, std::size_t most) noexcept
      : count(units),
        parts(count == 0 ? 0 : (count + most - 1) / most),
        size(parts == 0 ? 0 : count / parts),
        larger(parts == 0 ? 0 : count % parts) {}
  /// Parts of `most` but for the last, which takes the rest.
  static EvenParts full(std::size_t count, std::size_t most) noexcept {
    EvenParts all(count, most);
    all.size = most;
    all.larger = 0;
    return all;
  }
  std::size_t begin(std::size_t i) const noexcept {
    const std::size_t at = i * size + (i < larger ? i : larger);
    return at < count ? at : count;
  }
  std::size_t count, parts, size, larger;
};

}  // namespace weft::kernels::detail
