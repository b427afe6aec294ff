// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/fwd.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace weft::text {

/// Special tokens of a model by their role, as texts; empty: it has none.
struct SpecialTokens {
  std::string begin, end, unknown, padding;
};

/// Adds to `to` the keys tokenizer.ggml.* of a GGUF file for a tokenizer.json: byte-level BPE whose split has a name
/// there ("gpt2"), BPE on U+2581 for spaces ("llama": a token's score is -1 less the least rank of a merge that makes
/// it, 0 of a single character, -1000 of an added token), Unigram ("t5") and WordPiece ("bert"). Ids without a token
/// are "[PAD<id>]" and unused. Both tokenizers are compared on sample texts and on texts made of the vocabulary.
/// @shape  `vocabulary`: tokens in all, as the model's embedding has rows
/// @error  unsupported: a step that the keys have no word for, naming it, or a text of which both make other ids; those
///         of Tokenizer::from_json; out_of_range: more tokens than `vocabulary`
Status add_gguf_tokenizer(std::string_view tokenizer_json, const SpecialTokens& special, std::size_t vocabulary,
                          formats::GgufMetadata& to);

/// A tokenizer.json for the keys tokenizer.ggml.* of a GGUF file, compared in the same way. Merges of "llama" are made
/// of its scores: for each token all pairs of tokens that spell it, in the order of the token's score. `special` gets
/// the tokens that the keys name.
/// @error unsupported, as add_gguf_tokenizer; those of Tokenizer::from_gguf
Result<std::string> tokenizer_json_of(const formats::GgufMetadata& from, SpecialTokens& special);

}  // namespace weft::text
