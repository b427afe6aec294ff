// SPDX-License-Identifier: Apache-2.0
// linear_integer_tile.comp on the device's matrix units (byte_matrices.glsl): tiles of 128 outputs by 128 rows, 64 rows
// by 32 outputs a subgroup. A matrix has 32 inputs, a block; so each product is scaled and added as rule R1 wants.
#version 460
#extension GL_GOOGLE_include_directive : require
#define WEFT_PACKED_DOTS  // a device with matrix units has them
#extension GL_KHR_shader_subgroup_basic : require
#include "byte_matrices.glsl"

layout(local_size_x = 256) in;
// Elements of sums stand where NVIDIA's hardware has them: eight of lane l of a subgroup, i of them at row
// l / 4 + i / 4 * 8 and output l % 4 * 2 + i % 2 + i / 2 % 2 * 8. Else each looks up its place.
layout(constant_id = 7) const bool IS_REGULAR = false;
#include "linear_codes.glsl"
#include "code_dots.glsl"
#include "matrix_stage.glsl"

const uint kSide = 16, kElements = kSide * kSide / 32;  // of a matrix; a thread's of them
const uint kRowMatrices = 4, kOutputMatrices = 2;       // of a subgroup
float total[kRowMatrices][kOutputMatrices][kElements];
uint rows_of[kElements], outputs_of[kElements];  // where in a matrix a thread's elements stand
shared uint places[kSide * kSide];

void find_places() {
  if (IS_REGULAR) {
    uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0; i < kElements; ++i) {
      rows_of[i] = lane / 4 + i / 4 * 8;
      outputs_of[i] = lane % 4 * 2 + i % 2 + i / 2 % 2 * 8;
    }
    return;
  }
  places[gl_LocalInvocationID.x] = gl_LocalInvocationID.x;
  barrier();
  Sums at;
  LOAD_SUMS(at, places, 0, kSide);
  [[unroll]] for (uint i = 0; i < kElements; ++i)
    rows_of[i] = uint(ELEMENT(at, i)) / kSide, outputs_of[i] = uint(ELEMENT(at, i)) % kSide;
}

// The first quad among the tile's outputs of a subgroup's matrix: of a gated pair, which has half of the tile from
// each, both halves have one, for the same outputs.
uint first_quad(uint subgroup, uint n) {
  uint strip = subgroup % 4;
  return kMatrices == 1 ? strip * 8 + n * 4 : n * 16 + strip * 4;
}
uint first_row(uint subgroup, uint r) { return subgroup / 4 * 64 + r * kSide; }

// Scales of a row, of both blocks, and of two outputs: of elements i and i + 1.
vec2 row_scales_at(uint first, uint i) { return row_scales[first + rows_of[i]]; }
vec2 output_scales_at(uint b, uint first, uint i) {
  if (IS_REGULAR) return output_scales[b][(first + outputs_of[i]) / 2];
  uint one = first + outputs_of[i], other = first + outputs_of[i + 1];
  return vec2(output_scales[b][one / 2][one % 2], output_scales[b][other / 2][other % 2]);
}

void add_chunk(uint subgroup) {
  Values values[kRowMatrices][2];
  vec2 scales_of_rows[kRowMatrices][kElements / 4];
  [[unroll]] for (uint r = 0; r < kRowMatrices; ++r) {
    uint first = first_row(subgroup, r);
    [[unroll]] for (uint b = 0; b < 2; ++b) LOAD_VALUES(values[r][b], value_bytes, first * kStride + b * 2, kStride);
    [[unroll]] for (uint h = 0; h < kElements / 4; ++h) scales_of_rows[r][h] = row_scales_at(first, h * 4);
  }
  [[unroll]] for (uint n = 0; n < kOutputMatrices; ++n) {
    uint o = first_quad(subgroup, n) * 4;
    Codes codes[2];
    vec2 scales_of_outputs[2][kElements / 2];
    [[unroll]] for (uint b = 0; b < 2; ++b) {
      LOAD_CODES(codes[b], code_bytes, o * kStride + b * 2, kStride);
      if (kHasBlocks)
        [[unroll]] for (uint i = 0; i < kElements; i += 2)
          scales_of_outputs[b][i / 2] =
              IS_REGULAR && i >= 4 ? scales_of_outputs[b][i / 2 - 2] : output_scales_at(b, o, i);
    }
    [[unroll]] for (uint r = 0; r < kRowMatrices; ++r) {
      float sum[kElements];
      [[unroll]] for (uint i = 0; i < kElements; ++i) sum[i] = 0.0;
      [[unroll]] for (uint b = 0; b < 2; ++b) {
        Sums exact = Sums(int(kBaseBits));
        exact = MULTIPLIED(values[r][b], codes[b], exact);
        [[unroll]] for (uint i = 0; i < kElements; ++i) {
          int integer = ELEMENT(exact, i);
          if (DTYPE == kUint8) {
            uint row = first_row(subgroup, r) + rows_of[i];
            integer += output_zero_points[b][o + outputs_of[i]] * (row_sums[b][0][row] + row_sums[b][1][row]);
          }
          float number = sub(intBitsToFloat(integer), from_bits(kBaseBits));
          float factor = IS_REGULAR ? scales_of_rows[r][i / 4][b] : row_scales_at(first_row(subgroup, r), i)[b];
          if (kHasBlocks) factor = mul(factor, scales_of_outputs[b][i / 2][i % 2]);
          sum[i] = fused(number, factor, sum[i]);
        }
      }
      [[unroll]] for (uint i = 0; i < kElements; ++i) total[r][n][i] = add(total[r][n][i], sum[i]);
    }
  }
}

