// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"

#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace weft::models {

/// Several sequences of tokens through one language model, in binary32. A step takes a token of each of some of them in
/// one pass, so that weights are read once for all. Sequences begin, go on and end independently of one another.
/// @exact  each sequence has the bits that it has alone (Decoding), whatever the others do
/// @thread one at a time; the mesh lends its weights, outlives the batch and stays as it is
class DecodingBatch {
 public:
  /// `context`: tokens that each sequence can take. Memory of all sequences is taken at once. `max_memory`: bytes, 0:
  /// no bound of its own.
  /// @error as `with_context`; invalid_argument: no sequences, no context; too_large: its memory, by estimate
  static Result<DecodingBatch> begin(const mesh::Mesh& mesh, std::size_t sequences, std::size_t context,
                                     std::uint64_t max_memory = 0);
  DecodingBatch(DecodingBatch&&) noexcept;
  DecodingBatch& operator=(DecodingBatch&&) noexcept;
  ~DecodingBatch();

  std::size_t context() const noexcept;
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

  /// Input of the layer that makes the logits, for the last token of `accept`; until the next call of anything.
  std::span<const float> features() const noexcept;

  /// A token that a sequence takes. `step` sets the rest: `logits` [vocabulary], which stay until the next call, or
  /// `outcome`, not_finite: a logit, the token is taken. Other sequences go on.
  struct Step {
    std::size_t sequence = 0;
    text::TokenId id = 0;
    std::span<const float> logits{};
    Status outcome{};
  };
  /// One token of each, in one pass where the sequences stand side by side.
  /// @error as `accept`, but for logits; invalid_argument: sequences that do not ascend; all before anything is
  /// computed
  Status step(std::span<Step> steps);

 private:
  struct Parts;
  explicit DecodingBatch(std::unique_ptr<Parts> parts);
  Status check(std::size_t sequence, std::span<const text::TokenId> ids) const;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::models
