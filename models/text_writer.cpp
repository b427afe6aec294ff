// SPDX-License-Identifier: Apache-2.0

#include "models/text_writer.hpp"

#include "models/token_constraint.hpp"

#include "text/token_stream.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace weft::models {
namespace {

/// Tokens of a prompt between looks at whether somebody wants it to stop.
constexpr std::size_t kLook = 64;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

bool TextWriter::ends(text::TokenId id) const {
  return std::find(model_->ends.begin(), model_->ends.end(), id) != model_->ends.end();
}

Result<TextWriter> TextWriter::begin(const LanguageModel& model, std::size_t context, std::uint64_t max_memory) {
  if (model.context && context > model.context)
    return fail(Errc::full, "a context of " + std::to_string(context) + " tokens is above the " +
                                std::to_string(model.context) + " that the model was made for");
  WEFT_TRY(Decoding decoding, Decoding::begin(*model.mesh, context, max_memory));
  return TextWriter(model, std::move(decoding));
}

Status TextWriter::take(std::span<const text::TokenId> ids) {
  auto logits = decoding_.accept(ids);
  if (!logits) {
    taken_.clear();
    decoding_.restart();
    return fail(std::move(logits).error());
  }
  logits_ = *logits;
  taken_.insert(taken_.end(), ids.begin(), ids.end());
  return {};
}

/// Tokens that were not taken yet, by parts. Where it is to stop, `made.end` says so.
Status TextWriter::take_prompt(Generated& made, const GenerateOptions& options) {
  const std::span<const text::TokenId> prompt = made.prompt;
  const bool goes_on = taken_.size() < prompt.size() && std::equal(taken_.begin(), taken_.end(), prompt.begin());
  if (!goes_on) {
    taken_.clear();
    decoding_.restart();
  }
  made.reused = taken_.size();
  while (taken_.size() < prompt.size()) {
    if (options.is_stopped && options.is_stopped()) {
      made.end = "interrupted";
      return {};
    }
    WEFT_CHECK(take(prompt.subspan(taken_.size(), std::min(kLook, prompt.size() - taken_.size()))));
  }
  return {};
}

Result<Generated> TextWriter::write(std::vector<text::TokenId> prompt, const GenerateOptions& options,
                                    const std::function<Status(std::string_view)>& give) {
  Generated made;
  made.prompt = std::move(prompt);
  if (made.prompt.empty()) return fail(Errc::invalid_argument, "the prompt has no tokens; give it a text");
  if (made.prompt.size() >= context())
    return fail(Errc::full, "the prompt has " + std::to_string(made.prompt.size()) + " tokens, the context " +
                                std::to_string(context()) + "; nothing can be written");
  for (const auto& [id, bias] : options.sampler.logit_bias)
    if (id >= decoding_.vocabulary())
      return fail(Errc::out_of_range, "logit bias: token " + std::to_string(id) + ", the model has " +
                                          std::to_string(decoding_.vocabulary()));
  Sampler sampler(options.sampler);
  text::TokenStream stream(*model_->tokenizer, made.prompt, options.stops);
  const auto start = std::chrono::steady_clock::now();
  made.end = "length";
  WEFT_CHECK(take_prompt(made, options));
  made.prompt_seconds = seconds_since(start);
  const auto emit = [&](const std::string& text) -> Status {
    made.text += text;
    return text.empty() ? Status() : give(text);
  };
  TokenBytes bytes(*model_->tokenizer);
  TokenConstraint constraint(options.grammar, bytes);
  const Sampler::Mask mask = constraint.mask([this](text::TokenId id) { return ends(id); });
  std::vector<text::TokenId> all = made.prompt;
  const auto begun = std::chrono::steady_clock::now();
  while (made.end != "interrupted" && made.ids.size() < options.most_tokens) {
    WEFT_TRY(const text::TokenId id, sampler.pick(logits_, {all, made.prompt.size()}, mask));
    if (ends(id) && (mask || !options.ignores_ends)) {
      made.end = "end";
      break;
    }
    made.ids.push_back(id);
    all.push_back(id);
    WEFT_CHECK(constraint.take(id));
    WEFT_CHECK(emit(stream.push(id)));
    if (stream.is_stopped() || constraint.is_closed()) {
      made.end = stream.is_stopped() ? "stop" : "end";
      break;
    }
    if (made.ids.size() == options.most_tokens || decoding_.position() == context()) break;
    if (options.is_stopped && options.is_stopped()) {
      made.end = "interrupted";
      break;
    }
    WEFT_CHECK(take({&id, 1}));
  }
  WEFT_CHECK(emit(stream.finish()));
  made.seconds = seconds_since(begun);
  return made;
}

}  // namespace weft::models
