// SPDX-License-Identifier: Apache-2.0

#include "models/text_engine.hpp"

#include "models/decoding_batch.hpp"
#include "models/internal/engine_text.hpp"
#include "models/internal/token_score.hpp"
#include "models/prefix_cache.hpp"

#include "mesh/memory/memory_estimate.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <span>
#include <tuple>

namespace weft::models {
namespace {

using internal::EngineSlot;
using internal::EngineText;
using internal::score_of;
using SlotClock = EngineText::Clock;

double seconds_between(SlotClock::time_point from, SlotClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

struct TextEngine::Parts {
  Parts(const LanguageModel& of, DecodingBatch to, const Options& with)
      : model(of), batch(std::move(to)), options(with), places(with.slots) {}

  using Give = std::function<void(std::size_t, TextChunk)>;

  const LanguageModel& model;
  DecodingBatch batch;
  const Options options;
  TokenBytes bytes{*model.tokenizer};
  std::vector<EngineSlot> places;
  std::optional<PrefixCache> cache{};
  std::optional<DraftModel> draft{};
  bool can_roll_back = false;
  std::uint64_t next_number = 1;

  Status make_cache();
  /// @pre can_roll_back; the sequence has taken as many
  void cut(std::size_t at, std::size_t tokens) {
    const Status done = batch.roll_back(at, tokens);
    WEFT_ASSERT(done, done.error().text());
  }
  std::size_t shared_start(const EngineSlot& place, const EngineText& text) const;
  std::size_t best_place(const EngineText& text) const;
  std::size_t put(std::unique_ptr<EngineText> text);
  void took(std::size_t at, std::span<const text::TokenId> ids);
  void release(std::size_t at, bool is_whole);
  void finish(std::size_t at, TextChunk& part, TextChunk::End end);
  void fail_text(std::size_t at, const Status& outcome, const Give& give);
  void write(std::size_t at, std::span<const float> logits, const Give& give);
  void read(std::size_t at, bool is_alone, const Give& give);
  void decode(std::span<const std::size_t> writers, const Give& give);
  std::vector<text::TokenId> guess(std::size_t at, std::size_t writers);
  void verify(std::size_t at, const std::vector<text::TokenId>& guesses, const Give& give);
  std::string stop_of(const EngineText& text) const;
  bool is_end(text::TokenId id) const {
    return std::find(model.ends.begin(), model.ends.end(), id) != model.ends.end();
  }
  /// True while the text of this number has the slot: whoever was given a part may have dropped it.
  bool has(std::size_t at, std::uint64_t number) const { return places[at].text && places[at].text->number == number; }
};

/// Tokens of a place that a text may go on from.
std::size_t TextEngine::Parts::shared_start(const EngineSlot& place, const EngineText& text) const {
  if (!text.request.reuses || !place.is_shareable || place.tenant != text.request.tenant) return 0;
  const std::vector<text::TokenId> wanted = text.tokens(text.most_reused());
  const auto ends = std::mismatch(place.taken.begin(), place.taken.end(), wanted.begin(), wanted.end());
  const auto same = static_cast<std::size_t>(ends.first - place.taken.begin());
  return can_roll_back || same == place.taken.size() ? same : 0;
}

/// The free place that shares most of the text's beginning, at least half of either; else the one that was used longest
/// ago.
std::size_t TextEngine::Parts::best_place(const EngineText& text) const {
  std::size_t best = places.size(), length = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].text) continue;
    std::size_t match = shared_start(places[i], text);
    if (2 * match < std::min(text.to_take(), places[i].taken.size())) match = 0;
    if (best == places.size() || match > length || (match == length && places[i].used < places[best].used))
      best = i, length = match;
  }
  return best;
}

/// Gives a text a free place, with what is known of its tokens already; the place. Where none is free it stays.
std::size_t TextEngine::Parts::put(std::unique_ptr<EngineText> text) {
  const std::size_t at = best_place(*text);
  EngineSlot& place = places[at];
  const std::vector<text::TokenId> tokens = text->tokens(text->to_take());
  std::size_t known = shared_start(place, *text);
  if (!can_roll_back) {
    if (known == 0) batch.restart(at);
  } else {
    cut(at, known);
    const auto blocks = cache && text->request.reuses && text->most_reused() > known
                            ? cache->find(text->request.tenant, tokens)
                            : std::vector<const float*>();
    constexpr std::size_t kCached = PrefixCache::kBlock;
    for (std::size_t i = known / kCached; i < blocks.size() && i * kCached < text->most_reused(); ++i) {
      batch.load_part(blocks[i], at, i * kCached, kCached);
      known = std::min((i + 1) * kCached, text->most_reused());
    }
    cut(at, known);
  }
  place.taken.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(known));
  place.tenant = text->request.tenant;
  place.is_shareable = text->request.reuses;
  place.text = std::move(text);
  return at;
}

