// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Root-mean-square normalisation: y = x / sqrt(mean(x^2) + epsilon) * gain.
/// @shape  x [rows, in], gain [in] -> y [rows, in]
/// @exact  rule R2 along the row
/// @source Zhang and Sennrich 2019, eq. 4, arXiv:1910.07467
Result<std::unique_ptr<Layer>> make_rms_norm(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
