// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/fwd.hpp"

#include <cstddef>
#include <vector>

namespace weft::mesh {

class Layer;

/// Floats of a state that stand together.
struct StatePlace {
  std::size_t first = 0, count = 0;
};

/// Hidden state that is what each token left, so that a sequence can be rolled back and its parts be copied: keys and
/// values of attention, positions. A state that mixes tokens, as that of a recurrent layer does, is none.
/// @exact  what follows has the bits of a session that took only the tokens that are left
/// @thread const calls from any thread, each on another session's state
class TokenwiseState {
 public:
  virtual ~TokenwiseState() = default;

  /// False where a part of the layer's state is not so; then nothing below may be called.
  virtual bool is_tokenwise() const noexcept { return true; }
  /// Sets how many tokens a session's state has taken, by operations of `stream`. @pre it has taken as many, or they
  /// were loaded
  virtual void cut(kernels::OpStream& stream, std::size_t tokens, float* state) const = 0;
  /// Floats that `save` writes of `tokens` tokens.
  virtual std::size_t saved_size(std::size_t tokens) const noexcept = 0;
  /// Copies what tokens `first` to `first` + `tokens` left out of a state, and back into one; `cut` then says how many
  /// it has. @pre `first` is a multiple of 16; the context holds first + tokens
  virtual void save(const float* state, std::size_t first, std::size_t tokens, float* to) const noexcept = 0;
  virtual void load(const float* from, std::size_t first, std::size_t tokens, float* state) const noexcept = 0;
  /// Adds where in a state, `offset` counted in, such tokens left something, and where their count stands.
  virtual void add_places(std::size_t first, std::size_t tokens, std::size_t offset,
                          std::vector<StatePlace>& to) const = 0;
};

/// That of a layer; null where it has a state of another kind.
const TokenwiseState* tokenwise_state(const Layer& layer) noexcept;

}  // namespace weft::mesh
