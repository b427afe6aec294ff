// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/attention.hpp"
#include "kernels/fwd.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft::kernels {

/// Functions of a session's hidden state (attention_state_size) that has taken at most as many tokens as its context
/// holds: position p stands in slot p, and nothing was overwritten.
/// @thread any; reads and writes the state of one session

/// Sets how many tokens the state has taken, by operations of the stream. What those from `tokens` on left stays where
/// it is, and takes no part in anything that follows.
void attention_cut(OpStream& stream, std::size_t tokens, float* state);

/// Floats of the keys and values of `tokens` tokens: for each kv head keys in panels of 16, [tokens up to 16s / 16]
/// [head_dim][16] with zeros in places of no token, then values [tokens][head_dim up to 16s].
std::size_t attention_saved_size(const AttentionShape& shape, std::size_t tokens) noexcept;
/// Copies the keys and values of tokens `first` to `first` + `tokens` out of a state, and back into one, whose count of
/// tokens stays as it is.
/// @pre `first` is a multiple of 16; the context holds first + tokens
void attention_save(const AttentionShape& shape, const float* state, std::size_t first, std::size_t tokens,
                    float* to) noexcept;
void attention_load(const AttentionShape& shape, const float* from, std::size_t first, std::size_t tokens,
                    float* state) noexcept;
/// Calls visit(first float, floats) for each part of a state that such tokens left: the count, and of each kv head
/// whole panels of keys, and values.
void attention_places(const AttentionShape& shape, std::size_t first, std::size_t tokens,
                      const std::function<void(std::size_t, std::size_t)>& visit);

}  // namespace weft::kernels
