// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// While training, each value is 0 with probability `rate` and x / (1 - rate) else; otherwise y = x. What is dropped is
/// kept for backward, which drops the same.
///
/// Training is a matter of the firing, not of the network: rows that a learner will learn from are dropped
/// (`ForwardArgs::training_rows`), all others are not: ticks and runs without a learner, passes (`Mesh::forward`), held
/// copies (evaluation), unlabelled samples, and sessions that are no learners. A sample that is scored and then learned
/// from is scored with dropout, since it is computed once; scores without it come from evaluation.
///
/// Each session draws its own mask, another each tick, of the network's seed, the layer's place, the session's stream
/// number and the number of its draws; only what is dropped draws. The last two are hidden state, as with gumbel
/// (mesh/layers/softmax.hpp).
/// @shape  x [rows, ...] -> y as x; state [rows, 4]
/// @exact  same bits on every ISA, thread count and batch (docs/numerics.md, section 11)
/// @source Srivastava et al. 2014, "Dropout", JMLR 15, scaled while training ("inverted")
Result<std::unique_ptr<Layer>> make_dropout(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
