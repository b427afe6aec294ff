// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// A leaky integrator: hidden state h' = h + rate (x - h), y = h'. The state persists across ticks, one a session.
/// @shape  x [rows, in] -> y [rows, in]; state [rows, in]
/// @exact  one subtraction and one fma an element
/// @source the linear rate unit of Dayan and Abbott 2001, "Theoretical Neuroscience", eq. 7.6, Euler step
Result<std::unique_ptr<Layer>> make_leaky_integrator(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
