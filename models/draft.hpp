// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoding_batch.hpp"
#include "models/sampler.hpp"

#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::models {

struct LanguageModel;

/// Sources of guesses of the next tokens. A pass of the model takes several of them at once and keeps those that
/// it would have drawn itself, so they change the speed of a text and nothing else.
/// @source Leviathan et al. 2023, arXiv:2211.17192 (a draft model); Saxena 2023, "Prompt lookup decoding"
struct DraftOptions {
  static constexpr std::size_t kMost = DecodingBatch::kMostEach - 1;
  bool looks_up = false;                 ///< what followed the last tokens where they stood before in the text
  const LanguageModel* model = nullptr;  ///< a smaller model of the same vocabulary; where nothing was looked up
  std::size_t most = 7;                  ///< guesses in a pass, at most; 1 to kMost

  bool is_on() const noexcept { return looks_up || model; }
  /// Of so many guesses, those that a pass takes: with the token before them 2, 4, 8, 16 or 32, so that few kinds of
  /// passes are made.
  static std::size_t in_pass(std::size_t guesses) noexcept { return std::bit_floor(guesses + 1) - 1; }
};

/// The tokens that followed the last ones of `ids` where the longest run of them, of 2 to 16, stood before; of several
/// such places the last. `most` of them, over and over where fewer stand there; none where there is no such place.
std::vector<text::TokenId> repeated_after(std::span<const text::TokenId> ids, std::size_t most);

/// Guesses for the next pass, by how many of the last ones were right: twice as many and one after those that all were,
/// one more than were right after others; after two and more passes without any, none for a while.
class DraftLength {
 public:
  explicit DraftLength(std::size_t most) noexcept : most_(most), next_(std::min(most, kFirst)) {}
  std::size_t next() noexcept {
    if (waits_ == 0) return next_;
    --waits_;
    return 0;
  }
  void tell(std::size_t guessed, std::size_t right) noexcept {
    next_ = std::min(most_, right == guessed ? std::max(next_, 2 * guessed + 1) : right + 1);
    misses_ = right > 0 ? 0 : std::min(misses_ + 1, kMostMisses);
    waits_ = misses_ > 0 ? (std::size_t{1} << misses_) - 2 : 0;
  }

 private:
  static constexpr std::size_t kFirst = 3, kMostMisses = 5;
  std::size_t most_, next_, misses_ = 0, waits_ = 0;
};

/// A smaller model that guesses what a larger one will write. It draws with the sampler's settings and the same random
/// numbers as the larger one, so that two models that agree draw the same tokens.
/// @thread one at a time; the model outlives it
class DraftModel {
 public:
  /// For texts in so many slots of `context` tokens.
  /// @error shape_mismatch: a vocabulary that is not `target`'s, naming the first token that differs; unsupported: a
  ///        model that cannot be rolled back; as DecodingBatch::begin
  static Result<DraftModel> make(const LanguageModel& model, const LanguageModel& target, std::size_t slots,
                                 std::size_t context, std::uint64_t max_memory);

  /// At most `most` tokens after those of a slot's text, by a copy of its sampler; fewer, or none, where its context is
  /// full or a logit is not finite.
  std::vector<text::TokenId> guess(std::size_t slot, const TokenHistory& before, Sampler sampler, std::size_t most);
  /// Gives the memory of a slot's keys and values back.
  void release(std::size_t slot) noexcept;

 private:
  DraftModel(DecodingBatch batch, std::size_t slots) : batch_(std::move(batch)), taken_(slots) {}
  DecodingBatch batch_;
  std::vector<std::vector<text::TokenId>> taken_;  // by slot
};

}  // namespace weft::models
