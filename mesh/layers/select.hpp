// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Values of the input in another order: a part of them, turned round at an end, repeated, or with zeros between. Run i
/// is the values first[i], first[i] + step[i], ..., count[i] of them; y is the runs one after the other. The input is
/// read as a vector, and one past its last value stands a 0.
///   y = (x, 0)[indices];  dL/dx = the sum of dL/dy of each place that reads it, places ascending
/// A run of step 1 costs one copy, any other one for each value.
/// @shape  x [...] -> y [sum of count]
/// @exact  y has bits of x; gradients add in order
/// @error  shape_mismatch: lists of different lengths; out_of_range: a place outside the input; too_large: more than
///         65,536 copies
/// @source original here
Result<std::unique_ptr<Layer>> make_select(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
