// SPDX-License-Identifier: Apache-2.0
// linear_integer.comp for layers of one chunk, up to 64 inputs and 512 outputs, which quantise their rows themselves: a
// thread has four outputs, loads all of their codes at once, and several operations of a kind share a group.
// `signed_dot` and `mixed_dot` sum four products of bytes.
#ifndef WEFT_LINEAR_CELL
#define WEFT_LINEAR_CELL

layout(local_size_x = 128) in;
#include "linear_codes.glsl"
#include "quantize.glsl"

const uint kThreads = 128 / kShares;                    // of an operation: four a panel
const uint kBits = kWordBits == 0 ? 1 : kWordBits, kWords = 2 * kBits;  // of a code; of codes of an output
// Codes are unpacked to bytes by shifts: byte j of split s of a word is its code s + kSplits j. Codes of x are laid out
// to meet them.
const uint kSplits = 8 / kBits, kEach = kThreads > 16 ? 1 : 16 / kThreads;
const bool kIsSigned = DTYPE == kInt4 || DTYPE == kInt2 || DTYPE == kTernary;
shared uvec4 magnitudes[128];  // 16 words an operation
shared uvec4 q[128];
shared float q_scales[64];

void quantise(bool exists, uint row) {
  uint t = share_thread(), first = share() * 4;
  Floats from = row_at(x, row, x_stride);
  float v[kEach][4];
  for (uint i = 0; i < kEach; ++i) {
    uint m = t + i * kThreads, k = m / kSplits * kSplits * 4 + m % kSplits, largest = 0;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      v[i][j] = 0.0;
      if (exists && m < 16 && k + j * kSplits < inputs) v[i][j] = flushed(from.at[k + j * kSplits]);
      largest = max(largest, bits(v[i][j]) & 0x7fffffffu);
    }
    if (m < 16) magnitudes[first + m / 4][m % 4] = largest;
  }
  barrier();
  for (uint i = 0; i < kEach; ++i) {
    uint m = t + i * kThreads;
    if (m >= 16) break;
    uvec4 pairs = max(magnitudes[first + m / 8 * 2], magnitudes[first + m / 8 * 2 + 1]);
    Steps steps = steps_of(max(max(pairs.x, pairs.y), max(pairs.z, pairs.w)));
    q[first + m / 4][m % 4] = codes_of(v[i], steps);
    if (m % 8 == 0) q_scales[share() * 2 + m / 8] = steps.scale;
  }
  barrier();
}

// The sum over block b of (code - zero) q, below 2^24.
ivec4 block_sum(uvec4 codes[16], uint b, ivec4 zeros_of) {
  const uint kMask = kBits == 8 ? 0xffffffffu : ((1u << kBits) - 1u) * 0x01010101u;
  ivec4 sum = ivec4(0);
  int of_x = 0;
  uvec4 halves[2] = uvec4[2](q[share() * 4 + b * 2], q[share() * 4 + b * 2 + 1]);
  [[unroll]] for (uint i = 0; i < 8; ++i) {
    uint m = b * 8 + i, q4 = halves[i / 4][i % 4];
    uvec4 c = codes[m / kSplits] >> m % kSplits * kBits & kMask;
    if (DTYPE == kUint8)
      sum += ivec4(mixed_dot(q4, c.x), mixed_dot(q4, c.y), mixed_dot(q4, c.z), mixed_dot(q4, c.w));
    else
      sum += ivec4(signed_dot(q4, c.x), signed_dot(q4, c.y), signed_dot(q4, c.z), signed_dot(q4, c.w));
    if (DTYPE != kInt8) of_x += signed_dot(q4, 0x01010101u);
  }
  if (DTYPE == kInt8) return sum;
  if (DTYPE == kBinary) return sum * 2 - of_x;
  if (kIsSigned) return sum - (1 << int(kBits) - 1) * of_x;
  return sum - zeros_of * of_x;
}

void main() {
  bool exists = load_operands();
  uint quad = share_thread() & 3, p = share_thread() >> 2, row = gl_WorkGroupID.y;
  const uint n = 32 / kBits;
  uint words = (inputs + n - 1) / n, blocks = (inputs + 31) / 32;
  bool computes = exists && p < (outputs + 15) / 16;
  uvec4 codes[16];
  vec4 biases = vec4(0.0), scales_of[2] = vec4[2](vec4(0.0), vec4(0.0));
  ivec4 zeros_of[2] = ivec4[2](ivec4(0), ivec4(0));
  uint64_t panel = w + (uint64_t(p) * words * 16ul + quad * 4) * 4ul;
  [[unroll]] for (uint i = 0; i < kWords; ++i) {
    codes[i] = uvec4(0);
    if (computes && i < words) codes[i] = WordQuads(panel + i * 64).at[0];
    // The sign bit flipped is the code plus half its range.
    if (kIsSigned) codes[i] ^= kBits == 4 ? 0x88888888u : 0xaaaaaaaau;
  }
  if (computes) {
    biases = bias_quad(p * 16 + quad * 4);
    [[unroll]] for (uint b = 0; b < (GRANULARITY == kBlock32 ? 2 : 1); ++b) {
      if (GRANULARITY == kBlock32 && b >= blocks) break;
      scales_of[b] = scale_quad(weight(), p, b * 32, quad);
      if (kHasZero) zeros_of[b] = ivec4(zero_quad(weight(), p, b * 32, quad));
    }
  }
  quantise(exists, row);
  if (!computes) return;
  vec4 sum = vec4(0.0);
  [[unroll]] for (uint b = 0; b < 2; ++b) {
    uint at = GRANULARITY == kBlock32 ? b : 0;
    if (b < blocks) sum = with_block(sum, block_sum(codes, b, zeros_of[at]), q_scales[share() * 2 + b], scales_of[at]);
  }
  vec4 total = add(vec4(0.0), sum);
  if (GRANULARITY != kBlock32) total = each_mul(total, scales_of[0]);
  finish(total, biases, row, p * 16 + quad * 4);
}

#endif  // WEFT_LINEAR_CELL
