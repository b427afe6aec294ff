// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// The option `activation`.
Result<kernels::Activation> read_activation(OptionReader& options);

/// Elementwise function: y = activation(x).
/// @shape x [rows, in] -> y [rows, in]
Result<std::unique_ptr<Layer>> make_activation(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
