// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/pool.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace weft::kernels::detail {

/// The elements of one window on one axis: `count` of them from `first` on, `step` apart; `full` with padding.
struct Bin {
  std::size_t first, count, step, full;
};

inline Bin bin_of(const Pool& pool, std::size_t axis, std::size_t p) noexcept {
  const Window& w = pool.window;
  const std::size_t n = w.in[axis], pad = w.padding[axis], step = w.dilation[axis];
  if (pool.is_adaptive) {
    const std::size_t m = w.out[axis], first = p * n / m, count = ((p + 1) * n + m - 1) / m - first;
    return {first, count, 1, count};
  }
  // Counted from the padded image's edge.
  const std::size_t begin = p * w.stride[axis];
  const std::size_t missing = begin >= pad ? 0 : (pad - begin + step - 1) / step;
  const std::size_t end = std::min((n + pad - 1 - begin) / step + 1, w.kernel[axis]);
  const std::size_t full = std::min((n + 2 * pad - 1 - begin) / step + 1, w.kernel[axis]);
  return {begin + missing * step - pad, end > missing ? end - missing : 0, step, full};
}

using Bins = std::array<Bin, Window::kAxes>;

inline float divisor(const Pool& pool, const Bins& bins) noexcept {
  std::size_t n = 1;
  for (const Bin& bin : bins) n *= pool.counts_padding ? bin.full : bin.count;
  return static_cast<float>(n);
}

}  // namespace weft::kernels::detail
