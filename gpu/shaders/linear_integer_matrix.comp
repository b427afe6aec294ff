// SPDX-License-Identifier: Apache-2.0
// linear_integer_tile.comp on the device's matrix units (VK_NV_cooperative_matrix: 16 by 32 signed bytes times 32 by
// 16, summed in 32 bits, which is exact): tiles of 128 outputs by 128 rows, 32 rows by 64 outputs a subgroup. A matrix
// has 32 inputs, a block; so each product is scaled and added as rule R1 wants. Debian 12's glslang does not know the
// extension's successor of KHR, and no other vendor's units multiply matrices of this size.
#version 460
#extension GL_GOOGLE_include_directive : require
#define WEFT_PACKED_DOTS  // a device with matrix units has them
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_NV_integer_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_shader_subgroup_basic : require

layout(local_size_x = 256) in;
#include "linear_codes.glsl"
#include "code_dots.glsl"

const uint kTile = 128;
// Four words each: a chunk of an output, of a row, and some padding, so that what a subgroup reads lies in different
// banks.
const uint kStride = 5;
shared uvec4 code_bytes[kTile * kStride];
shared uvec4 value_bytes[kTile * kStride];
void put_codes(uint m, uint quad, uvec4 bytes) {
  [[unroll]] for (uint j = 0; j < 4; ++j) code_bytes[(quad * 4 + j) * kStride + m / 4][m % 4] = bytes[j];
}
void put_values(uint row, uint quarter, uvec4 bytes) { value_bytes[row * kStride + quarter] = bytes; }
#include "code_stage.glsl"

const uint kSide = 16, kElements = kSide * kSide / 32;  // of a matrix; a thread's of them
const uint kRowMatrices = 2, kOutputMatrices = 4;       // of a subgroup
float total[kRowMatrices][kOutputMatrices][kElements];
uint rows_of[kElements], outputs_of[kElements];  // where in a matrix a thread's elements stand
shared uint places[kSide * kSide];

void find_places() {
  places[gl_LocalInvocationID.x] = gl_LocalInvocationID.x;
  barrier();
  icoopmatNV<32, gl_ScopeSubgroup, 16, 16> at;
  coopMatLoadNV(at, places, 0, kSide, false);
  [[unroll]] for (uint i = 0; i < kElements; ++i) rows_of[i] = uint(at[i]) / kSide, outputs_of[i] = uint(at[i]) % kSide;
}

// The first quad among the tile's outputs of a subgroup's matrix: of a gated pair, which has half of the tile from
// each, both halves have two, for the same outputs.
uint first_quad(uint subgroup, uint n) {
  uint strip = subgroup % 2;
  return kMatrices == 1 ? strip * 16 + n * 4 : n / 2 * 16 + strip * 8 + n % 2 * 4;
}

void add_chunk(uint subgroup, uint blocks) {
  uint first_row = subgroup / 2 * 32;
  [[unroll]] for (uint n = 0; n < kOutputMatrices; ++n) {
    uint quad = first_quad(subgroup, n);
    float sum[kRowMatrices][kElements];
    [[unroll]] for (uint r = 0; r < kRowMatrices; ++r)
      [[unroll]] for (uint i = 0; i < kElements; ++i) sum[r][i] = 0.0;
    [[unroll]] for (uint b = 0; b < 2; ++b) {
      if (b >= blocks) break;
      icoopmatNV<8, gl_ScopeSubgroup, 32, 16> codes;
      coopMatLoadNV(codes, code_bytes, quad * 4 * kStride + b * 2, kStride, true);
      [[unroll]] for (uint r = 0; r < kRowMatrices; ++r) {
        icoopmatNV<8, gl_ScopeSubgroup, 16, 32> values;
        coopMatLoadNV(values, value_bytes, (first_row + r * kSide) * kStride + b * 2, kStride, false);
        // On top of kRound's bits: no conversion (code_dots.glsl).
        icoopmatNV<32, gl_ScopeSubgroup, 16, 16> exact = icoopmatNV<32, gl_ScopeSubgroup, 16, 16>(int(bits(kRound)));
        exact = coopMatMulAddNV(values, codes, exact);
        [[unroll]] for (uint i = 0; i < kElements; ++i) {
          uint row = first_row + r * kSide + rows_of[i], o = quad * 4 + outputs_of[i];
          int integer = exact[i];
          if (DTYPE == kUint8)
            integer += output_zero_points[b][o / 4][o % 4] * (row_sums[b][0][row] + row_sums[b][1][row]);
          float number = sub(intBitsToFloat(integer), kRound), factor = row_scales[b][row];
          if (GRANULARITY == kBlock32) factor = mul(factor, output_scales[b][o / 4][o % 4]);
          if (GRANULARITY == kBlock32 && byte_unit() != 1.0) number = mul(number, byte_unit());
          if (GRANULARITY != kBlock32 && byte_unit() != 1.0) factor = mul(factor, byte_unit());
          sum[r][i] = fused(number, factor, sum[r][i]);
        }
      }
    }
    [[unroll]] for (uint r = 0; r < kRowMatrices; ++r)
      [[unroll]] for (uint i = 0; i < kElements; ++i) total[r][n][i] = add(total[r][n][i], sum[r][i]);
  }
}

// A subgroup's totals pass through shared memory, that threads have four outputs of a row side by side.
shared float settled_totals[8][kSide * kSide];
vec4 quad_of(uint subgroup, uint item) {
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

void finish_matrix(uint subgroup, uint r, uint n, uint row, uint tile) {
  vec4 gate[2];
  for (uint m = 0; m < kMatrices; ++m) {
    uint of_tile = n + m * 2;
    settle(subgroup, r, of_tile);
    [[unroll]] for (uint l = 0; l < 2; ++l) {
      uint item = gl_SubgroupInvocationID + l * 32, at_row = row + subgroup / 2 * 32 + r * kSide + item / 4;
      Place at = place_of(tile, first_quad(subgroup, of_tile) + item % 4);
      uint o = at.panel * 16 + at.quad * 4;
      if (at.panel * 16 >= outputs || at_row >= rows) continue;
      vec4 sums = quad_of(subgroup, item), biases = bias_quad(at.matrix, o);
      if (GRANULARITY != kBlock32) sums = each_mul(sums, scale_quad(weight(at.matrix), at.panel, 0, at.quad));
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
}

void main() {
  load_operands();
  find_places();
  uint subgroup = gl_SubgroupID;
  uint tiles = (outputs + kOutputs - 1) / kOutputs, blocks = (inputs + 31) / 32, chunks = (blocks + 1) / 2;
  for (uint row = gl_WorkGroupID.y * kTile; row < rows; row += gl_NumWorkGroups.y * kTile)
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
      [[unroll]] for (uint r = 0; r < kRowMatrices; ++r)
        [[unroll]] for (uint n = 0; n < kOutputMatrices; ++n)
          [[unroll]] for (uint i = 0; i < kElements; ++i) total[r][n][i] = 0.0;
      if (chunks > 0) ask(tile, row, 0);
      for (uint chunk = 0; chunk < chunks; ++chunk) {
        barrier();
        keep();
        barrier();
        if (chunk + 1 < chunks) ask(tile, row, chunk + 1);
        add_chunk(subgroup, blocks - chunk * 2);
      }
      [[unroll]] for (uint r = 0; r < kRowMatrices; ++r)
        [[unroll]] for (uint n = 0; n < kOutputMatrices / kMatrices; ++n) finish_matrix(subgroup, r, n, row, tile);
    }
}
