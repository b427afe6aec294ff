// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Fully connected layer: y = activation(x W^T + b).
/// @shape  x [rows, in], W [out, in], b [out] -> y [rows, out]
/// @exact  same bits on every ISA, thread count and batch: rule R1 (docs/numerics.md)
///
/// parameter  | default | unit | meaning
/// -----------|---------|------|--------
/// out        | none    | values | width of the output, required
/// activation | linear  | -    | a row of kernels/activations.def
/// bias       | true    | -    | whether b exists
/// init       | xavier  | -    | xavier, he, normal, uniform, zero (mesh/layers/init.hpp); b starts at 0
Result<std::unique_ptr<Layer>> make_dense(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
