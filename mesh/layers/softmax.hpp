// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Weights that sum to one, along the last axis or along each of its groups: with `standard`,
/// y = exp(x / T) / sum exp(x / T); `sparsemax` is the nearest point of the simplex to x / T, zero for all that is far
/// below the largest; `entmax` lies between them (alpha 1 is standard, 2 sparsemax) and beyond; `gumbel` is standard
/// with noise added to x, which makes it a draw from softmax(x), the more one-hot the smaller T; `grid` is standard
/// over other axes, all that `axes` names together; `masked` is standard over the entries whose `mask` is 1: the others
/// are exactly 0, and so is their slope. The gradient carries the 1/T. A mask of each sample is a second source, added
/// to the logits (`combine: add`): 0 where an entry counts, -1e30 where it does not, and there y is exactly 0 while
/// some entry of the group counts.
///
/// `hierarchical`: `branches` [a, b, c] is a tree of a b c classes: a root with a children, each of them with b, each
/// of those with c. x holds a logit for each child of each node, level by level: [a], then [a][b], then [a][b][c]. Each
/// node's children get a softmax, and y [a][b][c] is the product along the path from the root, so y sums to one and one
/// class costs a + b + c exponentials, not a b c.
///
/// Each session draws its own noise, a function of the network's seed, the layer's place, the session's index when it
/// first drew, and the number of its draws. The last two are hidden state: a saved session goes on with the noise it
/// would have met, elsewhere too; a copy draws what the original draws. A reset one starts its own again. A session
/// that is added later has noise that none before it had. In a pass without sessions (`Mesh::forward`) row b draws as
/// session b does at its first tick.
/// @shape  x [rows, ..., in] -> y as x, hierarchical [rows, ..., leaves]; state of gumbel [rows, 4]
/// @exact  rule R2 along each group; entmax by bisection over float32's own numbers (docs/numerics.md, section 11)
/// @source Martins and Astudillo 2016, arXiv:1602.02068; Peters, Niculae and Martins 2019, arXiv:1905.05702;
///         Jang, Gu and Poole 2016, arXiv:1611.01144; Maddison, Mnih and Teh 2016, arXiv:1611.00712;
///         Morin and Bengio 2005, "Hierarchical probabilistic neural network language model", eq. 3
Result<std::unique_ptr<Layer>> make_softmax(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
