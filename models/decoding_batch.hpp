// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"

#include "text/tokenizer.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::models {

/// Success where all logits after the token at `position` are finite. @error not_finite
Status check_logits(std::span<const float> logits, std::size_t position);

/// Several sequences of tokens through one language model, in binary32. A step takes a token of each of some of them in
/// one pass, so that weights are read once for all. Sequences begin, go on and end independently of one another.
/// @exact  each sequence has the bits that it has alone (Decoding), whatever the others do
/// @thread one at a time; the mesh lends its weights, outlives the batch and stays as it is
class DecodingBatch {
 public:
  /// `context`: tokens that each sequence can take. Memory is taken with the tokens. `max_memory`: bytes that it may
  /// take, 0: no bound of its own. `most_states`: bytes of keys and values that the caller lets sequences have
  /// together, 0: whole contexts.
  /// @error as `with_context`; invalid_argument: no sequences, no context; too_large: its memory, by estimate
  static Result<DecodingBatch> begin(const mesh::Mesh& mesh, std::size_t sequences, std::size_t context,
                                     std::uint64_t max_memory = 0, std::uint64_t most_states = 0);
  DecodingBatch(DecodingBatch&&) noexcept;
  DecodingBatch& operator=(DecodingBatch&&) noexcept;
  ~DecodingBatch();

  std::size_t context() const noexcept;
  /// True where its mesh is on a device, and computes these passes there. After a failure of the device they go on on
  /// the CPU.
  bool is_on_device() const noexcept;
  /// Tokens of one sequence that pass the layers at once, at most.
  std::size_t widest_pass() const noexcept;
  /// Tokens that the model knows.
  std::size_t vocabulary() const noexcept;
  /// Tokens that a sequence has taken. @pre sequence < sequences
  std::size_t position(std::size_t sequence) const noexcept;

  /// Forgets all that a sequence has taken, after a failure too. @pre sequence < sequences
  void restart(std::size_t sequence) noexcept;
  /// Takes tokens of one sequence, at least one, by blocks and then one by one, and gives the logits after the last,
  /// [vocabulary]; they stay until the next call.
  /// @error out_of_range: no such sequence, or an id outside the vocabulary; full: more tokens than the context holds;
  ///        both before anything is computed; not_finite: a logit, the tokens are taken
  Result<std::span<const float>> accept(std::size_t sequence, std::span<const text::TokenId> ids);

  /// As `accept`, without logits: for tokens that more will follow.
  Status take(std::size_t sequence, std::span<const text::TokenId> ids);
  /// Takes up to kMostEach tokens of one sequence in one pass and gives the logits after each, [ids, vocabulary]; they
  /// stay until the next call and may be not finite (check_logits): tokens that were only guessed can have any.
  /// @error as `accept`, but for logits; invalid_argument: more than kMostEach
  Result<std::span<const float>> accept_each(std::size_t sequence, std::span<const text::TokenId> ids);
  static constexpr std::size_t kMostEach = 32;
  /// Makes the pass of `accept_each` for so many tokens, else it is made when it is needed first.
  /// @error as `with_context`; invalid_argument: more than kMostEach
  Status prepare(std::size_t tokens);
  /// Tokens that a sequence takes. `accept_together` sets `logits`: those after each token, [vocabulary]; they stay
  /// until the next call and may be not finite.
  struct Run {
    std::size_t sequence = 0;
    std::span<const text::TokenId> ids;
    std::vector<std::span<const float>> logits{};
  };
  /// Takes tokens of several sequences, of each as many as there are, in one pass (ragged rows): all weights are read
  /// once. On a device by one sequence after the other.
  /// @error as `accept_each`; invalid_argument: sequences that do not ascend, or more than kMostTogether tokens; all
  ///        before anything is computed
  Status accept_together(std::span<Run> runs);
  /// Makes its pass, which is else made when it is needed first. @error as `with_context`, can_roll_back
  Status prepare_together();
  static constexpr std::size_t kMostTogether = 32;

  /// Success where sequences can be rolled back. @error unsupported: a layer whose state is not what each token left
  /// (mesh::TokenwiseState), naming its type
  Status can_roll_back() const;
  /// Forgets all tokens of a sequence but the first `length`, with the bits as if the others had never been taken. No
  /// key or value is lost by tokens that were taken since, of layers with a window neither. Costs nothing.
  /// @error as `can_roll_back`; out_of_range: no such sequence, fewer tokens than `length`
  Status roll_back(std::size_t sequence, std::size_t length);
  /// As `roll_back` to none, and gives the memory of keys and values back. @pre can_roll_back()
  void release(std::size_t sequence) noexcept;
  /// Floats of what `tokens` tokens left in all layers: their keys and values. @pre can_roll_back()
  std::size_t part_size(std::size_t tokens) const noexcept;
  /// Copies what tokens `first` to `first` + `tokens` left out of a sequence; or into one what the tokens `ids` left
  /// there, which has then taken these tokens and those before, with the bits as if it had computed them.
  /// @pre can_roll_back(); `first` is a multiple of 16; the position, or for `load_part` the context, is at least first
  ///      + tokens, and first is no more than the position; memory of part_size(tokens) floats
  void save_part(std::size_t sequence, std::size_t first, std::size_t tokens, float* to) noexcept;
  void load_part(const float* from, std::size_t sequence, std::span<const text::TokenId> ids,
                 std::size_t first) noexcept;
  /// Digest of a sequence's state: that of its tokens, whatever was rolled back. @pre sequence < sequences
  Hash128 state_hash(std::size_t sequence) const;

  /// Input of the layer that makes the logits, for the last token of `accept` or `accept_each`; until the next call of
  /// anything.
  std::span<const float> features() const noexcept;

  /// Levels and dispatches of the command graphs that a device ran since the last call; zeros without one.
  struct DeviceWork {
    std::uint64_t levels = 0, dispatches = 0;
  };
  DeviceWork take_device_work() noexcept;

  /// A token that a sequence takes. `step` sets the rest: `logits` [vocabulary], which stay until the next call, or
  /// `outcome`, not_finite: a logit, the token is taken. Other sequences go on.
  struct Step {
    std::size_t sequence = 0;
    text::TokenId id = 0;
    std::span<const float> logits{};
    Status outcome{};
  };
  /// One token of each, in one pass; of states that are not tokenwise and on a device one for each group of sequences
  /// that stand side by side.
  /// @error as `accept`, but for logits; invalid_argument: sequences that do not ascend; all before anything is
  /// computed
  Status step(std::span<Step> steps);

 private:
  struct Parts;
  explicit DecodingBatch(std::unique_ptr<Parts> parts);
  Status check_sequence(std::size_t sequence) const;
  Status accept_on_device(std::span<Run> runs);
  Status check_ascending(std::size_t sequence, std::size_t before) const;
  Status check(std::size_t sequence, std::span<const text::TokenId> ids) const;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::models
