// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Layer normalisation: y = (x - mean) / sqrt(variance + epsilon) * gain + bias, biased variance.
/// @shape  x [rows, in], gain [in], bias [in] -> y [rows, in]
/// @exact  rule R2 along the row
/// @source Ba et al. 2016, eq. 3, arXiv:1607.06450
Result<std::unique_ptr<Layer>> make_layer_norm(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
