// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/language_model.hpp"
#include "models/text_engine.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::models {

/// Texts one after another, by an engine of one slot. Tokens that a prompt begins with and that the last text had too
/// stay, as in the next turn of a conversation; the rest is computed.
/// @exact  texts are those of `generate`, whatever was written before
/// @thread one at a time; the model and the draft model outlive it
class TextWriter {
 public:
  /// Of `options` its context, memory and drafts are looked at; a context of 0 is the model's, as TextEngine has it.
  /// @error as TextEngine::make
  static Result<TextWriter> begin(const LanguageModel& model, const GenerateOptions& options);
  std::size_t context() const noexcept { return engine_.context(); }

  /// Writes on from tokens; `give` gets the text as it becomes certain, whole characters only.
  /// @error as `generate`
  Result<Generated> write(std::vector<text::TokenId> prompt, const GenerateOptions& options,
                          const std::function<Status(std::string_view)>& give);

 private:
  explicit TextWriter(TextEngine engine) : engine_(std::move(engine)) {}

  TextEngine engine_;
};

}  // namespace weft::models
