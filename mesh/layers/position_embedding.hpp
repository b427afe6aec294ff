// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// A learned vector for each position, added: y[t] = x[t] + table[p + t]. Without `stateful` p is 0 in every tick; with
/// it a session's hidden state counts the tokens that it has had. Positions past the table take its last entry.
/// The table is [features, positions], as that of embedding.
/// @shape  x [d] or [tokens, d] -> y as x; state [1] with `stateful`
/// @error  shape_mismatch: an input of three axes, or of more tokens than there are positions
/// @exact  moves and one addition an element
/// @source Gehring et al. 2017, arXiv:1705.03122, section 3.1; Radford et al. 2019 (GPT-2)
Result<std::unique_ptr<Layer>> make_position_embedding(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
