// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/draft.hpp"
#include "models/language_model.hpp"
#include "models/sampler.hpp"

#include "text/grammar.hpp"
#include "text/tokenizer.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <chrono>
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
  bool reuses = true;          ///< may go on from what others began with, and others from it
  bool scores = false;         ///< logarithms of the probabilities of what is written
  bool scores_prompt = false;  ///< those of the prompt's tokens too
  std::size_t likeliest = 0;   ///< beside each of them, so many of the likeliest tokens
  bool wants_features = false;
  bool wants_state = false;  ///< digest of what its slot remembers at the end
  std::string tenant;        ///< texts of another tenant are never gone on from
  int priority = 0;          ///< lower ones are read first
  /// Of one priority the nearest is read first. The engine ends no text because of it.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
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

/// Result of one step for a text.
struct TextChunk {
  /// end: a token that ends texts; stop: a stop string; length: enough tokens, or the context is full.
  enum class End { none, end, stop, length, failed, dropped };
  std::string text;  ///< whole characters that are certain
  std::vector<text::TokenId> ids;
  std::vector<TokenScore> scores;
  std::vector<float> features;  ///< of the prompt's last token: what the logits are made of
  End end = End::none;
  std::string stop;   ///< the stop string that ended it
  Status outcome{};   ///< of a text that failed
  TextTimes times{};  ///< at the end
  std::optional<Hash128> state{};
};

namespace internal {
struct EngineText;
}

/// Writes several texts at once with one model (continuous batching). Texts come and go between steps; prompts are read
/// by blocks between the tokens of others, so that none waits for a long one. A prompt that begins as others did goes
/// on from what a slot or the prefix cache has of them.
/// @exact  a text is a function of model and request, whatever is written beside it, kept, guessed or suspended
/// @thread one at a time; the model and the draft model outlive it
class TextEngine {
 public:
  struct Options {
    std::size_t slots = 4;    ///< texts at once
    std::size_t context = 0;  ///< tokens of each; 0: those that the model was made for, at most 4096
    std::uint64_t max_memory = 0;
    /// Tokens of a prompt that a step reads, above 0. Not given: kBlock, while no other text is written kWideBlock,
    /// or what a device takes at once.
    std::optional<std::size_t> block{};
    /// Bytes of beginnings of texts that are kept for others; 0: none. Not given: kUsualCache, less where memory is
    /// short, none for a model that cannot be rolled back.
    std::optional<std::uint64_t> prefix_cache{};
    DraftOptions drafts{};
    /// Bytes of keys and values of all slots together; 0: whole contexts. Texts for which there is no room wait in
    /// their slots: those of the highest priority number, and of these the last ones. One that is paused keeps its own.
    std::uint64_t state_memory = 0;
    /// False: a text begins when all that it can write has room. True: when its tokens so far have, and it loses its
    /// keys and values where others grow; they are computed again later, with the same bits.
    bool overcommits = false;
  };
  static constexpr std::size_t kUsualContext = 4096, kBlock = 32, kWideBlock = 128;
  static constexpr std::uint64_t kUsualCache = std::uint64_t{256} << 20;

  /// @error as DecodingBatch::begin, DraftModel::make; full: a context above the model's; invalid_argument: no block,
  /// no
  ///        guesses or too many; out_of_range: a prefix cache without room for a block of 64 tokens; unsupported: a
  ///        prefix cache, guesses or a bound of `state_memory` with a model that cannot be rolled back, or one below a
  ///        context
  static Result<TextEngine> make(const LanguageModel& model, const Options& options);
  TextEngine(TextEngine&&) noexcept;
  TextEngine& operator=(TextEngine&&) noexcept;
  ~TextEngine();

  std::size_t context() const noexcept;
  std::size_t slots() const noexcept;
  /// Width of TextChunk::features.
  std::size_t features() const noexcept;
  /// True while a device computes the texts (DecodingBatch::is_on_device).
  bool is_on_device() const noexcept;
  std::size_t free_slots() const noexcept;
  /// State of a slot. @pre slot < slots()
  struct Slot {
    bool is_busy = false, is_reading = false;  ///< reading: its prompt
    bool is_parked = false;                    ///< it waits for memory
    std::size_t position = 0, prompt = 0, written = 0, most_tokens = 0;
  };
  Slot slot(std::size_t slot) const noexcept;

  /// Success where a request can be begun in a free slot. @error invalid_argument: no prompt; out_of_range: a token,
  /// of the biases too, that the model has not; full: a prompt that leaves no room; as check_sampler
  Status check(const TextRequest& request) const;
  /// Takes a free slot; its text begins with the next step. @error as `check`; full: no slot is free
  Result<std::size_t> begin(TextRequest request);
  /// Ends a text that nobody reads any more: its slot is free. Gives the text that was held back, and its times. May be
  /// called by `give` too. @pre slot < slots()
  TextChunk drop(std::size_t slot);
  /// A text that is paused stays as it is. @pre slot < slots()
  void pause(std::size_t slot, bool is_paused);
  /// Forgets what free slots have taken, and the prefix cache.
  void forget();

  /// A text without a slot. It belongs to its engine, which outlives it.
  class Suspended {
   public:
    Suspended(Suspended&&) noexcept;
    Suspended& operator=(Suspended&&) noexcept;
    ~Suspended();

   private:
    friend class TextEngine;
    explicit Suspended(std::unique_ptr<internal::EngineText> text);
    std::unique_ptr<internal::EngineText> text_;
  };
  /// Takes a text out of its slot for another one (preemption); its keys and values may go. Not during a step.
  /// @pre slot(slot).is_busy
  Suspended suspend(std::size_t slot);
  /// Goes on with it in a free slot; what is not there any more is computed again, with the same bits.
  /// @pre free_slots() > 0
  std::size_t resume(Suspended text);

  /// Bytes that the prefix cache holds, and blocks that have made room for others in it.
  struct CacheUse {
    std::uint64_t bytes = 0, evicted = 0;
  };
  CacheUse cache_use() const noexcept;
  /// Texts that lost their keys and values to others, since it was made.
  std::uint64_t parked() const noexcept;

  /// A token of each text, with guesses several, and a block of the prompt that comes first: of the lowest priority
  /// number, of these the one of the nearest deadline, and of these the one that was begun first. `give` gets what came
  /// of each; once it ended, the slot is free. False: there was nothing to do.
  bool step(const std::function<void(std::size_t slot, TextChunk part)>& give);

 private:
  struct Parts;
  explicit TextEngine(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::models
