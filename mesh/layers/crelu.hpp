// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Both sides of each value: y = [relu(x), relu(-x)], joined along the last axis, or the first one (channels).
/// @shape  x [..., features] -> y [..., 2 features]; axis first: x [channels, ...] -> y [2 channels, ...]
/// @exact  same bits on every ISA: comparisons
/// @source Shang, Sohn, Almeida and Lee 2016, "Understanding and improving convolutional neural networks via
/// concatenated
///         rectified linear units", arXiv:1603.05201; against loss of plasticity: Abbas et al. 2023, arXiv:2303.07507
Result<std::unique_ptr<Layer>> make_crelu(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