// A subgroup's totals pass through shared memory, that threads have four outputs of a row side by side.
shared float settled_totals[8][kSide * kSide];
vec4 quad_of_totals(uint subgroup, uint item) {
  vec4 values;
  [[unroll]] for (uint j = 0; j < 4; ++j) values[j] = settled_totals[subgroup][item / 4 * kSide + item % 4 * 4 + j];
  return values;
}
void settle(uint subgroup, uint r, uint n) {
  subgroupMemoryBarrierShared();
  subgroupBarrier();
  [[unroll]] for (uint i = 0; i < kElements; ++i)
    settled_totals[subgroup][rows_of[i] * kSide + outputs_of[i]] = total[r][n][i];
  subgroupMemoryBarrierShared();
  subgroupBarrier();
}

vec4 gate[2];
void finish_matrix(uint subgroup, uint r, uint n, uint m, uint row, uint tile) {
  settle(subgroup, r, n);
  [[unroll]] for (uint l = 0; l < 2; ++l) {
    uint item = gl_SubgroupInvocationID + l * 32, at_row = row + first_row(subgroup, r) + item / 4;
    uint in_matrix = (first_quad(subgroup, n) + item % 4) % (kOutputs / 4);
    uint panel = tile * (kOutputs / 16) + in_matrix / 4, quad = in_matrix % 4, o = panel * 16 + quad * 4;
    if (panel * 16 >= outputs || at_row >= rows) continue;
    vec4 sums = quad_of_totals(subgroup, item), biases = bias_quad(m, o);
    if (!kHasBlocks) sums = each_mul(sums, scale_quad(weight(m), panel, 0, quad));
#ifdef WEFT_GATED
    if (m == 0)
      gate[l] = finish_gate(sums, biases, at_row, o);
    else
      finish_up(sums, biases, gate[l], at_row, o);
#else
    finish(sums, biases, at_row, o);
#endif
  }
}
// Without a loop: totals that a loop's variable indexes leave the registers.
void finish_rows(uint subgroup, uint r, uint row, uint tile) {
  finish_matrix(subgroup, r, 0, 0, row, tile);
  finish_matrix(subgroup, r, 1, kMatrices - 1, row, tile);
}
void finish_tile(uint subgroup, uint row, uint tile) {
  finish_rows(subgroup, 0, row, tile);
  finish_rows(subgroup, 1, row, tile);
  finish_rows(subgroup, 2, row, tile);
  finish_rows(subgroup, 3, row, tile);
}

// A tile a group: a loop over tiles costs registers, of which this shader has none to spare. So does keeping what only
// the end needs.
void main() {
  load_operands();
  find_places();
  uint subgroup = gl_SubgroupID, row = gl_WorkGroupID.y * kTile, tile = gl_WorkGroupID.x;
  [[unroll]] for (uint r = 0; r < kRowMatrices; ++r)
    [[unroll]] for (uint n = 0; n < kOutputMatrices; ++n)
      [[unroll]] for (uint i = 0; i < kElements; ++i) total[r][n][i] = 0.0;
  begin_tile(row, tile);
  fetch(0);
  uint chunks = (inputs + kChunk - 1) / kChunk;
  [[dont_unroll]] for (uint chunk = 0; chunk < chunks; ++chunk) {
    barrier();
    keep(chunk);
    barrier();
    fetch(chunk + 1);
    add_chunk(subgroup);
  }
  load_operands();
  finish_tile(subgroup, row, tile);
}
