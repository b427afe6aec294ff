// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Softmax along the row: y = exp(x / T) / sum exp(x / T). Its gradient carries the 1/T.
/// @shape  x [rows, in] -> y [rows, in]
/// @exact  rule R2 along the row
///
/// parameter   | default | unit | meaning
/// ------------|---------|------|--------
/// temperature | 1       | -    | T, above 0
Result<std::unique_ptr<Layer>> make_softmax(std::size_t in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
