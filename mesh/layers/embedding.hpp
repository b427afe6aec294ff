// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// A row of a table for each index: y[t] = scale table[x[t]].
/// The table stands with its features as outputs and its entries as inputs, as the matrix of a dense layer that is
/// given one-hot vectors: so an entry is read line by line. Types with scales have them per feature (channel) or per 32
/// entries of a feature (block32). The mesh refuses other inputs than whole numbers in [0, vocabulary); the op takes a
/// fraction for the number below it and numbers outside for the nearest entry (NaN: the first). No gradient goes to the
/// input.
/// With `weight` the table is another layer's matrix, such as that of a language model's head; gradients of both add
/// up.
/// @shape  x [1] -> y [out]; x [tokens] -> y [tokens, out]
/// @error  parse_failed without `out` or `vocabulary`; shape_mismatch: an input of several axes
/// @exact  moves, or one decoding a value; gradients are added token after token
/// @source PyTorch 1.13's torch.nn.Embedding
Result<std::unique_ptr<Layer>> make_embedding(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
