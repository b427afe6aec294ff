// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/weight.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::kernels::detail {

/// Scales of a weight, float32 or binary16, for kernels that tell the two apart while they run: a branch that goes the
/// same way each time costs less than a second copy of each kernel. Vectors are read by simd/scales-inl.hpp.
struct ScaleArray {
  const void* data = nullptr;  ///< null: none
  bool is_half = false;

  /// The scales from element `i` on.
  ScaleArray from(std::size_t i) const noexcept { return {static_cast<const char*>(data) + i * bytes(), is_half}; }
  std::size_t bytes() const noexcept { return is_half ? sizeof(std::uint16_t) : sizeof(float); }
};
inline ScaleArray scale_array(const ConstWeight& w) noexcept { return {w.scales, w.has_half_scales()}; }

/// The least binary16 number of 2^-24 and more that is not below `scale` > 0, at most 65504: its code, and itself.
struct HalfScale {
  std::uint16_t code;
  float number;
};
HalfScale half_scale(float scale) noexcept;

}  // namespace weft::kernels::detail
