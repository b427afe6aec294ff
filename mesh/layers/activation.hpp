// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Reads the option "activation"; `otherwise` when absent.
/// @error unknown_name naming the spelling and the known ones
Result<kernels::Activation> read_activation(OptionReader& options,
                                            kernels::Activation otherwise = kernels::Activation::linear);

/// Elementwise function: y = activation(x).
/// @shape x [rows, in] -> y [rows, in]
///
/// parameter  | default | unit | meaning
/// -----------|---------|------|--------
/// activation | relu    | -    | a row of kernels/activations.def
Result<std::unique_ptr<Layer>> make_activation(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
