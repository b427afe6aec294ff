// SPDX-License-Identifier: Apache-2.0
// dk and dv of what attention.comp left backwards: a thread sums one element of a key over its readers, heads of the
// group ascending, tokens ascending.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "attention.glsl"

layout(local_size_x = 64, local_size_y = 4, local_size_y_id = 13) in;
#include "attention_operands.inc"
#define WEFT_OPERANDS WEFT_CALL_OPERANDS
#include "operands.glsl"

// The call's token t goes into the next state, and not out again at once.
bool is_kept(Call c, uint t) { return c.slots != 0 && t + c.slots >= c.tokens; }

void give(Call c, Keys keys, uint session, uint kv, uint j, uint i, float dk, float dv) {
  dk = add(dk, 0.0);
  dv = add(dv, 0.0);
  if (j >= keys.fresh) {
    uint t = j - keys.fresh;
    if (c.dnext_state != 0ul && is_kept(c, t)) {
      uint slot = slot_of(c, keys, j);
      dk = add(dk, flushed(at_float(c.dnext_state, session, c.dnext_stride, ring_key(c, kv, slot)).at[i * 16]));
      dv = add(dv, flushed(at_float(c.dnext_state, session, c.dnext_stride, ring_value(c, kv, slot)).at[i]));
    }
    head_at(c.dk, session, c.dk_stride, t, c.kv_heads, kv, c.head_dim).at[i] = dk;
    head_at(c.dv, session, c.dv_stride, t, c.kv_heads, kv, c.head_dim).at[i] = dv;
  } else if (c.dstate != 0ul) {
    uint slot = slot_of(c, keys, j);
    Floats key = at_float(c.dstate, session, c.dstate_stride, ring_key(c, kv, slot));
    Floats value = at_float(c.dstate, session, c.dstate_stride, ring_value(c, kv, slot));
    key.at[i * 16] = add(flushed(key.at[i * 16]), dk);
    value.at[i] = add(flushed(value.at[i]), dv);
  }
}

void main() {
  load_operands();
  Call c = Call(call);
  uint group = group_of(c), rows = c.tokens * group, n = c.head_dim;
  for (uint job = gl_WorkGroupID.y; job < c.jobs; job += gl_NumWorkGroups.y) {
    uint session = (c.first_job + job) / c.kv_heads, kv = (c.first_job + job) % c.kv_heads;
    Keys keys = keys_of(c, session);
    for (uint j = keys.first + gl_WorkGroupID.x * gl_WorkGroupSize.y + gl_LocalInvocationID.y;
         j < keys.end; j += gl_NumWorkGroups.x * gl_WorkGroupSize.y) {
      uvec2 readers = seen_by(c, keys, j);
      for (uint i = gl_LocalInvocationID.x; i < n; i += 64) {
        float dk = 0.0, dv = 0.0;
        for (uint g = 0; g < group; ++g)
          for (uint t = readers.x; t < readers.y; ++t) {
            uint64_t place = ((uint64_t(job) * rows + t * group + g) * c.most_keys + j) * 4ul;
            float q = operand(head_at(c.q, session, c.q_stride, t, c.heads, kv * group + g, n).at[i]);
            float up = operand(head_at(c.dy, session, c.dy_stride, t, c.heads, kv * group + g, n).at[i]);
            dk = fused(Floats(c.slopes + place).at[0], q, dk);
            dv = fused(Floats(c.shares + place).at[0], up, dv);
          }
        give(c, keys, session, kv, j, i, dk, dv);
      }
    }
  }
}
