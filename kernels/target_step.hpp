// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/activation.hpp"
#include "kernels/math.hpp"

#include <cstddef>

namespace weft::kernels {

/// Epsilon of an rms, added to the mean of squares, so that 1 / rms is 1e12 and finite for a row of zeros: its factor
/// is 1, as of every row below the limit.
inline constexpr float kLeastSquare = 1e-24f;

/// min(1, limit / rms) of a row of `n` values with this sum of squares; with `is_square` min(1, limit / rms^2).
inline float limit_factor(float limit, bool is_square, float squares, std::size_t n) noexcept {
  float factor = math::inverse_sqrt(squares / static_cast<float>(n) + kLeastSquare);
  if (is_square) factor *= factor;
  factor *= limit;
  return math::flush(factor < 1.0f || factor != factor ? factor : 1.0f);
}

/// Limits of a layer's displacement. 0: there is none.
struct DisplacementLimits {
  float activation = 0.0f;    // of the rms of what it published, towards which the target is pulled back
  float displacement = 0.0f;  // of its own rms
};

/// The displacement of one row of n outputs, within its limits:
///   to = limit_factor(displacement, wanted) wanted + kPullBack (limit_factor(activation, y) y - y)
/// @shape  wanted, y, to [n]; `to` may be `wanted`
/// @exact  the bits of row_dots, scale_rows, binary and axpy one after the other
void limit_displacement(const float* wanted, const float* y, std::size_t n, const DisplacementLimits& limits,
                        float* to) noexcept;
inline constexpr float kPullBack = 0.1f;

/// One row of a layer that is one product, y = activation(W x + b), and the displacement it is taught by.
struct TargetError {
  const float* y = nullptr;             // [out]
  const float* slope = nullptr;         // [out]: y, or z where the activation needs it
  const float* displacement = nullptr;  // [out]
  const float* x = nullptr;             // [in]
  std::size_t out = 0, in = 0;
  Activation activation = Activation::linear;
  float step_limit = 0.0f;  // limit_factor of x, by its square; 0: none
  float scale = -1.0f;
};

/// dy = slope of (scale limit_factor(step_limit, x) f displacement) with f = link_budget(y, y + displacement). False
/// where f is 0: nothing is learned then, and dy is as it was.
/// @exact  the bits of binary, link_budget, scale_rows, row_dots, scale and unary_backward one after the other
bool target_error(const TargetError& of, float* dy) noexcept;

}  // namespace weft::kernels
