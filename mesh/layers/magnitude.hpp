// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Magnitudes of complex numbers: the first half of the outermost axis has the real parts, the second the imaginary
/// ones, as a convolution that computes a spectrum leaves them.
///   y = sqrt(a a + b b),  dL/da = dL/dy a / y, 0 where y is 0; of b likewise
/// Squares below the smallest normal number count as 0, and above the largest are infinite.
/// @shape  x [2 n, ...] -> y [n, ...]
/// @exact  same bits on every ISA: each square, the sum and the root are rounded
/// @error  shape_mismatch: an odd number of halves
/// @source original here
Result<std::unique_ptr<Layer>> make_magnitude(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
