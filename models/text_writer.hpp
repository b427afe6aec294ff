// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/language_model.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace weft::models {

/// Texts one after another. Where a prompt begins with all tokens that were taken before, as the next turn of a
/// conversation does, their keys and values stay; else they are forgotten, and the prompt is computed from its
/// beginning.
/// @exact  texts are those of `generate`, whatever was written before
/// @thread one at a time; the model outlives it
class TextWriter {
 public:
  /// @error as Decoding::begin; full: a context above the model's
  static Result<TextWriter> begin(const LanguageModel& model, std::size_t context, std::uint64_t max_memory = 0);
  std::size_t context() const noexcept { return decoding_.context(); }

  /// Writes on from tokens; `give` gets the text as it becomes certain, whole characters only.
  /// @error as `generate`
  Result<Generated> write(std::vector<text::TokenId> prompt, const GenerateOptions& options,
                          const std::function<Status(std::string_view)>& give);

 private:
  TextWriter(const LanguageModel& model, Decoding decoding) : model_(&model), decoding_(std::move(decoding)) {}
  Status take_prompt(Generated& made, const GenerateOptions& options);
  Status take(std::span<const text::TokenId> ids);
  bool ends(text::TokenId id) const;

  const LanguageModel* model_;
  Decoding decoding_;
  std::vector<text::TokenId> taken_;
  std::span<const float> logits_;
};

}  // namespace weft::models
