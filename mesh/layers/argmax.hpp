// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// The choice of the largest value: y = 1 at the first of the largest x of a token, else 0. The slope is 0, so that no
/// gradient passes; targets do (Layer::is_step).
/// @shape  x [..., features] -> y [..., features]
/// @exact  same bits on every ISA: values are no roundings
/// @source original here
Result<std::unique_ptr<Layer>> make_argmax(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
