// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoding_batch.hpp"

#include "mesh/mesh.hpp"

#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::models {

/// A network as models/import.hpp makes it, of so many tokens a pass, whose layers remember `context` tokens (0: as
/// they are).
/// @error shape_mismatch: no input "tokens" of one axis, or no output "logits"; unsupported: links backwards
Result<mesh::NetworkSpec> with_context(const mesh::NetworkSpec& spec, std::size_t tokens, std::size_t context);

/// One sequence of tokens through a language model, whose layers remember what they have seen. Each token passes all
/// layers at once, in topological order; the prompt by blocks of tokens, with the same bits.
/// @thread one at a time; the mesh lends its weights and stays as it is
class Decoding {
 public:
  /// @error as `with_context`; too_large: its memory, by estimate
  static Result<Decoding> begin(const mesh::Mesh& mesh, std::size_t context, std::uint64_t max_memory = 0);

  /// Takes tokens, at least one, and gives the logits after the last; they stay until the next call.
  /// @error out_of_range: an id outside the vocabulary; full: more tokens than the context holds; not_finite: a logit
  Result<std::span<const float>> accept(std::span<const text::TokenId> ids);
  /// Forgets all that it has taken, after a failure too.
  void restart() noexcept;
  /// Forgets all tokens but the first `length`. @error as DecodingBatch::roll_back
  Status roll_back(std::size_t length) { return batch_.roll_back(0, length); }
  /// Digest of what it remembers.
  Hash128 state_hash() const { return batch_.state_hash(0); }
  /// Tokens that it has taken, and those that it can take.
  std::size_t position() const noexcept;
  std::size_t context() const noexcept;
  /// Logits of a token.
  std::size_t vocabulary() const noexcept;

 private:
  explicit Decoding(DecodingBatch batch);
  DecodingBatch batch_;
};

}  // namespace weft::models
