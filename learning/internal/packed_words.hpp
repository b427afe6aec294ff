// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Words of which many are alike, such as places of a reservoir that nothing was stored in, in fewer of 64 bits: the
/// number of words, then records of a count of words, these two by two (the last one beside a zero where the count is
/// odd), a count of repetitions, and the word that is repeated so often. Blocks of 64 words are repetitions or are not.
/// `packed` is overwritten; it stays smaller than `words` by half, or is empty.
void pack_words(std::span<const std::uint32_t> words, std::vector<std::uint64_t>& packed);

/// The first `count` of them, of `total` words.
/// @error shape_mismatch: they are another number; corrupt: what it holds are no words that were packed so
Result<std::vector<std::uint32_t>> unpack_words(std::span<const std::uint64_t> packed, std::size_t count,
                                                std::size_t total);

}  // namespace weft::learning
