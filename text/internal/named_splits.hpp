// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"

#include <span>
#include <string_view>

namespace weft::text {

/// A row for each value of tokenizer.ggml.pre, of tokens that are written in letters for bytes.
struct NamedSplit {
  std::string_view name;
  std::string_view expression;  // empty: of ByteLevel alone
  bool digits_first = false;    // each digit by itself before all else
  bool is_composed = false;     // NFC before all else
  bool keeps_whole = false;     // a fragment that is a token is that token
  bool adds_begin = false;      // where add_bos_token does not say
};
std::span<const NamedSplit> named_splits() noexcept;

/// The pre-tokenizer that a split stands for, as a tokenizer.json has it.
Json pre_tokenizer_json(const NamedSplit& split);

/// Spaces around a text.
inline constexpr std::string_view kOuterSpaces = R"(\A +| +\z)";

/// Steps of SentencePiece's tokenizers as a tokenizer.json has them: white space as U+2581, one before the text where
/// `adds_space`; and back.
Json metaspace_normalizer_json(bool adds_space);
Json metaspace_decoder_json(bool adds_space);

}  // namespace weft::text
