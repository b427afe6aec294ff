// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace weft::kernels {

/// Eligibility traces take a gradient in: z = fma(decay, z, g).
/// @return  the sum of the absolute values of z, by rule R2
/// @shape   z, g [n], which do not overlap
/// @exact   same bits on every ISA
float trace_update(float* z, const float* g, float decay, std::size_t n) noexcept;

}  // namespace weft::kernels
