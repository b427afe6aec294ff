// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

namespace weft::kernels {

/// True when no element is infinite or NaN; true for an empty matrix.
bool is_finite(const ConstMatrixView& x) noexcept;

/// True when the magnitude of each of n values is below 2^63: products of two such values are finite.
bool are_moderate(const float* values, std::size_t n) noexcept;

/// Makes every NaN the one canonical NaN, bits 0x7fc00000: payloads and signs of NaNs differ between machines, so this
/// stands between a computation and anything hashed or stored. Other values keep their bits.
void canonicalize_nan(const MatrixView& x) noexcept;

}  // namespace weft::kernels
