// SPDX-License-Identifier: Apache-2.0
// Integer codes and quantised rows of a chunk (64 inputs, two blocks), brought to shared memory as signed bytes by WEFT_THREADS
// threads (256): kTile outputs, half of them of each matrix of a gated pair, by kTile rows. Who includes this says kTile,
// put_codes(word, quad of outputs, bytes of its four outputs) and put_values(row, quarter of a chunk, bytes).
#ifndef WEFT_CODE_STAGE
#define WEFT_CODE_STAGE

const uint kQuads = kTile / 4, kLoads = kTile * 4 / WEFT_THREADS;
const uint kOutputs = kTile / kMatrices;  // of a tile, of each matrix
shared float row_scales[2][kTile];        // of each block
shared vec4 output_scales[2][kQuads];     // where they belong to blocks
shared ivec4 output_zero_points[2][kQuads];     // of uint8, whose codes stand 128 lower
shared int row_sums[2][2][kTile];         // of uint8: of the halves of each block

// Place of quad `quad` of a tile's outputs.
struct Place {
  uint matrix, panel, quad;
};
Place place_of(uint tile, uint quad) {
  const uint kOwn = kOutputs / 4;
  uint own = quad % kOwn;
  return Place(quad / kOwn, tile * (kOutputs / 16) + own / 4, own % 4);
}

// Words that a thread has fetched.
uvec4 asked_codes[kLoads], asked_zero_points[kLoads], asked_values[kLoads];
float asked_row_scale;
uvec4 asked_output_scale;
ivec4 asked_output_zero;

void ask(uint tile, uint row, uint chunk) {
  const uint n = 32 / kBits;
  uint id = gl_LocalInvocationID.x, words = (inputs + n - 1) / n, blocks = (inputs + 31) / 32;
  [[unroll]] for (uint l = 0; l < kLoads; ++l) {
    uint item = id + l * WEFT_THREADS, i = item / kQuads, word = chunk * 2 * kBits + i, block = chunk * 2 + i / kBits;
    Place at = place_of(tile, item % kQuads);
    asked_codes[l] = asked_zero_points[l] = uvec4(0);
    if (i < 2 * kBits && at.panel * 16 < outputs && word < words) {
      Weight from = weight(at.matrix);
      asked_codes[l] = WordQuads(from.codes + ((uint64_t(at.panel) * words + word) * 16ul + at.quad * 4) * 4ul).at[0];
      if (kHasZero && DTYPE != kUint8) asked_zero_points[l] = zero_quad(from, at.panel, block * 32, at.quad);
    }
    uint r = row + item / 4, quarter = item % 4;
    asked_values[l] = uvec4(0);
    if (r < rows && chunk * 2 + quarter / 2 < blocks)
      asked_values[l] = WordQuads(x + (uint64_t(r) * blocks + chunk * 2 + quarter / 2) * 32ul + quarter % 2 * 16).at[0];
  }
  uint block = chunk * 2 + id / kTile, r = row + id % kTile;
  asked_row_scale = id < 2 * kTile && r < rows && block < blocks ? Floats(x_scales).at[r * blocks + block] : 0.0;
  block = chunk * 2 + id / kQuads;
  asked_output_scale = uvec4(0);
  asked_output_zero = ivec4(0);
  Place at = place_of(tile, id % kQuads);
  if (id < 2 * kQuads && at.panel * 16 < outputs && block < blocks) {
    if (kHasBlocks) asked_output_scale = scale_words(weight(at.matrix), at.panel, block * 32, at.quad);
    if (DTYPE == kUint8) asked_output_zero = ivec4(128) - ivec4(zero_quad(weight(at.matrix), at.panel, block * 32, at.quad));
  }
}

float byte_unit() { return kIsSigned ? from_bits(119u + kBits << 23) : 1.0; }

void keep() {
  uint id = gl_LocalInvocationID.x;
  [[unroll]] for (uint l = 0; l < kLoads; ++l) {
    uint item = id + l * WEFT_THREADS, i = item / kQuads, quad = item % kQuads;
    uvec4 c = asked_codes[l], zero = asked_zero_points[l];
    if (i < 2 * kBits)
      [[unroll]] for (uint s = 0; s < kSplits; ++s)
        put_codes(i * kSplits + s, quad, uvec4(bytes_of(c.x, s, zero.x), bytes_of(c.y, s, zero.y),
                                               bytes_of(c.z, s, zero.z), bytes_of(c.w, s, zero.w)));
    put_values(item / 4, item % 4, asked_values[l]);
    if (DTYPE == kUint8) {
      int sum = 0;
      [[unroll]] for (uint j = 0; j < 4; ++j) sum += signed_dot(asked_values[l][j], 0x01010101u);
      row_sums[item % 4 / 2][item % 2][item / 4] = sum;
    }
  }
  if (id < 2 * kTile) row_scales[id / kTile][id % kTile] = asked_row_scale;
  if (id < 2 * kQuads) {
    if (kHasBlocks) output_scales[id / kQuads][id % kQuads] = scales_in(asked_output_scale);
    if (DTYPE == kUint8) output_zero_points[id / kQuads][id % kQuads] = asked_output_zero;
  }
}

#endif  // WEFT_CODE_STAGE
