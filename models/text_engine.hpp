// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/language_model.hpp"
#include "models/sampler.hpp"

#include "text/grammar.hpp"
#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::models {

/// A text to be written, or only to be read: with `most_tokens` 0.
struct TextRequest {
  std::vector<text::TokenId> prompt;
  SamplerOptions sampler;
  std::size_t most_tokens = 128;
  std::vector<std::string> stops;
  std::optional<text::Grammar> grammar;  ///< that the text follows; where it is whole, `ignores_ends` means nothing
  bool ignores_ends = false;
  bool reuses = true;          ///< may go on from what a slot has taken already, where the prompt begins with it
  bool scores = false;         ///< logarithms of the probabilities of what is written
  bool scores_prompt = false;  ///< those of the prompt's tokens too
  std::size_t likeliest = 0;   ///< beside each of them, so many of the likeliest tokens
  bool wants_features = false;
};

/// A token and the logarithm of its probability, before the sampler changed any.
struct TokenScore {
  struct Likely {
    text::TokenId id = 0;
    float logprob = 0;
  };
  text::TokenId id = 0;
  std::optional<float> logprob;  ///< none of the first token of a text
  std::vector<Likely> likeliest;
};

/// Tokens of a text and the time that they took.
struct TextTimes {
  std::size_t prompt = 0, cached = 0, written = 0;  ///< tokens; cached: of the prompt, that were taken before
  double prompt_seconds = 0, seconds = 0;
};

/// Result of one step for a text.
struct TextChunk {
  /// end: a token that ends texts; stop: a stop string; length: enough tokens, or the context is full.
  enum class End { none, end, stop, length, failed };
  std::string text;  ///< whole characters that are certain
  std::vector<text::TokenId> ids;
  std::vector<TokenScore> scores;
  std::vector<float> features;  ///< of the prompt's last token: what the logits are made of
  End end = End::none;
  std::string stop;   ///< the stop string that ended it
  Status outcome{};   ///< of a text that failed
  TextTimes times{};  ///< at the end
};

/// Writes several texts at once with one model (continuous batching). Texts come and go between steps; prompts are read
/// by blocks between the tokens of others, so that none waits for a long one.
/// @exact  a text is a function of model and request, whatever is written beside it
/// @thread one at a time; the model outlives it
class TextEngine {
 public:
  struct Options {
    std::size_t slots = 4;    ///< texts at once
    std::size_t context = 0;  ///< tokens of each; 0: those that the model was made for, at most 4096
    std::uint64_t max_memory = 0;
  };
  static constexpr std::size_t kUsualContext = 4096, kBlock = 32;

  /// @error as DecodingBatch::begin; full: a context above the model's
  static Result<TextEngine> make(const LanguageModel& model, const Options& options);
  TextEngine(TextEngine&&) noexcept;
  TextEngine& operator=(TextEngine&&) noexcept;
  ~TextEngine();

  std::size_t context() const noexcept;
  std::size_t slots() const noexcept;
  /// Width of TextChunk::features.
  std::size_t features() const noexcept;
  std::size_t free_slots() const noexcept;
  /// State of a slot. @pre slot < slots()
  struct Slot {
    bool is_busy = false, is_reading = false;  ///< reading: its prompt
    std::size_t position = 0, prompt = 0, written = 0, most_tokens = 0;
  };
  Slot slot(std::size_t slot) const noexcept;

  /// Success where a request can be begun in a free slot. @error invalid_argument: no prompt; out_of_range: a token
  /// that the model has not; full: a prompt that leaves no room
  Status check(const TextRequest& request) const;
  /// Takes a free slot; its text begins with the next step. @error as `check`; full: no slot is free
  Result<std::size_t> begin(TextRequest request);
  /// Ends a text that nobody reads any more: its slot is free. @pre slot < slots()
  void drop(std::size_t slot);
  /// A text that is paused stays as it is. @pre slot < slots()
  void pause(std::size_t slot, bool is_paused);
  /// Forgets what free slots have taken.
  void forget();

  /// A block of the prompt that came first, and a token of each other text. `give` gets what came of each; once it
  /// ended, the slot is free. False: there was nothing to do.
  bool step(const std::function<void(std::size_t slot, TextChunk part)>& give);

 private:
  struct Parts;
  explicit TextEngine(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::models
