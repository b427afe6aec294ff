// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace weft::kernels::detail {

/// This thread's workspace for packed operands, at least `floats` long and 64-byte aligned; contents are left over from
/// the last call. It only grows, so a steady state allocates nothing. Without memory the program ends.
float* linear_scratch(std::size_t floats) noexcept;

/// `count` things in parts of at most `most`, as even as can be: part `i` is [begin(i), begin(i + 1)).
struct EvenParts {
  EvenParts(std::size_t count, std::size_t most) noexcept
      : parts(count == 0 ? 0 : (count + most - 1) / most),
        size(parts == 0 ? 0 : count / parts),
        larger(parts == 0 ? 0 : count % parts) {}
  std::size_t begin(std::size_t i) const noexcept { return i * size + (i < larger ? i : larger); }
  std::size_t parts, size, larger;
};

}  // namespace weft::kernels::detail
