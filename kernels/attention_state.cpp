// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention_state.hpp"

#include "kernels/internal/attention_keys.hpp"
#include "kernels/internal/position.hpp"
#include "kernels/op_stream.hpp"

#include <algorithm>
#include <cstring>

namespace weft::kernels {
namespace {

/// Keys and values of one head: whole panels, and the tokens of one that is not whole.
struct HeadPart {
  HeadPart(const detail::Ring& ring, std::size_t tokens) noexcept
      : whole(tokens / kPanelWidth * kPanelWidth * ring.head_dim),
        rest(tokens % kPanelWidth),
        keys(detail::round_up(tokens, kPanelWidth) * ring.head_dim),
        values(tokens * ring.value_width) {}
  std::size_t size() const noexcept { return keys + values; }
  std::size_t whole, rest, keys, values;
};

}  // namespace

void attention_cut(OpStream& stream, std::size_t tokens, float* state) {
  stream.fill({0.0f, {state, 1, detail::Ring::kHeader, detail::Ring::kHeader}});
  float position[2] = {};
  detail::write_position(tokens, position);
  for (std::size_t i = 0; i < 2; ++i)
    if (position[i] != 0.0f) stream.fill({position[i], {state + i, 1, 1, 1}});
}

std::size_t attention_saved_size(const AttentionShape& shape, std::size_t tokens) noexcept {
  return shape.context == 0 ? 0 : shape.kv_heads * HeadPart(detail::Ring(shape), tokens).size();
}

void attention_save(const AttentionShape& shape, const float* state, std::size_t first, std::size_t tokens,
                    float* to) noexcept {
  if (shape.context == 0 || tokens == 0) return;
  const detail::Ring ring(shape);
  const HeadPart part(ring, tokens);
  for (std::size_t kv = 0; kv < shape.kv_heads; ++kv, to += part.size()) {
    const float* const keys = state + ring.key(kv, first);
    std::memcpy(to, keys, part.whole * sizeof(float));
    for (std::size_t i = 0; part.rest != 0 && i < ring.head_dim; ++i) {
      float* const row = to + part.whole + i * kPanelWidth;
      std::copy_n(keys + part.whole + i * kPanelWidth, part.rest, row);
      std::fill(row + part.rest, row + kPanelWidth, 0.0f);
    }
    std::memcpy(to + part.keys, state + ring.value(kv, first), part.values * sizeof(float));
  }
}

void attention_load(const AttentionShape& shape, const float* from, std::size_t first, std::size_t tokens,
                    float* state) noexcept {
  if (shape.context == 0) return;
  const detail::Ring ring(shape);
  const HeadPart part(ring, tokens);
  for (std::size_t kv = 0; kv < shape.kv_heads; ++kv, from += part.size()) {
    float* const keys = state + ring.key(kv, first);
    std::memcpy(keys, from, part.whole * sizeof(float));
    for (std::size_t i = 0; part.rest != 0 && i < ring.head_dim; ++i)
      std::copy_n(from + part.whole + i * kPanelWidth, part.rest, keys + part.whole + i * kPanelWidth);
    std::memcpy(state + ring.value(kv, first), from + part.keys, part.values * sizeof(float));
  }
}

void attention_places(const AttentionShape& shape, std::size_t first, std::size_t tokens,
                      const std::function<void(std::size_t, std::size_t)>& visit) {
  if (shape.context == 0) return;
  const detail::Ring ring(shape);
  const HeadPart part(ring, tokens);
  visit(0, detail::Ring::kHeader);
  for (std::size_t kv = 0; tokens != 0 && kv < shape.kv_heads; ++kv) {
    visit(ring.key(kv, first), part.keys);
    visit(ring.value(kv, first), part.values);
  }
}

}  // namespace weft::kernels
