// SPDX-License-Identifier: Apache-2.0

#include "models/text_engine.hpp"

#include "models/decoding_batch.hpp"
#include "models/token_constraint.hpp"

#include "text/token_stream.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/math.hpp"

#include <algorithm>
#include <chrono>
#include <span>

namespace weft::models {
namespace {

using SlotClock = std::chrono::steady_clock;

double seconds_between(SlotClock::time_point from, SlotClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Logarithms of shares: a logit less this.
float log_total(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float logit : logits) total += static_cast<double>(kernels::math::exp(logit - largest));
  return largest + kernels::math::log(static_cast<float>(total));
}

TokenScore score_of(std::span<const float> logits, text::TokenId id, std::size_t likeliest) {
  const kernels::FlushSubnormals exact;
  const float total = log_total(logits);
  TokenScore score{id, logits[id] - total, {}};
  std::vector<text::TokenId> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<text::TokenId>(i);
  const auto most = static_cast<std::ptrdiff_t>(std::min(likeliest, order.size()));
  std::partial_sort(order.begin(), order.begin() + most, order.end(), [&](text::TokenId a, text::TokenId b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  for (auto each = order.begin(); each != order.begin() + most; ++each)
    score.likeliest.push_back({*each, logits[*each] - total});
  return score;
}

}  // namespace

struct TextEngine::Parts {
  Parts(const LanguageModel& of, DecodingBatch to) : model(of), batch(std::move(to)), bytes(*of.tokenizer) {}

  struct Text {
    Text(const text::Tokenizer& tokenizer, TokenBytes& bytes, TextRequest of)
        : request(std::move(of)),
          sampler(request.sampler),
          stream(tokenizer, request.prompt, request.stops),
          constraint(request.grammar, bytes) {}

    TextRequest request;
    Sampler sampler;
    text::TokenStream stream;
    TokenConstraint constraint;
    std::vector<text::TokenId> ids{};  // that were written; the last is not taken yet
    std::size_t read = 0;              // tokens of the prompt that were taken
    std::uint64_t number = 0;
    bool is_paused = false;
    TextTimes times{};
    SlotClock::time_point begun = SlotClock::now(), prompted{};

    bool is_reading() const noexcept { return read < request.prompt.size(); }
  };
  struct Place {
    std::optional<Text> text{};
    std::vector<text::TokenId> taken{};  // by the sequence
    std::uint64_t used = 0;
  };
  using Give = std::function<void(std::size_t, TextChunk)>;

  const LanguageModel& model;
  DecodingBatch batch;
  TokenBytes bytes;
  std::vector<Place> places{};
  std::uint64_t next_number = 1;

  bool goes_on_from(const Place& place, const TextRequest& request) const;
  std::size_t best_place(const TextRequest& request) const;
  void release(std::size_t at, bool is_whole);
  void finish(std::size_t at, TextChunk& part, TextChunk::End end);
  void fail_text(std::size_t at, const Status& outcome, const Give& give);
  void write(std::size_t at, std::span<const float> logits, const Give& give);
  void read(std::size_t at, const Give& give);
  bool score_prompt(std::size_t at, std::span<const text::TokenId> now, TextChunk& part, const Give& give);
  std::string stop_of(const Text& text) const;
  bool is_end(text::TokenId id) const {
    return std::find(model.ends.begin(), model.ends.end(), id) != model.ends.end();
  }
};

bool TextEngine::Parts::goes_on_from(const Place& place, const TextRequest& request) const {
  const auto& taken = place.taken;
  return request.reuses && !request.scores_prompt && !taken.empty() && taken.size() < request.prompt.size() &&
         std::equal(taken.begin(), taken.end(), request.prompt.begin());
}

/// The free place with the longest beginning of the prompt, else the one that was used longest ago.
std::size_t TextEngine::Parts::best_place(const TextRequest& request) const {
  std::size_t best = places.size(), length = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].text) continue;
    const std::size_t match = goes_on_from(places[i], request) ? places[i].taken.size() : 0;
    if (best == places.size() || match > length || (match == length && places[i].used < places[best].used))
      best = i, length = match;
  }
  return best;
}

void TextEngine::Parts::release(std::size_t at, bool is_whole) {
  places[at].text.reset();
  places[at].used = next_number;
  if (!is_whole) places[at].taken.clear();
}

