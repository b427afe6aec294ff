// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/draft.hpp"
#include "models/sampler.hpp"
#include "models/text_engine.hpp"
#include "models/token_constraint.hpp"

#include "text/token_stream.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace weft::models::internal {

/// A text that an engine writes, with all that decides its next token but keys and values. These follow from its
/// tokens, so it may lose its slot and go on in another one.
struct EngineText {
  using Clock = std::chrono::steady_clock;

  /// `breakers`: those of the request's sampler; null: it looks at none.
  EngineText(const text::Tokenizer& tokenizer, TokenBytes& bytes, std::shared_ptr<const SequenceBreakers> breakers,
             std::size_t guesses, TextRequest of)
      : request(std::move(of)),
        sampler(request.sampler, std::move(breakers)),
        stream(tokenizer, request.prompt, request.stops),
        constraint(request.grammar, bytes),
        length(guesses) {}

  TextRequest request;
  Sampler sampler;
  text::TokenStream stream;
  TokenConstraint constraint;
  DraftLength length;
  std::vector<text::TokenId> ids{};  // that were written; the last is not taken yet
  std::size_t read = 0;              // tokens of the prompt that were read, in whichever slot: their scores are told
  std::uint64_t number = 0;          // in the order of their beginnings
  bool is_paused = false;
  TextTimes times{};
  Clock::time_point begun = Clock::now(), prompted{};

  /// The least comes first: priority, deadline (none is last), order of beginnings.
  std::tuple<int, Clock::time_point, std::uint64_t> rank() const noexcept {
    return {request.priority, request.deadline.value_or(Clock::time_point::max()), number};
  }
  /// Tokens that a slot must have taken before the next one is drawn, but for the last of `ids`.
  std::size_t to_take() const noexcept { return request.prompt.size() + (ids.empty() ? 0 : ids.size() - 1); }
  /// The first `count` tokens, prompt first.
  std::vector<text::TokenId> tokens(std::size_t count) const;
  /// Tokens that need not be computed again where a slot has taken them: not the prompt's last one, whose logits are
  /// wanted, and none whose logits give scores.
  std::size_t most_reused() const noexcept;
};

/// A place for a text: a sequence of the batch, and what it has taken.
struct EngineSlot {
  std::unique_ptr<EngineText> text{};
  std::vector<text::TokenId> taken{};
  std::string tenant{};      // whose tokens they are
  bool is_shareable = true;  // others may go on from them
  bool is_parked = false;    // its text has no memory for keys and values now
  std::size_t held = 0;      // tokens whose keys and values have memory; those that were taken, or more
  std::uint64_t used = 0;

  bool is_reading() const noexcept { return taken.size() < text->to_take(); }
};

}  // namespace weft::models::internal
