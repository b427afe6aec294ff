// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) on integer codes and activations of int8 (quantize_rows.comp) for many rows: 4 by 4 sums
// a thread over tiles of 64 outputs by 64 rows (WEFT_SMALL: groups of 128 threads, 4 by 8 sums each). Sums as in linear_integer.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef WEFT_SMALL
#define WEFT_THREADS 128
#else
#define WEFT_THREADS 256
#endif
layout(local_size_x = WEFT_THREADS) in;
#include "linear_codes.glsl"
#include "code_dots.glsl"

const uint kTile = 64, kRowQuads = 256 / WEFT_THREADS;  // quads of rows of a thread
const uint kQuadRows = kTile / kRowQuads;               // from one of them to the next
// Of word m of a chunk: four outputs' bytes, and four rows'.
shared uvec4 code_bytes[16][16];
shared uvec4 value_bytes[16][17];
void put_codes(uint m, uint quad, uvec4 bytes) { code_bytes[m][quad] = bytes; }
void put_values(uint row, uint quarter, uvec4 bytes) {
  [[unroll]] for (uint j = 0; j < 4; ++j) value_bytes[quarter * 4 + j][row / 4][row % 4] = bytes[j];
}
#include "code_stage.glsl"

vec4 total[4 * kRowQuads];

// Of the thread's quad `q` of rows, which is number `down` of the tile's.
void add_chunk(uint across, uint down, uint blocks, uint q) {
  vec4 sum[4] = vec4[4](vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
  [[unroll]] for (uint b = 0; b < 2; ++b) {
    if (b >= blocks) break;
    ivec4 exact[4];
    [[unroll]] for (uint r = 0; r < 4; ++r) exact[r] = ivec4(int(bits(kRound)));  // no conversion: code_dots.glsl
    [[unroll]] for (uint m = b * 8; m < b * 8 + 8; ++m) {
      uvec4 c = code_bytes[m][across], v = value_bytes[m][down];
      [[unroll]] for (uint r = 0; r < 4; ++r)
        exact[r] += ivec4(signed_dot(v[r], c.x), signed_dot(v[r], c.y), signed_dot(v[r], c.z), signed_dot(v[r], c.w));
    }
    vec4 scales_of = kHasBlocks ? output_scales[b][across] : vec4(0.0);
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      uint row = down * 4 + r;
      if (DTYPE == kUint8) exact[r] += output_zero_points[b][across] * (row_sums[b][0][row] + row_sums[b][1][row]);
      vec4 above = intBitsToFloat(exact[r]);
      vec4 numbers = vec4(sub(above.x, kRound), sub(above.y, kRound), sub(above.z, kRound), sub(above.w, kRound));
      sum[r] = with_block(sum[r], numbers, byte_unit(), row_scales[b][row], scales_of);
    }
  }
  [[unroll]] for (uint r = 0; r < 4; ++r) total[q * 4 + r] = add(total[q * 4 + r], sum[r]);
}

#ifdef WEFT_GATED
// Another thread has the gate's sums.
shared vec4 gates[kQuadRows][8];
#endif

void finish_tile(uint across, uint down, uint row, uint tile) {
  Place at = place_of(tile, across);
  uint o = at.panel * 16 + at.quad * 4;
  vec4 biases = bias_quad(at.matrix, o), scales_of = vec4(0.0);
  bool computes = at.panel * 16 < outputs;
  if (!kHasBlocks && computes) scales_of = scale_quad(weight(at.matrix), at.panel, 0, at.quad);
  [[unroll]] for (uint r = 0; r < 4 * kRowQuads; ++r)
    if (!kHasBlocks) total[r] = each_mul(total[r], scales_of);
  [[unroll]] for (uint q = 0; q < kRowQuads; ++q, row += kQuadRows) {
#ifdef WEFT_GATED
    barrier();
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      uint own = down * 4 + r;
      if (computes && at.matrix == 0 && row + own < rows)
        gates[own][across % 8] = finish_gate(total[q * 4 + r], biases, row + own, o);
    }
    barrier();
#endif
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      uint own = down * 4 + r;
      if (!computes || row + own >= rows) continue;
#ifdef WEFT_GATED
      if (at.matrix == 1) finish_up(total[q * 4 + r], biases, gates[own][across % 8], row + own, o);
#else
      finish(total[q * 4 + r], biases, row + own, o);
#endif
    }
  }
}

void main() {
  load_operands();
  uint across = gl_LocalInvocationID.x % 16, down = gl_LocalInvocationID.x / 16;
  uint tiles = (outputs + kOutputs - 1) / kOutputs, blocks = (inputs + 31) / 32, chunks = (blocks + 1) / 2;
  for (uint row = gl_WorkGroupID.y * kTile; row < rows; row += gl_NumWorkGroups.y * kTile)
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
      [[unroll]] for (uint r = 0; r < 4 * kRowQuads; ++r) total[r] = vec4(0.0);
      if (chunks > 0) ask(tile, row, 0);
      for (uint chunk = 0; chunk < chunks; ++chunk) {
        barrier();
        keep();
        barrier();
        if (chunk + 1 < chunks) ask(tile, row, chunk + 1);
        [[unroll]] for (uint q = 0; q < kRowQuads; ++q)
          add_chunk(across, q * kQuadRows / 4 + down, blocks - chunk * 2, q);
      }
      finish_tile(across, down, row, tile);
    }
}
