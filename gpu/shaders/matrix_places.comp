// SPDX-License-Identifier: Apache-2.0
// Places of a matrix's elements (byte_matrices.glsl): y[8 l + i] is that of element i of the subgroup's lane l.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#include "byte_matrices.glsl"

layout(local_size_x = 32) in;
#include "self_test_operands.inc"
#define WEFT_OPERANDS WEFT_MATRIX_PLACES_OPERANDS
#include "operands.glsl"
shared uint places[256];

void main() {
  load_operands();
  uint id = gl_LocalInvocationID.x;
  for (uint i = id; i < 256; i += 32) places[i] = i;
  barrier();
  Sums at;
  LOAD_SUMS(at, places, 0, 16);
  [[unroll]] for (uint i = 0; i < 8; ++i) Words(y).at[gl_SubgroupInvocationID * 8 + i] = uint(ELEMENT(at, i));
}