/// Notes tokens that a place has taken, and keeps blocks that became whole.
void TextEngine::Parts::took(std::size_t at, std::span<const text::TokenId> ids) {
  EngineSlot& place = places[at];
  constexpr std::size_t kCached = PrefixCache::kBlock;
  const std::size_t before = place.taken.size() / kCached;
  place.taken.insert(place.taken.end(), ids.begin(), ids.end());
  if (!cache || !place.is_shareable) return;
  for (std::size_t i = before; i < place.taken.size() / kCached; ++i)
    cache->add(place.tenant, std::span(place.taken).first((i + 1) * kCached),
               [&](float* to) { batch.save_part(at, i * kCached, kCached, to); });
}

void TextEngine::Parts::release(std::size_t at, bool is_whole) {
  places[at].text.reset();
  places[at].used = next_number;
  if (!is_whole) places[at].taken.clear();
}

void TextEngine::Parts::finish(std::size_t at, TextChunk& part, TextChunk::End end) {
  EngineText& text = *places[at].text;
  part.end = end;
  part.text += text.stream.finish();
  const auto now = SlotClock::now();
  if (text.prompted == SlotClock::time_point{}) text.prompted = now;
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

/// The next token of a text, from the logits after all others.
void TextEngine::Parts::write(std::size_t at, std::span<const float> logits, const Give& give) {
  EngineText& text = *places[at].text;
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
      std::min(taken + options.block.value_or(is_alone ? kWideBlock : kBlock), is_again ? text.read : text.to_take());
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
  if (is_last) text.prompted = SlotClock::now();
  if (is_last && request.wants_features) part.features.assign(batch.features().begin(), batch.features().end());
  if (is_last && request.most_tokens == 0) {
    finish(at, part, TextChunk::End::length);
    return give(at, std::move(part));
  }
  if (!part.scores.empty() || !part.features.empty()) give(at, std::move(part));
  if (is_last && has(at, number)) write(at, last, give);
}

/// Guesses for the next pass of a text; none where it goes with the others. One pass for each text with guesses reads
/// the weights as often, so among several texts they must be many.
std::vector<text::TokenId> TextEngine::Parts::guess(std::size_t at, std::size_t writers) {
  EngineText& text = *places[at].text;
  const std::size_t left = text.request.most_tokens - text.ids.size(), room = batch.context() - places[at].taken.size();
  const std::size_t most = std::min({text.length.next(), left - 1, room - 1});
  if (most == 0 || (writers > 1 && most < writers)) return {};
  const std::vector<text::TokenId> all = text.tokens(text.to_take() + 1);
  std::vector<text::TokenId> guesses;
  if (options.drafts.looks_up) guesses = repeated_after(all, most);
  if (guesses.empty() && draft)
    guesses = draft->guess(at, {all, text.request.prompt.size()}, text.request.sampler, most);
  // A draft model may have more tokens than the tokenizer.
  const auto unknown =
      std::find_if(guesses.begin(), guesses.end(), [this](text::TokenId id) { return id >= batch.vocabulary(); });
  guesses.erase(unknown, guesses.end());
  return guesses;
}

/// Takes a text's last token and guesses of the next ones in one pass. The sampler draws after each as it would without
/// them, and as long as it draws what was guessed, the logits are those of the text.
void TextEngine::Parts::verify(std::size_t at, const std::vector<text::TokenId>& guesses, const Give& give) {
  EngineText& text = *places[at].text;
  const std::uint64_t number = text.number;
  std::vector<text::TokenId> tokens{text.ids.back()};
  tokens.insert(tokens.end(), guesses.begin(), guesses.end());
  const auto logits = batch.accept_each(at, tokens);
  if (!logits) return fail_text(at, fail(logits.error()), give);
  const std::size_t width = batch.vocabulary();
  text.times.guessed += guesses.size();
  std::size_t right = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto row = logits->subspan(i * width, width);
    took(at, {&tokens[i], 1});
    if (const Status fine = check_logits(row, places[at].taken.size() - 1); !fine) {
      fail_text(at, fine, give);
      break;
    }
    write(at, row, give);
    if (!has(at, number) || i == guesses.size() || text.ids.back() != guesses[i]) break;
    ++right;
    ++text.times.guessed_right;
  }
  if (has(at, number)) text.length.tell(guesses.size(), right);
  cut(at, places[at].taken.size());
}