void TextEngine::Parts::finish(std::size_t at, TextChunk& part, TextChunk::End end) {
  Text& text = *places[at].text;
  part.end = end;
  part.text += text.stream.finish();
  const auto now = SlotClock::now();
  if (text.prompted == SlotClock::time_point{}) text.prompted = now;
  text.times.prompt = text.request.prompt.size();
  text.times.written = text.ids.size();
  text.times.prompt_seconds = seconds_between(text.begun, text.prompted);
  text.times.seconds = seconds_between(text.prompted, now);
  part.times = text.times;
  release(at, end != TextChunk::End::failed);
}

void TextEngine::Parts::fail_text(std::size_t at, const Status& outcome, const Give& give) {
  TextChunk part;
  part.outcome = outcome;
  finish(at, part, TextChunk::End::failed);
  give(at, std::move(part));
}

/// The stop string that the last tokens made.
std::string TextEngine::Parts::stop_of(const Text& text) const {
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

/// The next token of a text, from the logits after all others.
void TextEngine::Parts::write(std::size_t at, std::span<const float> logits, const Give& give) {
  Text& text = *places[at].text;
  const TextRequest& request = text.request;
  const Sampler::Mask mask = text.constraint.mask([this](text::TokenId each) { return is_end(each); });
  const auto id = text.sampler.pick(logits, {places[at].taken, request.prompt.size()}, mask);
  if (!id) return fail_text(at, fail(id.error()), give);
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
  } else if (text.ids.size() >= request.most_tokens || batch.position(at) >= batch.context()) {
    finish(at, part, TextChunk::End::length);
  }
  give(at, std::move(part));
}

/// Takes tokens of the prompt one by one, and tells the score of each; false: it failed.
bool TextEngine::Parts::score_prompt(std::size_t at, std::span<const text::TokenId> now, TextChunk& part,
                                     const Give& give) {
  Text& text = *places[at].text;
  const std::vector<text::TokenId>& prompt = text.request.prompt;
  if (text.read == 0) part.scores.push_back({prompt[0], std::nullopt, {}});
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (text.read + i + 1 == prompt.size()) return true;  // the last one is taken by the caller
    const auto logits = batch.accept(at, now.subspan(i, 1));
    if (!logits) {
      fail_text(at, fail(logits.error()), give);
      return false;
    }
    part.scores.push_back(score_of(*logits, prompt[text.read + i + 1], text.request.likeliest));
  }
  return true;
}

/// The next block of a prompt.
void TextEngine::Parts::read(std::size_t at, const Give& give) {
  Text& text = *places[at].text;
  const TextRequest& request = text.request;
  std::span<const text::TokenId> now = std::span(request.prompt).subspan(text.read);
  now = now.first(std::min(now.size(), kBlock));
  const bool is_last = text.read + now.size() == request.prompt.size();
  TextChunk part;
  std::span<const text::TokenId> rest = now;
  if (request.scores_prompt) {
    if (!score_prompt(at, now, part, give)) return;
    rest = is_last ? now.last(1) : now.last(0);
  }
  std::span<const float> logits;
  if (!rest.empty()) {
    const auto taken = batch.accept(at, rest);
    if (!taken) return fail_text(at, fail(taken.error()), give);
    logits = *taken;
  }
  auto& all = places[at].taken;
  all.insert(all.end(), now.begin(), now.end());
  text.read += now.size();
  if (is_last) text.prompted = SlotClock::now();
  if (is_last && request.wants_features) part.features.assign(batch.features().begin(), batch.features().end());
  if (is_last && request.most_tokens == 0) {
    finish(at, part, TextChunk::End::length);
    return give(at, std::move(part));
  }
  if (!part.scores.empty()) give(at, std::move(part));
  if (is_last) write(at, logits, give);
}

TextEngine::TextEngine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TextEngine::TextEngine(TextEngine&&) noexcept = default;
TextEngine& TextEngine::operator=(TextEngine&&) noexcept = default;
TextEngine::~TextEngine() = default;

