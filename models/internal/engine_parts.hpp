// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoding_batch.hpp"
#include "models/draft.hpp"
#include "models/internal/engine_text.hpp"
#include "models/prefix_cache.hpp"
#include "models/sequence_breakers.hpp"
#include "models/text_engine.hpp"
#include "models/token_constraint.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::models {

/// The engine's slots (engine_slots.cpp) and what is done with their texts in a step (engine_steps.cpp).
struct TextEngine::Parts {
  Parts(const LanguageModel& of, DecodingBatch to, const Options& with)
      : model(of), batch(std::move(to)), options(with), places(with.slots) {}

  using Give = std::function<void(std::size_t, TextChunk)>;

  const LanguageModel& model;
  DecodingBatch batch;
  const Options options;
  TokenBytes bytes{*model.tokenizer};
  std::vector<internal::EngineSlot> places;
  std::optional<PrefixCache> cache{};
  std::optional<DraftModel> draft{};
  std::vector<std::string> breaking_texts{};  // whose tokens `breakers` are: most requests have the same
  std::shared_ptr<const SequenceBreakers> breakers{};
  bool can_roll_back = false;
  std::size_t most_tokens = 0;  // whose keys and values have room, in all slots; 0: all
  std::uint64_t next_number = 1, parked = 0;

  Status make_cache();
  /// Null where no step looks at them.
  std::shared_ptr<const SequenceBreakers> breakers_of(const SamplerStepOptions& steps);
  Status bound_states();
  /// @pre can_roll_back; the sequence has taken as many
  void cut(std::size_t at, std::size_t tokens) {
    const Status done = batch.roll_back(at, tokens);
    WEFT_ASSERT(done, done.error().text());
  }
  std::size_t shared_start(const internal::EngineSlot& place, const internal::EngineText& text) const;
  std::size_t best_place(const internal::EngineText& text) const;
  std::size_t put(std::unique_ptr<internal::EngineText> text);
  void go_on(internal::EngineSlot& place);
  std::size_t need(const internal::EngineSlot& place) const;
  void release_memory(internal::EngineSlot& place);
  void share_memory();
  std::size_t number_of(const internal::EngineSlot& place) const {
    return static_cast<std::size_t>(&place - places.data());
  }
  void took(std::size_t at, std::span<const text::TokenId> ids);
  void release(std::size_t at, bool is_whole);
  void finish(std::size_t at, TextChunk& part, TextChunk::End end);
  void fail_text(std::size_t at, const Status& outcome, const Give& give);
  void write(std::size_t at, std::span<const float> logits, const Give& give);
  void read(std::size_t at, bool is_alone, const Give& give);
  void decode(std::span<const std::size_t> writers, const Give& give);
  std::vector<text::TokenId> guess(std::size_t at, std::size_t writers);
  struct Written;
  void judge(std::size_t at, std::span<const text::TokenId> tokens,
             const std::function<std::span<const float>(std::size_t)>& logits, const Give& give);
  void verify(const Written& text, const Give& give);
  void verify(std::span<const Written> texts, const Give& give);
  std::string stop_of(const internal::EngineText& text) const;
  bool is_end(text::TokenId id) const {
    return std::find(model.ends.begin(), model.ends.end(), id) != model.ends.end();
  }
  /// True while the text of this number has the slot: whoever was given a part may have dropped it.
  bool has(std::size_t at, std::uint64_t number) const { return places[at].text && places[at].text->number == number; }
};

}  // namespace weft::models
