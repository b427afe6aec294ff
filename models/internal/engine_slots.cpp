// SPDX-License-Identifier: Apache-2.0

#include "models/internal/engine_parts.hpp"

#include "mesh/memory/memory_estimate.hpp"

#include <algorithm>
#include <tuple>

namespace weft::models {

using internal::EngineSlot;
using internal::EngineText;

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

/// Gives a text a free place; the place. @pre there is one
std::size_t TextEngine::Parts::put(std::unique_ptr<EngineText> text) {
  const std::size_t at = best_place(*text);
  EngineSlot& place = places[at];
  place.text = std::move(text);
  place.is_parked = most_tokens > 0;
  if (!place.is_parked) go_on(place);
  return at;
}

/// Gives a place's text what is known of its tokens already.
void TextEngine::Parts::go_on(EngineSlot& place) {
  const std::size_t at = number_of(place);
  EngineText* const text = place.text.get();
  if (most_tokens > 0 && place.held > need(place)) release_memory(place);  // of a longer text before
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
      batch.load_part(blocks[i], at, std::span(tokens).subspan(i * kCached, kCached), i * kCached);
      known = std::min((i + 1) * kCached, text->most_reused());
    }
    cut(at, known);
  }
  place.taken.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(known));
  place.tenant = text->request.tenant;
  place.is_shareable = text->request.reuses;
  place.held = std::max(place.held, known);
  place.is_parked = false;
  if (text->read == 0) text->times.cached = known;
}

/// Tokens that a place's text must have memory for.
std::size_t TextEngine::Parts::need(const EngineSlot& place) const {
  // The most that a step adds to a text that writes.
  constexpr std::size_t kAhead = DecodingBatch::kMostEach;
  const EngineText& text = *place.text;
  const std::size_t all = text.request.prompt.size() + text.request.most_tokens;
  return std::min(options.overcommits ? std::min(all, text.to_take() + kAhead) : all, batch.context());
}

void TextEngine::Parts::release_memory(EngineSlot& place) {
  place.taken.clear();
  place.held = 0;
  batch.release(number_of(place));
  if (draft) draft->release(number_of(place));
}

/// Decides which texts have memory: the most urgent ones, as many as there is room for; then what free slots have
/// taken.
void TextEngine::Parts::share_memory() {
  if (most_tokens == 0) return;
  std::vector<EngineSlot*> order;
  for (EngineSlot& each : places) order.push_back(&each);
  const auto rank = [](const EngineSlot* of) {
    const EngineText* const text = of->text.get();
    return text ? std::tuple(0, text->rank())
                : std::tuple(1, std::tuple(0, EngineText::Clock::time_point{}, ~of->used));
  };
  std::sort(order.begin(), order.end(), [&](const EngineSlot* a, const EngineSlot* b) { return rank(a) < rank(b); });
  std::vector<EngineSlot*> wake;
  std::size_t left = most_tokens;
  for (EngineSlot* const each : order) {
    const std::size_t wanted = each->text ? need(*each) : each->held;
    if (wanted > left) {
      if (each->text && !each->is_parked) ++parked;
      if (each->held > 0) release_memory(*each);
      each->is_parked = each->text != nullptr;
      continue;
    }
    left -= wanted;
    if (each->text && each->is_parked) wake.push_back(each);
  }
  for (EngineSlot* const each : wake) go_on(*each);
}

/// Notes tokens that a place has taken, and keeps blocks that became whole.
void TextEngine::Parts::took(std::size_t at, std::span<const text::TokenId> ids) {
  EngineSlot& place = places[at];
  constexpr std::size_t kCached = PrefixCache::kBlock;
  const std::size_t before = place.taken.size() / kCached;
  place.taken.insert(place.taken.end(), ids.begin(), ids.end());
  place.held = std::max(place.held, place.taken.size());
  if (!cache || !place.is_shareable) return;
  for (std::size_t i = before; i < place.taken.size() / kCached; ++i)
    cache->add(place.tenant, std::span(place.taken).first((i + 1) * kCached),
               [&](float* to) { batch.save_part(at, i * kCached, kCached, to); });
}

void TextEngine::Parts::release(std::size_t at, bool is_whole) {
  places[at].text.reset();
  places[at].is_parked = false;
  places[at].used = next_number;
  if (!is_whole) places[at].taken.clear();
}

/// Counts the tokens whose keys and values have room; at least those of a context.
Status TextEngine::Parts::bound_states() {
  constexpr std::size_t kWhole = 16;  // tokens of a panel of keys
  const std::uint64_t of_token = batch.part_size(kWhole) * sizeof(float) / kWhole;
  most_tokens = static_cast<std::size_t>(options.state_memory / std::max<std::uint64_t>(of_token, 1));
  if (most_tokens >= batch.context()) return {};
  return fail(Errc::out_of_range, std::to_string(options.state_memory) + " bytes hold keys and values of " +
                                      std::to_string(most_tokens) + " tokens, less than one context of " +
                                      std::to_string(batch.context()) + "; give " +
                                      std::to_string(of_token * batch.context()) + " or more, or a smaller context");
}

Status TextEngine::Parts::make_cache() {
  const std::size_t size = batch.part_size(PrefixCache::kBlock);
  const std::uint64_t block = size * sizeof(float);
  const std::uint64_t most =
      options.prefix_cache.value_or(std::min(kUsualCache, mesh::free_memory(options.max_memory) / 4));
  if (block == 0 || most == 0 || (!options.prefix_cache && most < block)) return {};
  if (most < block)
    return fail(Errc::out_of_range, "a prefix cache of " + std::to_string(most) + " bytes has no room for a block of " +
                                        std::to_string(PrefixCache::kBlock) + " tokens, " + std::to_string(block) +
                                        " bytes; give it more, or 0 for none");
  mesh::MemoryEstimate estimate;
  estimate.add("beginnings of texts", most);
  WEFT_CHECK(mesh::check_memory("the prefix cache", estimate, options.max_memory));
  cache.emplace(most, size);
  return {};
}

}  // namespace weft::models
