// SPDX-License-Identifier: Apache-2.0
// A convolution of integer codes and windows quantised to int8 as rows of linear layers are: 16 outputs of a group of
// channels by 16 windows. Each block of 32 columns is read, quantised and kept by the threads together.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "activations.glsl"
#include "code_dots.glsl"
#include "quantize.glsl"
#include "weights.glsl"
#include "window.glsl"

layout(local_size_x = 16, local_size_y = 16, local_size_y_id = 14) in;
layout(constant_id = 4) const bool ROW_SCALE = false;  // all of a window has one scale
#include "window_operands.inc"
#define WEFT_OPERANDS WEFT_CONVOLVE_OPERANDS
#include "operands.glsl"
shared float values[16][32];
shared uvec4 codes[16][2];
shared uint magnitudes[16][16];

// Column k of window p: of channel k / taps of the group.
float window_value(Geometry g, Floats image, uint group, uvec3 p, uint k) {
  uint taps = volume(g.kernel), plane = volume(g.image), c = group * (g.channels / g.groups) + k / taps;
  uint at = element_of(g, p, split(k % taps, g.kernel));
  return at < plane ? flushed(image.at[c * plane + at]) : 0.0;
}

// Of this thread's window.
uint largest_of_window(Geometry g, Floats image, uint group, uvec3 p, uint columns) {
  uint window = gl_LocalInvocationID.y, largest = kLeastOfRowBits;
  for (uint k = gl_LocalInvocationID.x; k < columns; k += 16)
    largest = max(largest, bits(window_value(g, image, group, p, k)) & 0x7fffffffu);
  barrier();
  magnitudes[window][gl_LocalInvocationID.x] = largest;
  barrier();
  for (uint i = 0; i < 16; ++i) largest = max(largest, magnitudes[window][i]);
  return largest;
}

// The scale of this thread's window's block; its codes lie in `codes`.
float quantise(Geometry g, Floats image, uint group, uvec3 p, uint block, uint columns, uint of_window) {
  uint window = gl_LocalInvocationID.y;
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < 32; i += 16) {
    uint k = block * 32 + i;
    values[window][i] = k < columns ? window_value(g, image, group, p, k) : 0.0;
  }
  barrier();
  uint largest = of_window;
  for (uint i = 0; i < 32; ++i) largest = max(largest, bits(values[window][i]) & 0x7fffffffu);
  Steps steps = steps_of(largest);
  if (gl_LocalInvocationID.x < 8) {
    float v[4];
    uint m = gl_LocalInvocationID.x;
    for (uint i = 0; i < 4; ++i) v[i] = values[window][first_input(m) + i * kSplits];
    codes[window][m / 4][m % 4] = codes_of(v, steps);
  }
  barrier();
  return steps.scale;
}

// Of what four outputs' sums are made, this thread's: the compiler drops the others.
float number_of_block(Weight weights, uint o, uint block) {
  const uint n = 32 / kBits;
  uint words = (weights.inputs + n - 1) / n, window = gl_LocalInvocationID.y;
  Words own = Words(weights.codes + (uint64_t(o / 16) * words * 16ul + o % 16) * 4ul);
  uvec4 of_block[8];
  [[unroll]] for (uint i = 0; i < kBits; ++i) {
    of_block[i] = uvec4(0);
    if (block * kBits + i < words) of_block[i].x = own.at[(block * kBits + i) * 16];
  }
  ivec4 zero_of = ivec4(0);
  if (kHasZero) zero_of.x = int(zero_quad(weights, o / 16, block * 32, o % 16 / 4)[o % 4]);
  return mul(block_sum(of_block, codes[window], zero_of).x, unit());
}
float scale_at(Weight weights, uint o, uint k) { return scale_quad(weights, o / 16, k, o % 16 / 4)[o % 4]; }

float total_of(Geometry g, Floats image, uint group, uvec3 p, uint o) {
  uint columns = g.channels / g.groups * volume(g.kernel), window = gl_LocalInvocationID.y;
  Weight weights = Weight(w, scales, zero_points, columns);
  float total = 0.0, sum = 0.0;
  uint of_window = ROW_SCALE ? largest_of_window(g, image, group, p, columns) : 0;
  for (uint block = 0; block * 32 < columns; ++block) {
    float x_scale = quantise(g, image, group, p, block, columns, of_window);
    if (kHasBlocks) x_scale = mul(x_scale, scale_at(weights, o, block * 32));
    sum = fused(number_of_block(weights, o, block), x_scale, sum);
    if (block % 2 == 1 || block * 32 + 32 >= columns) {
      total = add(total, sum);
      sum = 0.0;
    }
  }
  if (!kHasBlocks) total = mul(total, scale_at(weights, o, 0));
  return bias != 0ul ? add(total, operand(Floats(bias).at[o])) : total;
}

void main() {
  load_operands();
  Geometry g = Geometry(geometry);
  uint positions = volume(g.windows), of_group = outputs / g.groups, tiles = (of_group + 15) / 16;
  for (uint job = gl_WorkGroupID.y; job < rows * g.groups * tiles; job += gl_NumWorkGroups.y) {
    uint b = job / (g.groups * tiles), group = job / tiles % g.groups, i = job % tiles * 16 + gl_LocalInvocationID.x;
    // Threads past the end compute what another does, and store nothing.
    uint o = group * of_group + min(i, of_group - 1);
    for (uint first = gl_WorkGroupID.x * gl_WorkGroupSize.y; first < positions;
         first += gl_NumWorkGroups.x * gl_WorkGroupSize.y) {
      uint p = min(first + gl_LocalInvocationID.y, positions - 1);
      float sum = total_of(g, row_at(x, b, x_stride), group, split(p, g.windows), o);
      if (i >= of_group || first + gl_LocalInvocationID.y >= positions) continue;
      if (z != 0ul) row_at(z, b, z_stride).at[o * positions + p] = sum;
      row_at(y, b, y_stride).at[o * positions + p] = activate(sum);
    }
  }
}
