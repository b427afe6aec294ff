// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/text_engine.hpp"

#include "text/tokenizer.hpp"

#include <cstddef>
#include <span>

namespace weft::models::internal {

/// The logarithm of a token's probability, and of the `likeliest` tokens' (ties: the lower id).
TokenScore score_of(std::span<const float> logits, text::TokenId id, std::size_t likeliest);

}  // namespace weft::models::internal
