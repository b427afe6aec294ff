// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Soft assignment to learned centres: d_k = |x - c_k|^2 (or |x - c_k|), p = softmax(-d / T); gives p, or the mixture
/// f = sum_k p_k c_k, or both, p first. Each row, and each token of it, by itself. Gradients reach the centres by both
/// ways, and the input. Distances are made of the differences themselves, so centres far from zero lose no digits. At a
/// centre itself the slope of |x - c_k| by x and c_k counts as 0.
/// @shape  x [rows, ..., features], centres [clusters, features] -> y [rows, ..., clusters | features | their sum]
/// @exact  same bits on every ISA, thread count and batch (docs/numerics.md, Distances)
/// @source MacKay 2003, "Information Theory, Inference, and Learning Algorithms", algorithm 20.7 (soft k-means)
Result<std::unique_ptr<Layer>> make_kmeans(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
