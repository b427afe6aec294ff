// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) on integer codes and activations of int8, which each group makes of its row, or which
// quantize_rows.comp has made: exact sums over blocks of 32 inputs, then rule R1 over chunks of two blocks. Threads as
// in linear_row.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 128, local_size_x_id = 15) in;  // always set; those behind 128 only prepare the row
#define WEFT_JOINED
#include "linear_codes.glsl"
#include "code_dots.glsl"
#include "quantize.glsl"

layout(constant_id = 2) const uint SLOTS = 32;  // a power of two up to 32
shared vec4 sums[kRows][32][4];
#ifdef WEFT_GATED
shared vec4 gates[128];
#endif

// The row's codes and scales, as quantize_rows.comp makes them.
shared uvec4 row_codes[ROW_QUADS];  // of 16 inputs each
shared float row_scales[ROW_QUADS / 2 + 1];
const uint kTurns = (4 * ROW_QUADS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint kWordsAtOnce = kTurns < 4 ? kTurns : 4, kAtOnce = 4 * kWordsAtOnce;  // of a thread; under way together
shared uint magnitudes[kWordsAtOnce][gl_WorkGroupSize.x];

// v: elements PLACE(i) of the row as the layer takes them, kAtOnce of them; 0 behind its end.
#define WEFT_ASK(PLACE)                                                     \
  WEFT_UNROLL for (uint i = 0; i < kAtOnce; ++i) {                          \
    uint k = min(PLACE(i), inputs - 1);                                     \
    v[i] = from.at[k];                                                      \
    gains[i] = kNorms ? Floats(x_scales).at[k] : 1.0;                       \
  }                                                                         \
  WEFT_UNROLL for (uint i = 0; i < kAtOnce; ++i)                            \
    v[i] = PLACE(i) < inputs ? prepared(v[i], gains[i], factor) : 0.0;

void prepare(uint row) {
  const uint kThreads = gl_WorkGroupSize.x;
  uint id = gl_LocalInvocationID.x, words = (inputs + 31) / 32 * 8, of_row = 0;
  Floats from = row_at(x, row, x_stride);
  float factor = kNorms ? norm_factor(row) : 1.0, v[kAtOnce], gains[kAtOnce];
  barrier();  // all are done with the last row
  if (kHasRowScale) {
    of_row = kLeastOfRowBits;
    for (uint first = id; first < inputs; first += kAtOnce * kThreads) {
#define WEFT_PLACE(i) (first + (i) * kThreads)
      WEFT_ASK(WEFT_PLACE)
#undef WEFT_PLACE
      WEFT_UNROLL for (uint i = 0; i < kAtOnce; ++i) of_row = max(of_row, bits(v[i]) & 0x7fffffffu);
    }
    magnitudes[0][id] = of_row;
    for (uint reach = kThreads / 2; reach > 0; reach /= 2) {
      barrier();
      if (id < reach) magnitudes[0][id] = max(magnitudes[0][id], magnitudes[0][id + reach]);
    }
    barrier();
    of_row = magnitudes[0][0];
  }
  // A word has four inputs of a block of 32; eight neighbours have all of it.
  for (uint first = 0; first < words; first += kWordsAtOnce * kThreads) {
    uint of_words[kWordsAtOnce];
    WEFT_UNROLL for (uint w_ = 0; w_ < kWordsAtOnce; ++w_) of_words[w_] = of_row;
#define WEFT_PLACE(i) ((first + (i) / 4 * kThreads + id) / 8 * 32 + first_input(id % 8) + (i) % 4 * kSplits)
    WEFT_ASK(WEFT_PLACE)
#undef WEFT_PLACE
    if (!kHasRowScale) {
      WEFT_UNROLL for (uint i = 0; i < kAtOnce; ++i) of_words[i / 4] = max(of_words[i / 4], bits(v[i]) & 0x7fffffffu);
      barrier();
      WEFT_UNROLL for (uint w_ = 0; w_ < kWordsAtOnce; ++w_) magnitudes[w_][id] = of_words[w_];
      barrier();
      WEFT_UNROLL for (uint w_ = 0; w_ < kWordsAtOnce; ++w_)
        WEFT_UNROLL for (uint i = 0; i < 8; ++i) of_words[w_] = max(of_words[w_], magnitudes[w_][(id & ~7u) + i]);
    }
    WEFT_UNROLL for (uint w_ = 0; w_ < kWordsAtOnce; ++w_) {
      uint m = first + w_ * kThreads + id;
      if (m >= words) break;
      Steps steps = steps_of(of_words[w_]);
      row_codes[m / 4][m % 4] = codes_of(float[4](v[4 * w_], v[4 * w_ + 1], v[4 * w_ + 2], v[4 * w_ + 3]), steps);
      if (m % 8 == 0) row_scales[m / 8] = steps.scale;
    }
  }
  barrier();
}

// Codes, scales and zero points of four outputs of a panel over a chunk.
struct ChunkCodes {
  uvec4 codes[2][8];
  uvec4 scales_of[2];
  ivec4 zero_of[2];
};
ChunkCodes ask_codes(uint m, uint p, uint quad, uint k) {
  const uint n = 32 / kBits;
  ChunkCodes of;
  uint words = (inputs + n - 1) / n, blocks = (inputs + 31) / 32;
  uint64_t panel = weight(m).codes + (uint64_t(p) * words * 16ul + quad * 4) * 4ul;
  [[unroll]] for (uint b = 0; b < 2; ++b) {
    uint block = k / 32 + b;
    bool exists = block < blocks;
    [[unroll]] for (uint i = 0; i < kBits; ++i) {
      of.codes[b][i] = uvec4(0);
      if (exists && block * kBits + i < words) of.codes[b][i] = WordQuads(panel + (block * kBits + i) * 64ul).at[0];
    }
    of.scales_of[b] = kHasBlocks && exists ? scale_words(weight(m), p, block * 32, quad) : uvec4(0);
    of.zero_of[b] = kHasZero && exists ? ivec4(zero_quad(weight(m), p, block * 32, quad)) : ivec4(0);
  }
  return of;
}

// Of kRows rows from `row` on; of several all have codes already.
void chunk_sums(ChunkCodes of, uint row, uint k, out vec4 sum[kRows]) {
  uint blocks = (inputs + 31) / 32;
  for (uint r = 0; r < kRows; ++r) sum[r] = vec4(0.0);
  WEFT_UNROLL for (uint b = 0; b < 2; ++b) {
    uint block = k / 32 + b;
    if (block >= blocks) break;
    WEFT_UNROLL for (uint r = 0; r < kRows; ++r) {
      uvec4 halves[2];
      float scale_of_x;
      if (kHasCodes) {
        uint64_t place = uint64_t(min(row + r, rows - 1)) * blocks + block;
        WordQuads q = WordQuads(x + place * 32ul);
        halves = uvec4[2](q.at[0], q.at[1]);
        scale_of_x = Floats(x_scales + place * 4ul).at[0];
      } else {
        halves = uvec4[2](row_codes[block * 2], row_codes[block * 2 + 1]);
        scale_of_x = row_scales[block];
      }
      sum[r] = with_block(sum[r], block_sum(of.codes[b], halves, of.zero_of[b]), unit(), scale_of_x,
                          scales_in(of.scales_of[b]));
    }
  }
}

// `total` and the chunks' sums, in their order; reads of eight are under way together.
vec4 with_chunks(vec4 total, uint chunks, uint r, uint unit, uint quad) {
  for (uint first = 0; first < chunks; first += 8) {
    vec4 own[8];
    WEFT_UNROLL for (uint c = 0; c < 8; ++c) own[c] = sums[r][unit + min(first + c, chunks - 1)][quad];
    WEFT_UNROLL for (uint c = 0; c < 8; ++c)
      if (first + c < chunks) total = add(total, own[c]);
  }
  return total;
}

void main() {
  load_operands();
  uint quad = gl_LocalInvocationID.x & 3, unit = gl_LocalInvocationID.x >> 2;
  bool is_summing = unit < 32;
  uint slot = is_summing ? unit % SLOTS : SLOTS, panels = (outputs + 15) / 16;
  const uint kPanels = 32 / SLOTS;
  for (uint row = gl_WorkGroupID.y * kRows; row < rows; row += gl_NumWorkGroups.y * kRows) {
    if (!kHasCodes) prepare(row);
    for (uint first = gl_WorkGroupID.x * kPanels; first < panels * kMatrices; first += gl_NumWorkGroups.x * kPanels) {
      uint of_both = first + unit / SLOTS, p = of_both / kMatrices, m = of_both % kMatrices, o = p * 16 + quad * 4;
      vec4 total[kRows], sum[kRows];
      for (uint r = 0; r < kRows; ++r) total[r] = vec4(0.0);
      for (uint base = 0; base < inputs; base += SLOTS * kChunk) {
        uint k = base + slot * kChunk;
        for (uint r = 0; r < kRows; ++r) sum[r] = vec4(0.0);
        if (is_summing && p < panels && k < inputs) {
          ChunkCodes codes = ask_codes(m, p, quad, k);
          subgroupMemoryBarrierBuffer();  // all of these are under way before one is waited for (linear_row.comp)
          chunk_sums(codes, row, k, sum);
        }
        barrier();
        for (uint r = 0; r < kRows && is_summing; ++r) sums[r][unit][quad] = sum[r];
        barrier();
        uint chunks = min(SLOTS, (inputs - base + kChunk - 1) / kChunk);
        for (uint r = 0; r < kRows && slot == 0; ++r) total[r] = with_chunks(total[r], chunks, r, unit, quad);
      }
      for (uint r = 0; r < kRows; ++r) {
        bool finishes = slot == 0 && p < panels && row + r < rows;
        if (finishes && !kHasBlocks) total[r] = each_mul(total[r], scale_quad(weight(m), p, 0, quad));
#ifdef WEFT_GATED
        barrier();
        if (finishes && m == 0) gates[gl_LocalInvocationID.x] = finish_gate(total[r], bias_quad(m, o), row + r, o);
        barrier();
        if (finishes && m == 1)
          finish_up(total[r], bias_quad(m, o), gates[gl_LocalInvocationID.x - 4 * SLOTS], row + r, o);
#else
        if (finishes) finish(total[r], bias_quad(m, o), row + r, o);
#endif
      }
    }
  }
}
