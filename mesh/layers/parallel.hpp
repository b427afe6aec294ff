// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Layers side by side over one input, within one tick, and their outputs brought together by `merge`:
///   concat        one after the other along the last axis
///   add, avg      elementwise, of equal shapes
///   grid_scatter  branch i, of `features` values, at places[i] of a grid [z, y, x, features], zeros elsewhere
///   filter        a mixture of experts: sum over branches of p_i y_i, p = softmax of a learned gate, of every token
///                 (mesh/layers/mixture.hpp). With top_k a CPU computes an expert for the rows alone of which some
///                 token chose it, forward and backward, unless it has a hidden state or noise: that goes on with every
///                 tick. A device leaves out, of few rows, those that none chose. The bits are those of computing
///                 all. The gate's logits are W x, or, with `gate` first, what the first of the layers makes of x: any
///                 layer
/// The branches stand in the key `layers`, described as in sequential, whose rules hold here; a branch of several
/// layers is a sequential.
/// @exact  as its layers; sums in branch order
/// @error  shapes that differ, a gate that gives another number of logits than there are experts, places outside the
/// grid or taken twice, top_k above the number of experts
/// @source filter: Shazeer et al. 2017, arXiv:1701.06538, eq. 1
Result<std::unique_ptr<Layer>> make_parallel(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
