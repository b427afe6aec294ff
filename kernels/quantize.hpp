// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/weight.hpp"

#include <cstddef>
#include <optional>

namespace weft::kernels {

/// Computes scales, zero points and codes of a float32 matrix in the encoding that `to` names, over all of its arrays:
/// lanes past `out` and codes past `in` become 0 (rules: docs/numerics.md, section 8). Statistics skip infinities and
/// NaNs; of those that the type cannot hold (see first_unstorable), infinities saturate and NaNs become 0, of binary
/// -1.
/// @shape  master [out, in] -> to [out, in], arrays of weight_bytes() bytes; they alias nothing
/// @thread any, inside FlushSubnormals; allocates nothing
/// @exact  same bits on every ISA
void quantize(const ConstPanels& master, const Weight& to) noexcept;

/// The smallest row-major index o * in + k of a weight that `dtype` has no code for: infinities and NaNs. With
/// `allow_non_finite` those that the type has codes for pass: all of them for IEEE formats, bfloat16 and fp8_e5m2, NaNs
/// for fp8_e4m3.
std::optional<std::size_t> first_unstorable(const ConstPanels& master, Dtype dtype, bool allow_non_finite) noexcept;

}  // namespace weft::kernels
