// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// K softmaxes over the same classes and one weight for each, so that log y is not bound to the rank of one matrix:
///   y = sum_k pi_k softmax(W h_k + b),  h_k = tanh(V_k x + v_k),  pi = softmax(U x)
/// Give log_probabilities to a cross_entropy loss: their softmax is themselves. They are log(max(y, 2^-126)).
/// @shape  x [rows, ..., in] -> y [rows, ..., out]; prior U [K, in], contexts V [K hidden, in], output W [out, hidden]
/// @exact  rules R1 and R2; the mixture is summed over k ascending (docs/numerics.md)
/// @source Yang, Dai, Salakhutdinov and Cohen 2018, "Breaking the softmax bottleneck", arXiv:1711.03953, section 2.3
Result<std::unique_ptr<Layer>> make_mixture_of_softmaxes(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