/// The next token of each of these texts, or several where they were guessed.
void TextEngine::Parts::decode(std::span<const std::size_t> writers, const Give& give) {
  std::vector<DecodingBatch::Step> steps;
  std::vector<std::pair<std::size_t, std::vector<text::TokenId>>> guessed;
  std::vector<std::uint64_t> numbers(places.size());
  for (const std::size_t at : writers) {
    numbers[at] = places[at].text->number;
    std::vector<text::TokenId> guesses;
    if (options.drafts.is_on()) guesses = guess(at, writers.size());
    if (guesses.empty())
      steps.push_back({.sequence = at, .id = places[at].text->ids.back()});
    else
      guessed.emplace_back(at, std::move(guesses));
  }
  const Status done = batch.step(steps);
  for (const DecodingBatch::Step& each : steps)
    if (done) took(each.sequence, {&each.id, 1});
  for (const DecodingBatch::Step& each : steps) {
    if (!has(each.sequence, numbers[each.sequence])) continue;
    if (done && each.outcome)
      write(each.sequence, each.logits, give);
    else
      fail_text(each.sequence, done ? each.outcome : done, give);
  }
  for (const auto& [at, guesses] : guessed)
    if (has(at, numbers[at])) verify(at, guesses, give);
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
  const DraftOptions& drafts = options.drafts;
  if (options.block == 0u || (drafts.is_on() && (drafts.most == 0 || drafts.most > DraftOptions::kMost)))
    return fail(Errc::invalid_argument, "blocks of " + std::to_string(options.block.value_or(kBlock)) + " tokens and " +
                                            std::to_string(drafts.most) +
                                            " guesses a pass: expected at least 1 of each, and at most " +
                                            std::to_string(DraftOptions::kMost) + " guesses");
  WEFT_TRY(DecodingBatch batch, DecodingBatch::begin(*model.mesh, options.slots, context, options.max_memory));
  const Status can_roll_back = batch.can_roll_back();
  auto parts = std::make_unique<Parts>(model, std::move(batch), options);
  parts->can_roll_back = can_roll_back.has_value();
  if (drafts.is_on()) WEFT_CHECK(can_roll_back);
  if (drafts.model) {
    WEFT_TRY(parts->draft, DraftModel::make(*drafts.model, model, options.slots, context, options.max_memory));
  }
  if (options.prefix_cache.value_or(0) > 0) WEFT_CHECK(can_roll_back);
  if (can_roll_back) WEFT_CHECK(parts->make_cache());
  return TextEngine(std::move(parts));
}

Status TextEngine::Parts::make_cache() {
  const std::size_t size = batch.part_size(PrefixCache::kBlock);
  const std::uint64_t block = size * sizeof(float);
  const std::uint64_t bytes =
      options.prefix_cache.value_or(std::min(kUsualCache, mesh::free_memory(options.max_memory) / 4));
  if (block == 0 || bytes == 0 || (!options.prefix_cache && bytes < block)) return {};
  if (bytes < block)
    return fail(Errc::out_of_range, "a prefix cache of " + std::to_string(bytes) +
                                        " bytes has no room for a block of " + std::to_string(PrefixCache::kBlock) +
                                        " tokens, " + std::to_string(block) + " bytes; give it more, or 0 for none");
  mesh::MemoryEstimate estimate;
  estimate.add("beginnings of texts", bytes);
  WEFT_CHECK(mesh::check_memory("the prefix cache", estimate, options.max_memory));
  cache.emplace(bytes, size);
  return {};
}

std::size_t TextEngine::context() const noexcept { return parts_->batch.context(); }
std::size_t TextEngine::slots() const noexcept { return parts_->places.size(); }
std::size_t TextEngine::features() const noexcept { return parts_->batch.features().size(); }
std::size_t TextEngine::free_slots() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(parts_->places.begin(), parts_->places.end(), [](const EngineSlot& each) { return !each.text; }));
}

