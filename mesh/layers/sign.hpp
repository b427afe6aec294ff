// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Signs: y = -1, 0 or 1, 0 within +-`zone` and at its ends. Differences from an end that are subnormal count as 0; a
/// NaN stays one. The slope is 0, so that no gradient passes; targets do (Layer::is_step).
/// @shape  x [...] -> y [...]
/// @exact  same bits on every ISA: values are no roundings
/// @source Lee, Zhang, Fischer and Bengio 2015, arXiv:1412.7525, section 3.2 (discrete transmission between units)
Result<std::unique_ptr<Layer>> make_sign(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
