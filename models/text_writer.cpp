// SPDX-License-Identifier: Apache-2.0

#include "models/text_writer.hpp"

#include <utility>

namespace weft::models {
namespace {

std::string_view end_of(TextChunk::End end) {
  switch (end) {
    case TextChunk::End::end:
      return "end";
    case TextChunk::End::stop:
      return "stop";
    case TextChunk::End::dropped:
      return "interrupted";
    default:
      return "length";
  }
}

}  // namespace

Result<TextWriter> TextWriter::begin(const LanguageModel& model, const GenerateOptions& options) {
  TextEngine::Options engine{.slots = 1, .context = options.context, .max_memory = options.max_memory};
  engine.prefix_cache = 0;  // the slot has it
  engine.drafts = options.drafts;
  WEFT_TRY(TextEngine made, TextEngine::make(model, engine));
  return TextWriter(std::move(made));
}

Result<Generated> TextWriter::write(std::vector<text::TokenId> prompt, const GenerateOptions& options,
                                    const std::function<Status(std::string_view)>& give) {
  Generated made;
  made.prompt = prompt;
  TextRequest request;
  request.prompt = std::move(prompt);
  request.sampler = options.sampler;
  request.most_tokens = options.most_tokens;
  request.stops = options.stops;
  request.grammar = options.grammar;
  request.ignores_ends = options.ignores_ends;
  WEFT_TRY(const std::size_t slot, engine_.begin(std::move(request)));
  Status outcome;
  TextChunk::End end = TextChunk::End::none;
  const auto take = [&](TextChunk part) {
    made.ids.insert(made.ids.end(), part.ids.begin(), part.ids.end());
    made.text += part.text;
    end = part.end;
    if (!part.outcome) outcome = std::move(part.outcome);
    if (outcome && !part.text.empty()) outcome = give(part.text);
    if (end != TextChunk::End::none) made.times = part.times;
  };
  while (end == TextChunk::End::none) {
    if (!outcome || (options.is_stopped && options.is_stopped()))
      take(engine_.drop(slot));
    else
      engine_.step([&](std::size_t, TextChunk part) { take(std::move(part)); });
  }
  WEFT_CHECK(outcome);
  made.end = end_of(end);
  return made;
}

}  // namespace weft::models
