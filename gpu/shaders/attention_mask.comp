// SPDX-License-Identifier: Apache-2.0
// Gradients of a mask's numbers, of what attention.comp left backwards: a thread sums one over the queries that share
// it, heads ascending, tokens ascending. A session whose heads come in several dispatches goes on from its sums.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "attention.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
#include "attention_operands.inc"
#define WEFT_OPERANDS WEFT_CALL_OPERANDS
#include "operands.glsl"

void main() {
  load_operands();
  Call c = Call(call);
  uint group = group_of(c), rows = c.tokens * group, end = c.first_job + c.jobs;
  uint heads = c.mask_head != 0 ? c.heads : 1, tokens = c.mask_token != 0 ? c.tokens : 1;
  uint first = c.first_job / c.kv_heads, last = (end - 1) / c.kv_heads;
  for (uint session = first + gl_WorkGroupID.y; session <= last; session += gl_NumWorkGroups.y)
    for (uint at = gl_GlobalInvocationID.x; at < heads * tokens * c.tokens;
         at += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
      uint j = at % c.tokens, own_t = at / c.tokens % tokens, own_head = at / c.tokens / tokens;
      Floats to = Floats(c.dmask + uint64_t(session) * c.dmask_stride * 4ul + mask_at(c, own_head, own_t, j));
      uvec2 readers = seen_by(c, keys_of(c, session), j);
      if (tokens > 1) readers = uvec2(max(readers.x, own_t), min(readers.y, own_t + 1));
      // kv heads of the session in this dispatch; those that share the number.
      uint low = max(session * c.kv_heads, c.first_job), high = min((session + 1) * c.kv_heads, end);
      float sum = low == session * c.kv_heads ? 0.0 : to.at[0];
      for (uint job = low; job < high; ++job)
        for (uint g = 0; g < group; ++g) {
          if (heads > 1 && (job % c.kv_heads) * group + g != own_head) continue;
          for (uint t = readers.x; t < readers.y; ++t) {
            uint64_t place = (uint64_t(job - c.first_job) * rows + t * group + g) * c.most_keys + j;
            sum = add(sum, Floats(c.gaps + place * 4ul).at[0]);
          }
        }
      to.at[0] = sum;
    }
}
