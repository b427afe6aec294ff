// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/fwd.hpp"
#include "text/vocabulary.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::text {

struct EncodeOptions {
  /// The tokens that a model expects around a text, such as one that begins it.
  bool add_special = true;
  /// Special tokens that are spelled out in the text become those tokens. False for text of strangers.
  bool parse_special = true;
  /// Bytes [first, second), ascending and apart, whose special tokens stay text, as RenderedChat::given. The ids of all
  /// else are the same as without them. @pre the text is UTF-8
  std::span<const std::pair<std::size_t, std::size_t>> plain{};
};

/// Text to the ids of a language model's tokens and back: added tokens, normalizer, pre-tokenizer, model,
/// post-processor, decoder, each as the model's file says.
/// @exact  the ids of the Rust tokenizers 0.23 (from a tokenizer.json), of llama.cpp 0.5 (from a GGUF file), on every
///         machine
/// @thread any: immutable
class Tokenizer {
 public:
  /// A tokenizer.json. Its truncation and padding are not applied.
  /// @error parse_failed, too_large (128 MiB), duplicate_name, not_found: a file that is not as documented;
  ///        unsupported: a step that is not known, naming it
  static Result<Tokenizer> from_json(std::string_view json, std::string_view source_name = "tokenizer.json");
  /// Keys tokenizer.ggml.* of a GGUF file (docs/formats/tokenizer.md).
  /// @error not_found: a key that its kind needs; unsupported: a model or split that is not known, naming it;
  ///        parse_failed, corrupt, duplicate_name, out_of_range, too_large: values that are not as documented
  static Result<Tokenizer> from_gguf(const formats::GgufMetadata& metadata, std::string_view source_name = "gguf");

  /// Bytes that are no UTF-8 are read as U+FFFD.
  /// @error too_large: a text of more than 64 MiB, or that the normalizer makes so long, or that the pre-tokenizer's
  ///        steps make far longer, naming the step; a match that takes too long
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Always UTF-8. Ids that stand for nothing are passed over.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  /// The bytes that a token adds to a text that has begun; they may begin or end inside a character. Empty for ids that
  /// stand for nothing.
  std::string token_bytes(TokenId id) const;

  std::optional<TokenId> find(std::string_view token) const;
  /// A token as the file spells it; null for ids that stand for nothing.
  const std::string* token(TokenId id) const noexcept;
  bool is_special(TokenId id) const noexcept;
  /// One more than the highest id.
  std::size_t size() const noexcept;

  struct Parts;

 private:
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

}  // namespace weft::text
