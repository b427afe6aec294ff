// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

namespace weft::kernels {

/// The backward of an elementwise maximum x = max(a, b, ...), asked source by source: where source == x, d takes what
/// is left of the gradient and `left` becomes +0; elsewhere d is +0. So the first source that holds the maximum gets
/// all.
/// @shape  source, x, left, d [rows, cols]; d aliases nothing
/// @exact  comparisons and moves only
void route_equal(const ConstRows& source, const ConstRows& x, const Rows& left, const Rows& d) noexcept;

}  // namespace weft::kernels
