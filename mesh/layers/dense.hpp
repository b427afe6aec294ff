// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Fully connected layer: y = activation(x W^T + b).
/// @shape  x [rows, in], W [out, in], b [out] -> y [rows, out]
/// @exact  same bits on every ISA, thread count and batch: rule R1 (docs/numerics.md)
Result<std::unique_ptr<Layer>> make_dense(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
