// SPDX-License-Identifier: Apache-2.0
// Visible keys and their positions: kernels/internal/attention_keys.hpp in GLSL. A job is a kv head of a session, a row
// of it a token and a head of the group that reads this kv head: token outermost.
#ifndef WEFT_ATTENTION
#define WEFT_ATTENTION

#include "functions.glsl"
#include "memory.glsl"
#include "position.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Call {
#include "attention_call.inc"
};

uint group_of(Call c) { return c.heads / c.kv_heads; }
uint value_width(Call c) { return (c.head_dim + 15) / 16 * 16; }

// Slot of a position; by 32 bits where they hold it, since 64 take a hundred instructions.
uint ring_slot(uint64_t position, uint slots) {
  return position >> 32 == 0ul ? uint(position) % slots : uint(position % slots);
}

// The keys that a session's call may see. Key j stands at a position that is j more than a multiple of 64.
struct Keys {
  uint64_t position;
  uint first, fresh, end, base_slot;  // the oldest key, the call's own first one, the end; the slot of key 0
};
Keys keys_of(Call c, uint session) {
  Keys keys;
  keys.position = c.slots != 0 ? read_position(row_at(c.state, session, c.state_stride), 0) : 0ul;
  uint64_t oldest = keys.position + 1ul > uint64_t(c.reach) ? keys.position + 1ul - c.reach : 0ul;
  uint64_t base = oldest / 64ul * 64ul;
  keys.first = uint(oldest - base);
  keys.fresh = uint(keys.position - base);
  keys.end = keys.fresh + c.tokens;
  keys.base_slot = c.slots != 0 ? ring_slot(base, c.slots) : 0;
  return keys;
}
// Keys that token t sees, from x to before y; never none. Both rise with t.
uvec2 visible(Call c, Keys keys, uint t) {
  uint own = keys.fresh + t;
  uint low = own + 1 > c.reach + keys.first ? own + 1 - c.reach : keys.first;
  uint high = c.causal != 0 ? own + 1 : c.reach < keys.end ? min(keys.end, own + c.reach) : keys.end;
  return uvec2(low, high);
}
// Tokens that see key j; may be none.
uvec2 seen_by(Call c, Keys keys, uint j) {
  uint from = keys.fresh + (c.causal != 0 ? 0 : c.reach - 1), last = j + c.reach;
  return uvec2(j > from ? j - from : 0, last > keys.fresh ? min(c.tokens, last - keys.fresh) : 0);
}

// Numbers that stand `step_` apart.
struct Strided {
  Floats from;
  uint step_;
};
float element(Strided s, uint i) { return operand(s.from.at[i * s.step_]); }

// Start of a kv head's ring in a row of the state, its values', and elements of slots within them. In floats.
uint64_t ring_at(Call c, uint kv) { return 16ul + uint64_t(kv) * c.slots * (c.head_dim + value_width(c)); }
uint64_t ring_key(Call c, uint kv, uint slot) {
  return ring_at(c, kv) + uint64_t(slot / 16) * c.head_dim * 16ul + slot % 16;
}
uint64_t ring_value(Call c, uint kv, uint slot) {
  return ring_at(c, kv) + uint64_t(c.slots) * c.head_dim + uint64_t(slot) * value_width(c);
}
Floats at_float(uint64_t matrix, uint row, uint stride, uint64_t i) {
  return Floats(matrix + (uint64_t(row) * stride + i) * 4ul);
}
// Start of head `head` of `heads` of token t of a session.
Floats head_at(uint64_t matrix, uint session, uint stride, uint t, uint heads, uint head, uint head_dim) {
  return at_float(matrix, session, stride, (uint64_t(t) * heads + head) * head_dim);
}

uint slot_of(Call c, Keys keys, uint j) { return (keys.base_slot + j) % c.slots; }
Strided key_at(Call c, Keys keys, uint session, uint kv, uint j) {
  if (j >= keys.fresh) return Strided(head_at(c.k, session, c.k_stride, j - keys.fresh, c.kv_heads, kv, c.head_dim), 1);
  return Strided(at_float(c.state, session, c.state_stride, ring_key(c, kv, slot_of(c, keys, j))), 16);
}
Strided value_at(Call c, Keys keys, uint session, uint kv, uint j) {
  if (j >= keys.fresh) return Strided(head_at(c.v, session, c.v_stride, j - keys.fresh, c.kv_heads, kv, c.head_dim), 1);
  return Strided(at_float(c.state, session, c.state_stride, ring_value(c, kv, slot_of(c, keys, j))), 1);
}

// Scores of rows that have a mask (kernels/attention.hpp): a hidden key's, by
// -1e30 and less, is -inf.
uint64_t mask_at(Call c, uint head, uint t, uint j) {
  return (uint64_t(head) * c.mask_head + uint64_t(t) * c.mask_token + uint64_t(j) * c.mask_key) * 4ul;
}
float masked(Call c, uint session, uint head, uint t, uint j, float score_) {
  float number = flushed(Floats(c.mask + uint64_t(session) * c.mask_stride * 4ul + mask_at(c, head, t, j)).at[0]);
  return number <= uintBitsToFloat(0xf149f2cau) ? -INFINITY : add(score_, number);
}
float exp_of_seen(float score_, float largest) {
  return score_ == -INFINITY ? 0.0 : exact_exp(sub(score_, largest));
}

// Rule R1 over the elements of a head.
float score(Floats q, Strided k, uint n) {
  float total = 0.0;
  for (uint first = 0; first < n; first += 64) {
    float sum = 0.0;
    for (uint i = first; i < min(n, first + 64); ++i) sum = fused(element(k, i), operand(q.at[i]), sum);
    total = add(total, sum);
  }
  return total;
}

#endif  // WEFT_ATTENTION
