// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/attention_keys.hpp"

#include "kernels/internal/position.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace weft::kernels {
namespace detail {
namespace {

constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max() / 4;

std::size_t reach_of(const AttentionShape& shape) noexcept {
  return std::min(shape.context ? shape.context : kUnbounded, shape.window ? shape.window : kUnbounded);
}

}  // namespace

Keys::Keys(const AttentionShape& shape, const float* state) noexcept
    : shape_(shape), reach_(reach_of(shape)), position_(state ? read_position(state) : 0) {
  const std::uint64_t oldest = position_ + 1 > reach_ ? position_ + 1 - reach_ : 0;
  base_ = oldest / kChunk * kChunk;
  first_ = static_cast<std::size_t>(oldest - base_);
  fresh_ = static_cast<std::size_t>(position_ - base_);
}

Range Keys::visible(std::size_t t) const noexcept {
  const std::size_t own = fresh_ + t, end = this->end();
  return {own + 1 > reach_ + first_ ? own + 1 - reach_ : first_,
          shape_.causal ? own + 1 : std::min(end, reach_ < end ? own + reach_ : end)};
}

Range Keys::seen_by(std::size_t j) const noexcept {
  const std::size_t behind = shape_.causal ? 0 : reach_ - 1;  // how far before a key its readers begin
  const std::size_t from = fresh_ + behind, last = j + reach_;
  return {j > from ? j - from : 0, last > fresh_ ? std::min(shape_.tokens, last - fresh_) : 0};
}

std::size_t most_keys(const AttentionShape& shape) noexcept {
  const std::size_t old = shape.context ? reach_of(shape) - 1 : 0;
  return round_up(old + shape.tokens + kChunk - 1, kChunk);
}

// Calls visit(key, value, at): where a token's key and value of one head stand in the next state, and where in k and v.
// Tokens that later ones of the call push out again are left out.
template <class Visit>
void for_appended(const AttentionShape& shape, const Keys& keys, std::size_t kv, const Visit& visit) noexcept {
  const Ring ring(shape);
  for (std::size_t t = shape.tokens - std::min(shape.tokens, ring.slots); t < shape.tokens; ++t) {
    const std::size_t slot = ring.slot(keys.position() + t);
    visit(ring.key(kv, slot), ring.value(kv, slot), (t * shape.kv_heads + kv) * shape.head_dim);
  }
}

bool joins_ring(const AttentionShape& shape, const Keys& keys) noexcept {
  return keys.end() - keys.first() <= Ring(shape).slots;
}

void append_position(const AttentionShape& shape, const Keys& keys, float* next_state) noexcept {
  std::fill_n(next_state, Ring::kHeader, 0.0f);
  write_position(keys.position() + shape.tokens, next_state);
}

void append_head(const AttentionShape& shape, const Keys& keys, std::size_t kv, const float* k, const float* v,
                 const float* state, float* next_state) noexcept {
  const Ring ring(shape);
  const std::size_t n = shape.head_dim, padding = ring.value_width - n, head = ring.head(kv);
  if (next_state != state) std::memcpy(next_state + head, state + head, ring.head_size * sizeof(float));
  for_appended(shape, keys, kv, [&](std::size_t key, std::size_t value, std::size_t at) {
    for (std::size_t i = 0; i < n; ++i) next_state[key + i * kPanelWidth] = k[at + i];
    std::memcpy(next_state + value, v + at, n * sizeof(float));
    std::fill_n(next_state + value + n, padding, 0.0f);
  });
}

void append(const AttentionShape& shape, const Keys& keys, const float* k, const float* v, const float* state,
            float* next_state) noexcept {
  append_position(shape, keys, next_state);
  for (std::size_t kv = 0; kv < shape.kv_heads; ++kv) append_head(shape, keys, kv, k, v, state, next_state);
}

void pass_state(const AttentionShape& shape, const Keys& keys, const float* dnext_state, float* dstate) noexcept {
  const std::size_t size = attention_state_size(shape), n = shape.head_dim, width = Ring(shape).value_width;
  if (!dnext_state) {
    std::fill_n(dstate, size, 0.0f);
    return;
  }
  std::memcpy(dstate, dnext_state, size * sizeof(float));
  std::fill_n(dstate, Ring::kHeader, 0.0f);
  for (std::size_t kv = 0; kv < shape.kv_heads; ++kv)
    for_appended(shape, keys, kv, [&](std::size_t key, std::size_t value, std::size_t) {
      for (std::size_t i = 0; i < n; ++i) dstate[key + i * kPanelWidth] = 0.0f;
      std::fill_n(dstate + value, width, 0.0f);
    });
}

void add_appended(const AttentionShape& shape, const Keys& keys, const float* dnext_state, float* dk,
                  float* dv) noexcept {
  for (std::size_t kv = 0; kv < shape.kv_heads; ++kv)
    for_appended(shape, keys, kv, [&](std::size_t key, std::size_t value, std::size_t at) {
      for (std::size_t i = 0; i < shape.head_dim; ++i) {
        dk[at + i] += dnext_state[key + i * kPanelWidth];
        dv[at + i] += dnext_state[value + i];
      }
    });
}

}  // namespace detail

std::size_t attention_state_size(const AttentionShape& shape) noexcept {
  return shape.context == 0 ? 0 : detail::Ring(shape).head(shape.kv_heads);
}

std::size_t attention_units(const AttentionShape& shape, std::size_t rows) noexcept {
  return rows * shape.heads * shape.tokens;
}

double attention_work(const AttentionShape& shape, const AttentionOperands& operands, std::size_t rows) noexcept {
  // Of one token, to read a key takes longer than to multiply it.
  const double each = (shape.tokens == 1 ? 6.0 : 2.0) * static_cast<double>(attention_units(shape, 1) * shape.head_dim);
  double work = 0;
  for (std::size_t b = 0; b < rows; ++b) {
    const detail::Keys keys(shape, shape.context ? operands.state.row(b) : nullptr);
    work += each * static_cast<double>(keys.end() - keys.first());
  }
  return work;
}

void attention_meet(const AttentionShape& shape, const AttentionOperands& operands, const MatrixView& next_state,
                    std::size_t unit) noexcept {
  const std::size_t of_row = attention_units(shape, 1), of_kv = of_row / shape.kv_heads, b = unit / of_row;
  if (shape.context == 0 || unit % of_kv == 0) return;
  const float* const state = operands.state.row(b);
  const detail::Keys keys(shape, state);
  if (detail::joins_ring(shape, keys))
    detail::append_head(shape, keys, unit % of_row / of_kv, operands.k.row(b), operands.v.row(b), state,
                        next_state.row(b));
}

void attention_end(const AttentionShape& shape, const AttentionOperands& operands,
                   const MatrixView& next_state) noexcept {
  for (std::size_t b = 0; shape.context != 0 && b < next_state.rows; ++b) {
    const float* const state = operands.state.row(b);
    const detail::Keys keys(shape, state);
    if (detail::joins_ring(shape, keys))
      detail::append_position(shape, keys, next_state.row(b));
    else
      detail::append(shape, keys, operands.k.row(b), operands.v.row(b), state, next_state.row(b));
  }
}

std::size_t attention_mask_size(const AttentionShape& shape) noexcept {
  if (!shape.has_mask()) return 0;
  const AttentionMask& mask = shape.mask;
  return 1 + (shape.heads - 1) * mask.head + (shape.tokens - 1) * (mask.token + mask.key);
}

std::size_t attention_statistics_size(const AttentionShape& shape) noexcept { return 2 * shape.heads * shape.tokens; }

}  // namespace weft::kernels
