// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Weights that sum to one, of a row or of each of its groups: with `standard`, y = exp(x / T) / sum exp(x / T);
/// `sparsemax` is the nearest point of the simplex to x / T, zero for all that is far below the largest; `entmax` lies
/// between them (alpha 1 is standard, 2 sparsemax) and beyond; `gumbel` is standard with noise added to x, which makes
/// it a draw from softmax(x), the more one-hot the smaller T. The gradient carries the 1/T.
///
/// Each session draws its own noise, a function of the network's seed, the layer's place, the session's index when it
/// first drew, and the number of its draws. The last two are hidden state: a saved session goes on with the noise it
/// would have met, elsewhere too; a copy draws what the original draws. A reset one starts its own again. A session
/// that is added later has noise that none before it had. In a pass without sessions (`Mesh::forward`) row b draws as
/// session b does at its first tick.
/// @shape  x [rows, in] -> y [rows, in]; state of gumbel [rows, 4]
/// @exact  rule R2 along each group; entmax by bisection over float32's own numbers (docs/numerics.md, section 11)
/// @source Martins and Astudillo 2016, arXiv:1602.02068; Peters, Niculae and Martins 2019, arXiv:1905.05702;
///         Jang, Gu and Poole 2016, arXiv:1611.01144; Maddison, Mnih and Teh 2016, arXiv:1611.00712
///
/// parameter        | default  | unit | meaning
/// -----------------|----------|------|--------
/// temperature      | 1        | -    | T, above 0
/// kind             | standard | -    | standard, sparsemax, entmax, gumbel
/// alpha            | 1.5      | -    | with entmax: from 1 to 1000; the larger, the sparser
/// straight_through | false    | -    | with gumbel: y is 1 at the largest and 0 elsewhere, its slope the soft one
/// groups           | 1        | -    | a grid softmax: so many groups of equal width, each with a sum of one
Result<std::unique_ptr<Layer>> make_softmax(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
