// SPDX-License-Identifier: Apache-2.0
// linear_integer.glsl for layers of one chunk, up to 64 inputs and 512 outputs, which quantise their rows themselves: a
// thread has four outputs, loads all of their codes at once, and several operations of a kind share a group.
// Who includes this says what `signed_dot` and `mixed_dot` are: dots_packed.glsl or dots_by_byte.glsl.
#ifndef WEFT_LINEAR_CELL
#define WEFT_LINEAR_CELL

layout(local_size_x = 128) in;
layout(constant_id = 4) const bool HAS_BIAS = true;
#include "linear_codes.glsl"
#include "quantize.glsl"
#extension GL_EXT_control_flow_attributes : require

const uint kThreads = 128 / kShares;                    // of an operation: four a panel
const uint kBits = kWordBits == 0 ? 1 : kWordBits, kWords = 2 * kBits;  // of a code; of codes of an output
// Codes are unpacked to bytes by shifts: byte j of split s of a word is its code s + kSplits j. Codes of x are laid out
// to meet them.
const uint kSplits = 8 / kBits, kEach = kThreads > 16 ? 1 : 16 / kThreads;
const bool kIsSigned = DTYPE == kInt4 || DTYPE == kInt2 || DTYPE == kTernary;
shared uvec4 magnitudes[128];  // 16 words an operation
shared uvec4 q[128];
shared float q_scales[64];
#ifdef WEFT_GATED
shared vec4 gates[128];
#endif
float own_inputs[kEach][4];  // what this thread quantises

void ask_inputs(bool exists, uint row) {
  Floats from = row_at(x, row, x_stride);
  for (uint i = 0; i < kEach; ++i) {
    uint m = share_thread() + i * kThreads, k = m / kSplits * kSplits * 4 + m % kSplits;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      own_inputs[i][j] = 0.0;
      if (exists && m < 16 && k + j * kSplits < inputs) own_inputs[i][j] = operand(from.at[k + j * kSplits]);
    }
  }
}

void quantise() {
  uint t = share_thread(), first = share() * 4;
  for (uint i = 0; i < kEach; ++i) {
    uint m = t + i * kThreads, largest = 0;
    [[unroll]] for (uint j = 0; j < 4; ++j) largest = max(largest, bits(own_inputs[i][j]) & 0x7fffffffu);
    if (m < 16) magnitudes[first + m / 4][m % 4] = largest;
  }
  barrier();
  for (uint i = 0; i < kEach; ++i) {
    uint m = t + i * kThreads;
    if (m >= 16) break;
    uvec4 pairs = max(magnitudes[first + m / 8 * 2], magnitudes[first + m / 8 * 2 + 1]);
    Steps steps = steps_of(max(max(pairs.x, pairs.y), max(pairs.z, pairs.w)));
    q[first + m / 4][m % 4] = codes_of(own_inputs[i], steps);
    if (m % 8 == 0) q_scales[share() * 2 + m / 8] = steps.scale;
  }
  barrier();
}

// `sum` and four outputs' dot products of codes.
ivec4 with_dots(ivec4 sum, uint q4, uvec4 c) {
  if (DTYPE == kUint8)
    return sum + ivec4(mixed_dot(q4, c.x), mixed_dot(q4, c.y), mixed_dot(q4, c.z), mixed_dot(q4, c.w));
  return sum + ivec4(signed_dot(q4, c.x), signed_dot(q4, c.y), signed_dot(q4, c.z), signed_dot(q4, c.w));
}

