// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Weights that sum to one, of a row or of each of its groups: with `standard`, y = exp(x / T) / sum exp(x / T);
/// `sparsemax` is the nearest point of the simplex to x / T, zero for all that is far below the largest; `entmax` lies
/// between them (alpha 1 is standard, 2 sparsemax) and beyond. The gradient carries the 1/T.
/// @shape  x [rows, in] -> y [rows, in]
/// @exact  rule R2 along each group; entmax by bisection over float32's own numbers (docs/numerics.md, section 11)
/// @source Martins and Astudillo 2016, arXiv:1602.02068; Peters, Niculae and Martins 2019, arXiv:1905.05702
///
/// parameter   | default  | unit | meaning
/// ------------|----------|------|--------
/// temperature | 1        | -    | T, above 0
/// kind        | standard | -    | standard, sparsemax, entmax
/// alpha       | 1.5      | -    | with entmax: from 1 to 1000; the larger, the sparser
/// groups      | 1        | -    | a grid softmax: so many groups of equal width, each with a sum of one
Result<std::unique_ptr<Layer>> make_softmax(std::size_t in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
