// SPDX-License-Identifier: Apache-2.0
// Turns pairs of elements by the angles of a table or of rope_angles.comp: y = fma(x, cos, partner (+-sin)).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 1) const bool INTERLEAVED = false;
layout(constant_id = 2) const bool TRANSPOSED = false;
layout(constant_id = 3) const bool HAS_TABLE = false;  // [positions][2][2 pairs], which all sessions start from
// angle_tokens: 0 where sessions share their angles.
#include "attention_operands.inc"
#define WEFT_OPERANDS WEFT_ROPE_OPERANDS
#include "operands.glsl"
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Angles { vec2 at[]; };

void main() {
  load_operands();
  uint width = cols / tokens, heads = cols / head_dim, rest = head_dim - 2 * pairs;
  for (uint b = gl_WorkGroupID.y; b < rows; b += gl_NumWorkGroups.y)
    for (uint i = gl_GlobalInvocationID.x; i < heads * pairs; i += gl_NumWorkGroups.x * 128) {
      uint head = i / pairs, pair = i % pairs, t = head * head_dim / width;
      uint a = INTERLEAVED ? 2 * pair : pair, z = a + (INTERLEAVED ? 1 : pairs);
      uint first = head * head_dim + a, second = head * head_dim + z;
      vec2 angle;
      if (HAS_TABLE) {
        Floats position = row_at(angles, t, 4 * pairs);
        angle = vec2(position.at[a], position.at[2 * pairs + z]);
      } else {
        angle = Angles(angles + ((uint64_t(b) * angle_tokens + t) * pairs + pair) * 8ul).at[0];
      }
      float sine = TRANSPOSED ? negated(angle.y) : angle.y;
      Floats from = row_at(x, b, x_stride), to = row_at(y, b, y_stride);
      float v = flushed(from.at[first]), w = flushed(from.at[second]);
      to.at[first] = fused(v, angle.x, mul(w, negated(sine)));
      to.at[second] = fused(w, angle.x, mul(v, sine));
    }
  // Elements behind those that turn.
  if (x == y) return;
  for (uint b = gl_WorkGroupID.y; b < rows; b += gl_NumWorkGroups.y)
    for (uint i = gl_GlobalInvocationID.x; i < heads * rest; i += gl_NumWorkGroups.x * 128) {
      uint at = i / rest * head_dim + 2 * pairs + i % rest;
      row_at(y, b, y_stride).at[at] = row_at(x, b, x_stride).at[at];
    }
}