// The sum over block b of (code - zero) q, divided by unit(): then below 2^21, so it is summed up on top of kRound's bits,
// and needs no conversion. Signed codes stay in the high bits of bytes, so that their signs need no care; shifts are what
// binary has most of, so half of its codes stay where they are for one.
float unit() { return DTYPE == kBinary ? 0.125 : kIsSigned ? from_bits(119u + kBits << 23) : 1.0; }
vec4 block_sum(uvec4 codes[16], uint b, ivec4 zeros_of) {
  const uint kLow = kBits == 8 ? 0xffffffffu : ((1u << kBits) - 1u) * 0x01010101u;
  const uint kMask = kIsSigned ? kLow << 8 - kBits : kLow;
  uvec4 halves[2] = uvec4[2](q[share() * 4 + b * 2], q[share() * 4 + b * 2 + 1]);
  ivec4 sum = ivec4(DTYPE == kBinary ? 0 : int(bits(kRound)));
  int of_x = 0;
  if (kHasZero || DTYPE == kBinary)
    [[unroll]] for (uint i = 0; i < 8; ++i) of_x += signed_dot(halves[i / 4][i % 4], 0x01010101u);
  if (DTYPE == kBinary) {
    ivec4 sixteenfold = ivec4(int(bits(kRound)) - 8 * of_x);  // a bit's worth is 2 bit - 1
    [[unroll]] for (uint s = 0; s < 4; ++s) {
      uvec4 c = codes[b] >> s;
      sum = with_dots(sum, halves[0][s], c & 0x01010101u);
      sixteenfold = with_dots(sixteenfold, halves[1][s], c & 0x10101010u);
    }
    sum = (sum << 4) + sixteenfold;
  }
  [[unroll]] for (uint i = 0; i < 8 && DTYPE != kBinary; ++i) {
    uint m = b * 8 + i, s = m % kSplits;
    uvec4 c = kIsSigned ? codes[m / kSplits] << (kSplits - 1 - s) * kBits : codes[m / kSplits] >> s * kBits;
    sum = with_dots(sum, halves[i / 4][i % 4], c & kMask);
  }
  if (kHasZero) sum -= zeros_of * of_x;
  vec4 above = intBitsToFloat(sum);
  return vec4(sub(above.x, kRound), sub(above.y, kRound), sub(above.z, kRound), sub(above.w, kRound));
}

void main() {
  bool exists = load_operands();
  if (!HAS_BIAS) bias = 0ul;
  uint quad = share_thread() & 3, of_both = share_thread() >> 2, row = gl_WorkGroupID.y;
  uint p = of_both / kMatrices, m = of_both % kMatrices, o = p * 16 + quad * 4;
  const uint n = 32 / kBits;
  uint words = (inputs + n - 1) / n, blocks = (inputs + 31) / 32, panels = exists ? (outputs + 15) / 16 : 0;
  bool computes = p < panels;
  ask_inputs(exists, row);
  uvec4 codes[16];
  uint64_t panel = weight(m).codes + (uint64_t(p) * words * 16ul + quad * 4) * 4ul;
  [[unroll]] for (uint i = 0; i < kWords; ++i) {
    codes[i] = uvec4(0);
    if (computes && i < words) codes[i] = WordQuads(panel + i * 64).at[0];
  }
  vec4 biases = vec4(0.0), scales_of[2] = vec4[2](vec4(0.0), vec4(0.0));
  ivec4 zeros_of[2] = ivec4[2](ivec4(0), ivec4(0));
  if (computes) {
    biases = bias_quad(m, o);
    [[unroll]] for (uint b = 0; b < (GRANULARITY == kBlock32 ? 2 : 1); ++b) {
      if (GRANULARITY == kBlock32 && b >= blocks) break;
      scales_of[b] = scale_quad(weight(m), p, b * 32, quad);
      if (kHasZero) zeros_of[b] = ivec4(zero_quad(weight(m), p, b * 32, quad));
    }
  }
  subgroupMemoryBarrierBuffer();  // all of these are under way before the inputs are waited for (linear_row.glsl)
  quantise();
#ifndef WEFT_GATED
  if (!computes) return;
#endif
  vec4 sum = vec4(0.0);
  [[unroll]] for (uint b = 0; b < 2; ++b) {
    uint at = GRANULARITY == kBlock32 ? b : 0;
    if (b < blocks)
      sum = with_block(sum, block_sum(codes, b, zeros_of[at]), unit(), q_scales[share() * 2 + b], scales_of[at]);
  }
  vec4 total = add(vec4(0.0), sum);
  if (GRANULARITY != kBlock32) total = each_mul(total, scales_of[0]);
#ifdef WEFT_GATED
  if (computes && m == 0) gates[gl_LocalInvocationID.x] = finish_gate(total, biases, row, o);
  barrier();
  if (computes && m == 1) finish_up(total, biases, gates[gl_LocalInvocationID.x - 4], row, o);
#else
  finish(total, biases, row, o);
#endif
}

#endif  // WEFT_LINEAR_CELL