Result<TextEngine> TextEngine::make(const LanguageModel& model, const Options& options) {
  std::size_t context = options.context;
  if (context == 0) context = std::min(model.context ? model.context : kUsualContext, kUsualContext);
  if (model.context && context > model.context)
    return fail(Errc::full, "a context of " + std::to_string(context) + " tokens is above the " +
                                std::to_string(model.context) + " that the model was made for");
  WEFT_TRY(DecodingBatch batch, DecodingBatch::begin(*model.mesh, options.slots, context, options.max_memory));
  auto parts = std::make_unique<Parts>(model, std::move(batch));
  parts->places.resize(options.slots);
  return TextEngine(std::move(parts));
}

std::size_t TextEngine::context() const noexcept { return parts_->batch.context(); }
std::size_t TextEngine::slots() const noexcept { return parts_->places.size(); }
std::size_t TextEngine::features() const noexcept { return parts_->batch.features().size(); }
std::size_t TextEngine::free_slots() const noexcept {
  return static_cast<std::size_t>(std::count_if(parts_->places.begin(), parts_->places.end(),
                                                [](const Parts::Place& each) { return !each.text.has_value(); }));
}

TextEngine::Slot TextEngine::slot(std::size_t slot) const noexcept {
  const auto& text = parts_->places[slot].text;
  const std::size_t position = parts_->batch.position(slot);
  if (!text) return {false, false, position, 0, 0, 0};
  return {true, text->is_reading(), position, text->request.prompt.size(), text->ids.size(), text->request.most_tokens};
}

Status TextEngine::check(const TextRequest& request) const {
  if (request.prompt.empty()) return fail(Errc::invalid_argument, "the prompt has no tokens");
  for (const text::TokenId id : request.prompt)
    if (id >= parts_->batch.vocabulary())
      return fail(Errc::out_of_range,
                  "token " + std::to_string(id) + ", the model has " + std::to_string(parts_->batch.vocabulary()));
  const std::size_t most = context() + (request.most_tokens == 0 ? 1 : 0);
  if (request.prompt.size() < most) return {};
  return fail(Errc::full, "the prompt has " + std::to_string(request.prompt.size()) + " tokens, the context " +
                              std::to_string(context()) + "; nothing can be written");
}

Result<std::size_t> TextEngine::begin(TextRequest request) {
  WEFT_CHECK(check(request));
  Parts& p = *parts_;
  const std::size_t at = p.best_place(request);
  if (at == p.places.size()) return fail(Errc::full, "all " + std::to_string(at) + " slots write texts");
  Parts::Place& place = p.places[at];
  const std::size_t cached = p.goes_on_from(place, request) ? place.taken.size() : 0;
  if (cached == 0) {
    p.batch.restart(at);
    place.taken.clear();
  }
  place.text.emplace(*p.model.tokenizer, p.bytes, std::move(request));
  place.text->number = p.next_number++;
  place.text->read = place.text->times.cached = cached;
  return at;
}

void TextEngine::drop(std::size_t slot) {
  if (parts_->places[slot].text) parts_->release(slot, true);
}

void TextEngine::pause(std::size_t slot, bool is_paused) {
  if (auto& text = parts_->places[slot].text) text->is_paused = is_paused;
}

void TextEngine::forget() {
  for (Parts::Place& each : parts_->places)
    if (!each.text) each.taken.clear();
}

bool TextEngine::step(const std::function<void(std::size_t, TextChunk)>& give) {
  Parts& p = *parts_;
  std::vector<DecodingBatch::Step> steps;
  std::size_t reading = p.places.size();
  for (std::size_t i = 0; i < p.places.size(); ++i) {
    const auto& text = p.places[i].text;
    if (!text || text->is_paused) continue;
    if (!text->is_reading())
      steps.push_back({i, text->ids.back()});
    else if (reading == p.places.size() || text->number < p.places[reading].text->number)
      reading = i;
  }
  if (!steps.empty()) {
    const Status done = p.batch.step(steps);
    for (const DecodingBatch::Step& each : steps) {
      p.places[each.sequence].taken.push_back(each.id);
      if (done && each.outcome)
        p.write(each.sequence, each.logits, give);
      else
        p.fail_text(each.sequence, done ? each.outcome : done, give);
    }
  }
  if (reading < p.places.size()) p.read(reading, give);
  return !steps.empty() || reading < p.places.size();
}

}  // namespace weft::models
