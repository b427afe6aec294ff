// SPDX-License-Identifier: Apache-2.0
// Integer codes and quantised rows of a chunk (64 inputs, two blocks), brought to shared memory as signed bytes for
// matrices: 128 outputs, half of them of each matrix of a gated pair, by 128 rows. A thread brings a quarter of a chunk
// of one output and of one row, twice; so loads of a subgroup lie side by side, and what it stores lies in different
// banks. Nothing that is fetched depends on a condition, or compilers wait for it at once: rows and panels past the end
// are the last ones, and inputs past the end are what lies behind (gpu/internal/heap.cpp), times 0.
#ifndef WEFT_MATRIX_STAGE
#define WEFT_MATRIX_STAGE

const uint kTile = 128, kOutputs = kTile / kMatrices;  // of a tile, of each matrix
// Four words each: a chunk of an output or row, and some padding, so that a subgroup reads different banks.
const uint kStride = 5;
shared uvec4 code_bytes[kTile * kStride];
shared uvec4 value_bytes[kTile * kStride];
shared vec2 row_scales[kTile];              // of both blocks
shared vec2 output_scales[2][kTile / 2];    // of two outputs, where they belong to blocks
shared int output_zero_points[2][kTile];    // of uint8, whose codes stand 128 lower
shared int row_sums[2][2][kTile];           // of uint8: of the halves of each block

// Words that hold a quarter of a chunk of an output, at least one; codes are 32 bits in kSplits words of bytes.
const uint kQuarterWords = kSplits > 4 ? 1 : 4 / kSplits;

// Panel `place` of the eight of a tile.
Weight panel_at_place(uint tile, uint place) {
  const uint kOwn = kOutputs / 16;
  return panel_of(weight(place / kOwn), min(tile * kOwn + place % kOwn, (outputs - 1) / 16));
}

struct Fetched {
  uint codes[4], zero_points;
  uvec4 values;
};
Weight from_panel[2], scales_from;
uint64_t from_codes[2], from_values[2], from_row_scale, from_output_scale;
Fetched fetched[2];
float fetched_row_scale;
uint fetched_output_scale, fetched_output_zero;

uint own_output() { return gl_LocalInvocationID.x % 16; }
uint own_quarter() { return gl_LocalInvocationID.x / 16 % 4; }
uint own_row() { return gl_LocalInvocationID.x % 8 + gl_LocalInvocationID.x / 32 * 8; }
uint own_row_quarter() { return gl_LocalInvocationID.x / 8 % 4; }

void begin_tile(uint row, uint tile) {
  uint id = gl_LocalInvocationID.x, blocks = (inputs + 31) / 32;
  [[unroll]] for (uint l = 0; l < 2; ++l) {
    from_panel[l] = panel_at_place(tile, id / 64 + l * 4);
    from_codes[l] = from_panel[l].codes + (own_quarter() * 4 / kSplits * 16 + own_output()) * 4ul;
    uint r = min(row + own_row() + l * 64, rows - 1);
    from_values[l] = x + uint64_t(r) * blocks * 32ul + own_row_quarter() * 16ul;
  }
  uint r = min(row + id % kTile, rows - 1);
  from_row_scale = x_scales + (uint64_t(r) * blocks + id / kTile) * 4ul;
  scales_from = panel_at_place(tile, id % kTile / 16);
  from_output_scale = scales_from.scales + (id / kTile * 16 + id % 16) * (kHasHalfScales ? 2ul : 4ul);
}

// Of an output whose number in its panel is `lane`.
float scale_of(uint word, uint lane) {
  return kHasHalfScales ? half_scale(word >> lane % 2 * 16 & 0xffffu) : from_bits(word);
}
uint zero_word(Weight from, uint block, uint lane) { return zero_words(from, 0, block * 32, lane / 4).x; }
uint zero_of(uint word, uint lane) { return GRANULARITY == kTensor ? word & 0xffu : word >> lane % 4 * 8 & 0xffu; }

void fetch(uint chunk) {
  uint id = gl_LocalInvocationID.x, last = (inputs + 31) / 32 - 1;
  [[unroll]] for (uint l = 0; l < 2; ++l) {
    [[unroll]] for (uint j = 0; j < kQuarterWords; ++j) fetched[l].codes[j] = Words(from_codes[l]).at[j * 16];
    from_codes[l] += 128 * kBits;
    if (kHasZero && DTYPE != kUint8)
      fetched[l].zero_points = zero_word(from_panel[l], min(chunk * 2 + own_quarter() / 2, last), own_output());
    fetched[l].values = WordQuads(from_values[l]).at[0];
    from_values[l] += 64;
  }
  fetched_row_scale = Floats(from_row_scale).at[0];
  from_row_scale += 8;
  if (kHasBlocks) {
    fetched_output_scale = Words(from_output_scale & ~3ul).at[0];
    from_output_scale += kHasHalfScales ? 64 : 128;
  }
  if (DTYPE == kUint8) fetched_output_zero = zero_word(scales_from, min(chunk * 2 + id / kTile, last), id % 16);
}

// The float that sums begin from: integers added to its bits add units of 1, or 2^(kBits - 8) of signed types, so that
// sums need no conversion.
const uint kBaseBits = 0x4b400000u - (kIsSigned ? 8 - kBits << 23 : 0);  // 1.5 * 2^23 units

void keep(uint chunk) {
  uint id = gl_LocalInvocationID.x, blocks = (inputs + 31) / 32;
  [[unroll]] for (uint l = 0; l < 2; ++l) {
    uvec4 bytes;
    uint zero = zero_of(fetched[l].zero_points, own_output());
    [[unroll]] for (uint j = 0; j < 4; ++j)
      bytes[j] = bytes_of(fetched[l].codes[j / kSplits], (own_quarter() * 4 + j) % kSplits, zero);
    code_bytes[(id / 64 * 16 + l * 64 + own_output()) * kStride + own_quarter()] = bytes;
    uint row = own_row() + l * 64, quarter = own_row_quarter();
    uvec4 values = chunk * 2 + quarter / 2 < blocks ? fetched[l].values : uvec4(0);
    value_bytes[row * kStride + quarter] = values;
    if (DTYPE == kUint8) {
      int sum = 0;
      [[unroll]] for (uint j = 0; j < 4; ++j) sum += signed_dot(values[j], 0x01010101u);
      row_sums[quarter / 2][quarter % 2][row] = sum;
    }
  }
  uint b = id / kTile, i = id % kTile;
  bool exists = chunk * 2 + b < blocks;
  row_scales[i][b] = exists ? fetched_row_scale : 0.0;
  if (kHasBlocks) output_scales[b][i / 2][i % 2] = exists ? scale_of(fetched_output_scale, i) : 0.0;
  if (DTYPE == kUint8) output_zero_points[b][i] = 128 - int(zero_of(fetched_output_zero, i));
}

#endif  // WEFT_MATRIX_STAGE
