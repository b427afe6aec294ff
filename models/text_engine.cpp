// SPDX-License-Identifier: Apache-2.0

#include "models/text_engine.hpp"

#include "models/internal/engine_parts.hpp"

#include <algorithm>

namespace weft::models {

using internal::EngineSlot;
using internal::EngineText;

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
  WEFT_TRY(DecodingBatch batch,
           DecodingBatch::begin(*model.mesh, options.slots, context, options.max_memory, options.state_memory));
  const Status can_roll_back = batch.can_roll_back();
  auto parts = std::make_unique<Parts>(model, std::move(batch), options);
  parts->can_roll_back = can_roll_back.has_value();
  if (drafts.is_on()) {
    WEFT_CHECK(can_roll_back);
    for (std::size_t tokens = 2; tokens <= std::min(drafts.most + 1, context); tokens *= 2)
      WEFT_CHECK(parts->batch.prepare(tokens));
    if (options.slots > 1) WEFT_CHECK(parts->batch.prepare_together());
  }
  if (drafts.model) {
    WEFT_TRY(parts->draft, DraftModel::make(*drafts.model, model, options.slots, context, options.max_memory));
  }
  if (options.prefix_cache.value_or(0) > 0) WEFT_CHECK(can_roll_back);
  if (can_roll_back) WEFT_CHECK(parts->make_cache());
  if (options.state_memory > 0) {
    WEFT_CHECK(can_roll_back);
    WEFT_CHECK(parts->bound_states());
  }
  return TextEngine(std::move(parts));
}

std::size_t TextEngine::context() const noexcept { return parts_->batch.context(); }
std::size_t TextEngine::slots() const noexcept { return parts_->places.size(); }
bool TextEngine::is_on_device() const noexcept { return parts_->batch.is_on_device(); }
std::size_t TextEngine::features() const noexcept { return parts_->batch.features().size(); }
std::size_t TextEngine::free_slots() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(parts_->places.begin(), parts_->places.end(), [](const EngineSlot& each) { return !each.text; }));
}

TextEngine::Slot TextEngine::slot(std::size_t slot) const noexcept {
  const EngineSlot& place = parts_->places[slot];
  const std::size_t position = place.taken.size();
  if (!place.text) return {.position = position};
  const EngineText& text = *place.text;
  return {true,
          place.is_reading(),
          place.is_parked,
          position,
          text.request.prompt.size(),
          text.ids.size(),
          text.request.most_tokens};
}

TextEngine::CacheUse TextEngine::cache_use() const noexcept {
  if (!parts_->cache) return {};
  return {parts_->cache->bytes(), parts_->cache->evicted()};
}

std::uint64_t TextEngine::parked() const noexcept { return parts_->parked; }

Status TextEngine::check(const TextRequest& request) const {
  if (request.prompt.empty()) return fail(Errc::invalid_argument, "the prompt has no tokens; give it a text");
  WEFT_CHECK(check_sampler(request.sampler));
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

std::shared_ptr<const SequenceBreakers> TextEngine::Parts::breakers_of(const SamplerStepOptions& steps) {
  const std::vector<std::string>& texts = steps.dry_breakers;
  if (steps.dry_multiplier == 0 || texts.empty()) return nullptr;
  if (breaking_texts != texts) breakers = std::make_shared<const SequenceBreakers>(*model.tokenizer, texts);
  breaking_texts = texts;
  return breakers;
}

Result<std::size_t> TextEngine::begin(TextRequest request) {
  WEFT_CHECK(check(request));
  Parts& p = *parts_;
  if (free_slots() == 0) return fail(Errc::full, "all " + std::to_string(slots()) + " slots write texts");
  auto breakers = p.breakers_of(request.sampler.steps);
  auto text = std::make_unique<EngineText>(*p.model.tokenizer, p.bytes, std::move(breakers), p.options.drafts.most,
                                           std::move(request));
  text->number = p.next_number++;
  const std::size_t at = p.put(std::move(text));
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
  p.share_memory();
  std::vector<std::size_t> writers;
  std::size_t reading = p.places.size();
  const auto order = [&](std::size_t at) { return p.places[at].text->rank(); };
  for (std::size_t i = 0; i < p.places.size(); ++i) {
    const EngineSlot& place = p.places[i];
    if (!place.text || place.text->is_paused || place.is_parked) continue;
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