TextEngine::Slot TextEngine::slot(std::size_t slot) const noexcept {
  const EngineSlot& place = parts_->places[slot];
  const std::size_t position = place.taken.size();
  if (!place.text) return {false, false, position, 0, 0, 0};
  const EngineText& text = *place.text;
  return {true, place.is_reading(), position, text.request.prompt.size(), text.ids.size(), text.request.most_tokens};
}

TextEngine::CacheUse TextEngine::cache_use() const noexcept {
  if (!parts_->cache) return {};
  return {parts_->cache->bytes(), parts_->cache->evicted()};
}

Status TextEngine::check(const TextRequest& request) const {
  if (request.prompt.empty()) return fail(Errc::invalid_argument, "the prompt has no tokens; give it a text");
  const std::size_t known = parts_->batch.vocabulary();
  const auto unknown = [&](const std::string& of, text::TokenId id) {
    return fail(Errc::out_of_range, of + "token " + std::to_string(id) + ", the model has " + std::to_string(known));
  };
  for (const text::TokenId id : request.prompt)
    if (id >= known) return unknown("", id);
  for (const auto& [id, bias] : request.sampler.logit_bias)
    if (id >= known) return unknown("logit bias: ", id);
  const std::size_t most = context() + (request.most_tokens == 0 ? 1 : 0);
  if (request.prompt.size() < most) return {};
  return fail(Errc::full, "the prompt has " + std::to_string(request.prompt.size()) + " tokens, the context " +
                              std::to_string(context()) + "; nothing can be written");
}

Result<std::size_t> TextEngine::begin(TextRequest request) {
  WEFT_CHECK(check(request));
  Parts& p = *parts_;
  if (free_slots() == 0) return fail(Errc::full, "all " + std::to_string(slots()) + " slots write texts");
  auto text = std::make_unique<EngineText>(*p.model.tokenizer, p.bytes, p.options.drafts.most, std::move(request));
  text->number = p.next_number++;
  const std::size_t at = p.put(std::move(text));
  p.places[at].text->times.cached = p.places[at].taken.size();
  return at;
}

TextChunk TextEngine::drop(std::size_t slot) {
  TextChunk rest;
  if (parts_->places[slot].text) parts_->finish(slot, rest, TextChunk::End::dropped);
  return rest;
}

void TextEngine::pause(std::size_t slot, bool is_paused) {
  if (auto& text = parts_->places[slot].text) text->is_paused = is_paused;
}

void TextEngine::forget() {
  for (EngineSlot& each : parts_->places)
    if (!each.text) each.taken.clear();
  if (parts_->cache) parts_->cache->clear();
}

TextEngine::Suspended::Suspended(std::unique_ptr<EngineText> text) : text_(std::move(text)) {}
TextEngine::Suspended::Suspended(Suspended&&) noexcept = default;
TextEngine::Suspended& TextEngine::Suspended::operator=(Suspended&&) noexcept = default;
TextEngine::Suspended::~Suspended() = default;

TextEngine::Suspended TextEngine::suspend(std::size_t slot) {
  Suspended out(std::move(parts_->places[slot].text));
  parts_->release(slot, true);
  return out;
}

std::size_t TextEngine::resume(Suspended text) { return parts_->put(std::move(text.text_)); }

bool TextEngine::step(const std::function<void(std::size_t, TextChunk)>& give) {
  Parts& p = *parts_;
  std::vector<std::size_t> writers;
  std::size_t reading = p.places.size();
  const auto order = [&](std::size_t at) {
    return std::tuple(p.places[at].text->request.priority, p.places[at].text->number);
  };
  for (std::size_t i = 0; i < p.places.size(); ++i) {
    const EngineSlot& place = p.places[i];
    if (!place.text || place.text->is_paused) continue;
    if (!place.is_reading())
      writers.push_back(i);
    else if (reading == p.places.size() || order(i) < order(reading))
      reading = i;
  }
  const std::uint64_t number = reading < p.places.size() ? p.places[reading].text->number : 0;
  if (!writers.empty()) p.decode(writers, give);
  if (reading < p.places.size() && p.has(reading, number)) p.read(reading, writers.empty(), give);
  return !writers.empty() || reading < p.places.size();
}

}  // namespace weft::models
