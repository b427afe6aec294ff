// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

namespace weft::kernels {

/// c[b] = cos(a[b], b[b]) = dot / (sqrt(a a) sqrt(b b)); 0 when that product is 0, however that comes about.
/// @shape  a, b [rows, cols] -> c [rows]
/// @exact  three sums by rule R2, one fma an element; two roots, a product and a division, correctly rounded
void row_cosine(const ConstMatrixView& a, const ConstMatrixView& b, float* c) noexcept;

}  // namespace weft::kernels
