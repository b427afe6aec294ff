// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Standardisation by numbers that were computed beforehand: y = (x - mean) * (1 / deviation), each feature with its
/// own. Nothing of it is learned: the numbers are part of the network, and of what it saves.
/// @shape  x [..., in], mean [in], deviation [in] -> y [..., in]
/// @exact  mean rounded to float32, 1 / deviation in binary64 and rounded once; one subtraction and one product an
///         element, each rounded
/// @source original here; the numbers are those of scikit-learn's StandardScaler
Result<std::unique_ptr<Layer>> make_standardize(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
