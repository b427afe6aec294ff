// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Values kept between -c and c: y = c tanh(x (1 / c)), 1 / c rounded once. Near 0 it is x.
/// @shape  x [...] -> y [...]
/// @exact  same bits on every ISA: two products and tanh an element
/// @source Bello et al. 2016, arXiv:1611.09940, section 4; Gemma Team 2024, arXiv:2408.00118 (logits)
Result<std::unique_ptr<Layer>> make_soft_cap(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
