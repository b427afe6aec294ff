// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/weight.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::kernels::detail {

/// quantize() for every type in plain code: what vector code must equal, and all there is for 32- and 64-bit integers.
void quantize_reference(const ConstPanels& master, const Weight& to) noexcept;

/// A group of weights that share a scale: outputs [first_out, first_out + outs) by inputs [first_in, first_in + ins).
struct WeightGroup {
  std::size_t first_out, outs, first_in, ins;
};
/// Their mean magnitude where the sum of magnitudes overflows: summed at 2^-64 of their size, at most the largest
/// float.
float mean_of_huge(const ConstPanels& master, const WeightGroup& group) noexcept;

/// Scale and zero point of integers of 32 and 64 bits, of weights within [low, high], low <= 0 <= high. Of signed ones
/// `high` is the largest magnitude.
struct WideScale {
  double scale;
  std::uint64_t zero;
};
WideScale wide_scale(Dtype dtype, float low, float high) noexcept;

}  // namespace weft::kernels::detail
