// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// A softmax over many classes of which few are frequent: the classes, frequent ones first, are cut into a head and
/// clusters at `cutoffs`. The head is one matrix over its classes and one more entry for each cluster; cluster i is two
/// matrices by way of in / div_value^(i+1) values.
///   log p(class) = head[class], or head[cluster] + log softmax(W_i P_i x)[class] with head = log softmax(W x)
/// All classes come out. Give log_probabilities (as PyTorch's log_prob) to a cross_entropy loss: their softmax is
/// themselves.
/// @shape  x [rows, ..., in] -> y [rows, ..., out]; head [cutoffs[0] + clusters, in]
/// @exact  rules R1 and R2 (docs/numerics.md)
/// @source Grave, Joulin, Cisse, Grangier and Jegou 2017, "Efficient softmax approximation for GPUs", arXiv:1609.04309
Result<std::unique_ptr<Layer>> make_adaptive_softmax(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
