// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/attention.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::kernels::detail {

inline constexpr std::size_t round_up(std::size_t n, std::size_t to) noexcept { return (n + to - 1) / to * to; }

/// [lo, hi).
struct Range {
  std::size_t lo, hi;
};

/// Numbers that stand `step` apart.
struct Strided {
  const float* at;
  std::size_t step;
};

/// Layout of a session's hidden state (attention_state_size).
struct Ring {
  explicit Ring(const AttentionShape& shape) noexcept
      : slots(round_up(shape.context, kPanelWidth)),
        head_dim(shape.head_dim),
        value_width(round_up(shape.head_dim, kPanelWidth)),
        head_size(slots * (head_dim + value_width)) {}
  /// The block of one kv head: key panels, then values.
  std::size_t head(std::size_t kv) const noexcept { return kHeader + kv * head_size; }
  std::size_t key(std::size_t kv, std::size_t slot) const noexcept {
    return head(kv) + slot / kPanelWidth * head_dim * kPanelWidth + slot % kPanelWidth;
  }
  std::size_t values(std::size_t kv) const noexcept { return head(kv) + slots * head_dim; }
  std::size_t value(std::size_t kv, std::size_t slot) const noexcept { return values(kv) + slot * value_width; }
  std::size_t slot(std::uint64_t position) const noexcept { return static_cast<std::size_t>(position % slots); }

  static constexpr std::size_t kHeader = 16;
  std::size_t slots, head_dim, value_width, head_size;
};

/// The keys that the tokens of one session's call see, in the order of their positions. Key j stands at position base +
/// j; base is a multiple of 64, so that j % 64 and j / 64 are lane and chunk.
class Keys {
 public:
  /// `state`: the session's row, null without context.
  Keys(const AttentionShape& shape, const float* state) noexcept;

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t base() const noexcept { return base_; }
  /// The oldest key that anyone sees; the call's own first key; the end.
  std::size_t first() const noexcept { return first_; }
  std::size_t fresh() const noexcept { return fresh_; }
  std::size_t end() const noexcept { return fresh_ + shape_.tokens; }
  /// Keys that token t sees; never none. Both ends rise with t.
  Range visible(std::size_t t) const noexcept;
  /// Tokens that see key j; may be none. Both ends rise with j.
  Range seen_by(std::size_t j) const noexcept;

 private:
  const AttentionShape& shape_;
  std::size_t reach_;
  std::uint64_t position_, base_;
  std::size_t first_, fresh_;
};

/// True when none of the call's tokens takes the slot of a key that one of them sees: then they may join the ring
/// before it is read. One token always may.
bool joins_ring(const AttentionShape& shape, const Keys& keys) noexcept;
/// The header of the next state.
void append_position(const AttentionShape& shape, const Keys& keys, float* next_state) noexcept;
/// Copies one head's rings, unless next_state is state, and writes the call's last keys and values over the oldest
/// ones.
void append_head(const AttentionShape& shape, const Keys& keys, std::size_t kv, const float* k, const float* v,
                 const float* state, float* next_state) noexcept;
/// All of the next state.
void append(const AttentionShape& shape, const Keys& keys, const float* k, const float* v, const float* state,
            float* next_state) noexcept;

/// dstate = dnext_state where a slot outlives the call, else 0. Null dnext_state: zeros.
void pass_state(const AttentionShape& shape, const Keys& keys, const float* dnext_state, float* dstate) noexcept;
/// dk, dv += dnext_state of the slots that they went to.
void add_appended(const AttentionShape& shape, const Keys& keys, const float* dnext_state, float* dk,
                  float* dv) noexcept;

/// The widest range of keys that a call can have, whole chunks.
std::size_t most_keys(const AttentionShape& shape) noexcept;

}  // namespace weft::kernels::detail
