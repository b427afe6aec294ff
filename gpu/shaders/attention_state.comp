// SPDX-License-Identifier: Apache-2.0
// The next state of an attention: the last one, with the call's last keys and values over the oldest ones. Backwards:
// the errors of slots that outlive the call. Bits move as they are. Where the next state lies over the last one, what
// the call adds is written first (PART 1), and then the position (PART 2), which the former reads.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "attention.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
layout(constant_id = 1) const bool BACKWARD = false;
layout(constant_id = 2) const uint PART = 0;
#include "attention_operands.inc"
#define WEFT_OPERANDS WEFT_CALL_OPERANDS
#include "operands.glsl"

Words word_at(uint64_t matrix, uint row, uint stride, uint64_t i) {
  return Words(matrix + (uint64_t(row) * stride + i) * 4ul);
}

uint header(uint64_t position, uint i) {
  if (BACKWARD || i > 1) return 0u;
  return bits(float(uint(position >> 24 * i & 0xfffffful)));
}

// Next value of element r of a kv head's ring.
uint word_of(Call c, Keys keys, uint session, uint kv, uint r) {
  uint n = c.head_dim, width = value_width(c), all_keys = c.slots * n, slot, i;
  bool is_key = r < all_keys;
  if (is_key) {
    slot = r / (n * 16) * 16 + r % 16;
    i = r % (n * 16) / 16;
  } else {
    slot = (r - all_keys) / width;
    i = (r - all_keys) % width;
  }
  uint t = (slot + c.slots - uint(keys.position % c.slots)) % c.slots;
  if (t >= c.tokens) {
    if (!BACKWARD) return word_at(c.state, session, c.state_stride, ring_at(c, kv) + r).at[0];
    return c.dnext_state != 0ul ? word_at(c.dnext_state, session, c.dnext_stride, ring_at(c, kv) + r).at[0] : 0u;
  }
  if (BACKWARD || i >= n) return 0u;
  t += (c.tokens - 1 - t) / c.slots * c.slots;  // the last of the call's tokens that come by this slot
  uint64_t place = (uint64_t(t) * c.kv_heads + kv) * n + i;
  return is_key ? word_at(c.k, session, c.k_stride, place).at[0] : word_at(c.v, session, c.v_stride, place).at[0];
}

// Element e of the keys and values that the call leaves of a kv head.
void append(Call c, Keys keys, uint session, uint kv, uint e) {
  uint n = c.head_dim, width = value_width(c), t = c.tokens - min(c.tokens, c.slots) + e / width, i = e % width;
  uint slot = uint((keys.position + t) % c.slots);
  uint64_t place = (uint64_t(t) * c.kv_heads + kv) * n + i;
  if (i < n)
    word_at(c.next_state, session, c.next_stride, ring_key(c, kv, slot) + uint64_t(i) * 16ul).at[0] =
        word_at(c.k, session, c.k_stride, place).at[0];
  word_at(c.next_state, session, c.next_stride, ring_value(c, kv, slot) + i).at[0] =
      i < n ? word_at(c.v, session, c.v_stride, place).at[0] : 0u;
}

void main() {
  load_operands();
  Call c = Call(call);
  if (PART == 2) {
    for (uint session = gl_GlobalInvocationID.x; session < c.jobs / c.kv_heads;
         session += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
      uint64_t position = keys_of(c, session).position + c.tokens;
      for (uint i = 0; i < 16; ++i) word_at(c.next_state, session, c.next_stride, i).at[0] = header(position, i);
    }
    return;
  }
  if (PART == 1) {
    uint added = min(c.tokens, c.slots) * value_width(c);
    for (uint job = gl_WorkGroupID.y; job < c.jobs; job += gl_NumWorkGroups.y) {
      Keys keys = keys_of(c, job / c.kv_heads);
      for (uint e = gl_GlobalInvocationID.x; e < added; e += gl_NumWorkGroups.x * gl_WorkGroupSize.x)
        append(c, keys, job / c.kv_heads, job % c.kv_heads, e);
    }
    return;
  }
  uint size = c.slots * (c.head_dim + value_width(c));
  uint64_t to = BACKWARD ? c.dstate : c.next_state;
  uint stride = BACKWARD ? c.dstate_stride : c.next_stride;
  for (uint job = gl_WorkGroupID.y; job < c.jobs; job += gl_NumWorkGroups.y) {
    uint session = job / c.kv_heads, kv = job % c.kv_heads;
    Keys keys = keys_of(c, session);
    for (uint r = gl_GlobalInvocationID.x; r < size; r += gl_NumWorkGroups.x * gl_WorkGroupSize.x)
      word_at(to, session, stride, ring_at(c, kv) + r).at[0] = word_of(c, keys, session, kv, r);
    if (kv == 0 && gl_GlobalInvocationID.x < 16)
      word_at(to, session, stride, gl_GlobalInvocationID.x).at[0] =
          header(keys.position + c.tokens, gl_GlobalInvocationID.x);
  }
}
