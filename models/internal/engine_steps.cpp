// SPDX-License-Identifier: Apache-2.0

#include "models/internal/engine_parts.hpp"
#include "models/internal/token_score.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

namespace weft::models {

using internal::EngineText;
using internal::score_of;

namespace {

double seconds_between(EngineText::Clock::time_point from, EngineText::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void TextEngine::Parts::finish(std::size_t at, TextChunk& part, TextChunk::End end) {
  EngineText& text = *places[at].text;
  part.end = end;
  part.text += text.stream.finish();
  const auto now = EngineText::Clock::now();
  if (text.prompted == EngineText::Clock::time_point{}) text.prompted = now;
  text.times.prompt = text.request.prompt.size();
  text.times.written = text.ids.size();
  text.times.prompt_seconds = seconds_between(text.begun, text.prompted);
  text.times.seconds = seconds_between(text.prompted, now);
  part.times = text.times;
  if (text.request.wants_state && end != TextChunk::End::failed) {
    if (can_roll_back) cut(at, places[at].taken.size());  // without guesses that are not judged yet
    part.state = batch.state_hash(at);
  }
  release(at, end != TextChunk::End::failed);
}

void TextEngine::Parts::fail_text(std::size_t at, const Status& outcome, const Give& give) {
  TextChunk part;
  part.outcome = outcome;
  finish(at, part, TextChunk::End::failed);
  give(at, std::move(part));
}

/// The stop string that the last tokens made.
std::string TextEngine::Parts::stop_of(const EngineText& text) const {
  constexpr std::size_t kLast = 256, kBefore = 8;
  const auto& prompt = text.request.prompt;
  std::vector<text::TokenId> last(prompt.end() - static_cast<std::ptrdiff_t>(std::min(prompt.size(), kBefore)),
                                  prompt.end());
  const std::size_t before = model.tokenizer->decode(last, true).size();
  last.insert(last.end(), text.ids.end() - static_cast<std::ptrdiff_t>(std::min(text.ids.size(), kLast)),
              text.ids.end());
  std::string end = model.tokenizer->decode(last, true);
  end.erase(0, before);
  for (const std::string& stop : text.request.stops)
    if (!stop.empty() && end.find(stop) != std::string::npos) return stop;
  return {};
}

namespace {

/// A failure, with what kept tokens out where none is left.
Status explained(const EngineText& text, const Error& error) {
  if (error.code() != Errc::not_found) return fail(error);
  std::string why = error.text() + text.constraint.described();
  const auto& biases = text.request.sampler.logit_bias;
  const auto banned =
      std::count_if(biases.begin(), biases.end(), [](const auto& each) { return std::isinf(each.second); });
  if (banned > 0) why += "; the logit bias bans " + std::to_string(banned);
  if (text.request.sampler.no_repeat_ngram > 0) why += "; those that repeat an n-gram are banned";
  return fail(error.code(), std::move(why));
}

}  // namespace

/// The next token of a text, from the logits after all others.
void TextEngine::Parts::write(std::size_t at, std::span<const float> logits, const Give& give) {
  EngineText& text = *places[at].text;
  const TextRequest& request = text.request;
  const Sampler::Mask mask = text.constraint.mask([this](text::TokenId each) { return is_end(each); });
  const auto id = text.sampler.pick(logits, {places[at].taken, request.prompt.size()}, mask);
  if (!id) return fail_text(at, explained(text, id.error()), give);
  TextChunk part;
  if ((text.constraint.is_on() || !request.ignores_ends) && is_end(*id)) {
    finish(at, part, TextChunk::End::end);
    return give(at, std::move(part));
  }
  if (const Status taken = text.constraint.take(*id); !taken) return fail_text(at, taken, give);
  text.ids.push_back(*id);
  part.ids.push_back(*id);
  if (request.scores) part.scores.push_back(score_of(logits, *id, request.likeliest));
  part.text = text.stream.push(*id);
  if (text.stream.is_stopped()) {
    part.stop = stop_of(text);
    finish(at, part, TextChunk::End::stop);
  } else if (text.constraint.is_closed()) {
    finish(at, part, TextChunk::End::end);
  } else if (text.ids.size() >= request.most_tokens || places[at].taken.size() >= batch.context()) {
    finish(at, part, TextChunk::End::length);
  }
  give(at, std::move(part));
}

/// The next block of a prompt, or of all that a text has so far where it lost its slot; `is_alone`: nobody waits for
/// it.
void TextEngine::Parts::read(std::size_t at, bool is_alone, const Give& give) {
  EngineText& text = *places[at].text;
  const TextRequest& request = text.request;
  const std::size_t taken = places[at].taken.size(), all = request.prompt.size();
  // Scores are told once: what was read before is read again without.
  const bool is_again = request.scores_prompt && taken < text.read;
  const bool scores = request.scores_prompt && !is_again && taken < all;
  std::size_t end =
      std::min(taken + options.block.value_or(is_alone ? std::max(kWideBlock, batch.widest_pass()) : kBlock),
               is_again ? text.read : text.to_take());
  if (scores) end = std::min(end, taken + DecodingBatch::kMostEach);
  const std::vector<text::TokenId> tokens = text.tokens(end);
  const auto now = std::span(tokens).subspan(taken);
  const bool is_last = text.ids.empty() && end == all;
  const auto taken_now = [&]() -> Result<std::span<const float>> {
    if (scores) return batch.accept_each(at, now);
    if (is_last) return batch.accept(at, now);
    WEFT_CHECK(batch.take(at, now));
    return std::span<const float>();
  };
  const auto logits = taken_now();
  if (!logits) return fail_text(at, fail(logits.error()), give);
  const auto last = is_last || scores ? logits->last(batch.vocabulary()) : *logits;
  TextChunk part;
  if (scores && taken == 0) part.scores.push_back({request.prompt[0], std::nullopt, {}});
  for (std::size_t i = 0; scores && i < now.size(); ++i) {
    const auto row = logits->subspan(i * last.size(), last.size());
    if (const Status fine = check_logits(row, taken + i); !fine) return fail_text(at, fine, give);
    if (taken + i + 1 < all) part.scores.push_back(score_of(row, request.prompt[taken + i + 1], request.likeliest));
  }
  const std::uint64_t number = text.number;
  took(at, now);
  text.read = std::max(text.read, std::min(end, all));
  if (is_last) text.prompted = EngineText::Clock::now();
  if (is_last && request.wants_features) part.features.assign(batch.features().begin(), batch.features().end());
  if (is_last && request.most_tokens == 0) {
    finish(at, part, TextChunk::End::length);
    return give(at, std::move(part));
  }
  if (!part.scores.empty() || !part.features.empty()) give(at, std::move(part));
  if (is_last && has(at, number)) write(at, last, give);
}

/// Guesses for the next pass of a text, which it shares with the other writers.
std::vector<text::TokenId> TextEngine::Parts::guess(std::size_t at, std::size_t writers) {
  EngineText& text = *places[at].text;
  const std::size_t left = text.request.most_tokens - text.ids.size(), room = batch.context() - places[at].taken.size();
  const std::size_t share = DecodingBatch::kMostTogether / writers;  // the text's last token counted in
  if (share == 0) return {};
  // A text alone has passes of a few lengths.
  const auto fit = [&](std::size_t guesses) { return writers == 1 ? DraftOptions::in_pass(guesses) : guesses; };
  const std::size_t most = fit(std::min({text.length.next(), left - 1, room - 1, share - 1}));
  if (most == 0) return {};
  const std::vector<text::TokenId> all = text.tokens(text.to_take() + 1);
  std::vector<text::TokenId> guesses;
  if (options.drafts.looks_up) guesses = repeated_after(all, most);
  if (guesses.empty() && draft) guesses = draft->guess(at, {all, text.request.prompt.size()}, text.sampler, most);
  // A draft model may have more tokens than the tokenizer.
  const auto unknown =
      std::find_if(guesses.begin(), guesses.end(), [this](text::TokenId id) { return id >= batch.vocabulary(); });
  guesses.erase(unknown, guesses.end());
  guesses.resize(fit(guesses.size()));
  return guesses;
}

/// Writes on behind a text's last token and guesses of the next ones, which a pass took. The sampler draws after each
/// as it would without them, and as long as it draws what was guessed, the logits are those of the text.
void TextEngine::Parts::judge(std::size_t at, std::span<const text::TokenId> tokens,
                              const std::function<std::span<const float>(std::size_t)>& logits, const Give& give) {
  EngineText& text = *places[at].text;
  const std::uint64_t number = text.number;
  const std::size_t guesses = tokens.size() - 1;
  text.times.guessed += guesses;
  std::size_t right = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto row = logits(i);
    took(at, {&tokens[i], 1});
    if (const Status fine = check_logits(row, places[at].taken.size() - 1); !fine) {
      fail_text(at, fine, give);
      break;
    }
    write(at, row, give);
    if (!has(at, number) || i == guesses || text.ids.back() != tokens[i + 1]) break;
    ++right;
    ++text.times.guessed_right;
  }
  if (has(at, number) && guesses > 0) text.length.tell(guesses, right);
}

/// Texts and the tokens that the next pass takes of each: the last one, and guesses.
struct TextEngine::Parts::Written {
  std::size_t at = 0;
  std::uint64_t number = 0;
  std::vector<text::TokenId> tokens;
};

/// One text alone.
void TextEngine::Parts::verify(const Written& text, const Give& give) {
  const auto logits = batch.accept_each(text.at, text.tokens);
  if (!logits) return fail_text(text.at, fail(logits.error()), give);
  const std::size_t width = batch.vocabulary();
  judge(
      text.at, text.tokens, [&](std::size_t i) { return logits->subspan(i * width, width); }, give);
  cut(text.at, places[text.at].taken.size());
}

/// Several, in one pass.
void TextEngine::Parts::verify(std::span<const Written> texts, const Give& give) {
  std::vector<DecodingBatch::Run> runs;
  for (const Written& each : texts) runs.push_back({each.at, each.tokens, {}});
  const Status done = batch.accept_together(runs);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto& [at, number, tokens] = texts[i];
    if (has(at, number)) {
      if (done)
        judge(
            at, tokens, [&](std::size_t t) { return runs[i].logits[t]; }, give);
      else
        fail_text(at, done, give);
    }
    if (done) cut(at, places[at].taken.size());  // also of a text that another one's reader has dropped
  }
}

/// The next token of each of these texts, or several where they were guessed.
void TextEngine::Parts::decode(std::span<const std::size_t> writers, const Give& give) {
  std::vector<Written> texts;
  bool is_guessed = false;
  for (const std::size_t at : writers) {
    Written& text = texts.emplace_back(Written{at, places[at].text->number, {places[at].text->ids.back()}});
    if (!options.drafts.is_on()) continue;
    const auto guesses = guess(at, writers.size());
    text.tokens.insert(text.tokens.end(), guesses.begin(), guesses.end());
    is_guessed = is_guessed || !guesses.empty();
  }
  if (is_guessed && texts.size() == 1) return verify(texts[0], give);
  if (is_guessed) return verify(texts, give);
  std::vector<DecodingBatch::Step> steps;
  for (const Written& each : texts) steps.push_back({.sequence = each.at, .id = each.tokens[0]});
  const Status done = batch.step(steps);
  for (const DecodingBatch::Step& each : steps)
    if (done) took(each.sequence, {&each.id, 1});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const DecodingBatch::Step& each = steps[i];
    if (!has(each.sequence, texts[i].number)) continue;
    if (done && each.outcome)
      write(each.sequence, each.logits, give);
    else
      fail_text(each.sequence, done ? each.outcome : done, give);
  }
}

}  // namespace weft::models
