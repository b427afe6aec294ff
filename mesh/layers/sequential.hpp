// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Layers one after the other within one tick: y = layer_n(... layer_1(x)). Each reads the layer before it, or the
/// siblings before it that its `from` names ("input" is what the container reads), so residuals and branches fit in.
/// The layers inside stand in the key `layers`, described as those of the grid, without `at` and with a `name` where a
/// sibling reads them; dtype, granularity, activations and qat of one are its container's where it says none.
/// {"type": "shared", "at": [z, y, x, l]} computes with the weights of another layer of the grid; what it learns moves
/// them.
/// @shape  what the layers make of it
/// @exact  as its layers; errors of a value with several readers add, the last reader's first
/// @error  a sibling that does not stand before, a layer that nobody reads, more than 16 levels, shapes that differ
/// @source original here
Result<std::unique_ptr<Layer>> make_sequential(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
