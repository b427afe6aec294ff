// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace weft::kernels {

struct OuterProduct;

/// Eligibility traces take a gradient in: z = fma(decay, z, g).
/// @return  the sum of the absolute values of z, by rule R2
/// @shape   z, g [n], which do not overlap
/// @exact   same bits on every ISA
float trace_update(float* z, const float* g, float decay, std::size_t n) noexcept;

/// The same of a matrix whose gradients are an outer product, fma(dy[o], x[k], 0), which stay in registers.
/// @shape   z panels [out, in], those that pad the last one 0
/// @exact   the bits of `fill` by 0, `outer_accumulate` and `trace_update`
float trace_update(float* z, const OuterProduct& product, float decay) noexcept;

}  // namespace weft::kernels
