// SPDX-License-Identifier: Apache-2.0
// y[o][p] = sum over columns k of w[o][k] x(p, k) + bias[o], rule R1: 16 outputs of a panel by 16 windows a group.
// With WEFT_DOUBLE, of binary64 weights, it sums in binary64 and rounds at last.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "activations.glsl"
#include "window.glsl"

#ifdef WEFT_DOUBLE
#include "wide.glsl"
#define Sum uint64_t
const uint64_t kNothing = 0ul;
uint64_t stepped(Weight w, uint o, uint k, float v, uint64_t sum) {
  return fused64(long_code(w, o / 16, k, o % 16), widened(bits(v)), sum);
}
uint64_t joined(uint64_t total, uint64_t sum) { return add64(total, sum); }
uint64_t as_sum(float v) { return widened(bits(v)); }
float as_float(uint64_t sum) { return from_bits(narrowed(sum)); }
#else
#include "weights.glsl"
#define Sum float
const float kNothing = 0.0;
float stepped(Weight w, uint o, uint k, float v, float sum) { return fused(weight_at(w, o / 16, k, o % 16), v, sum); }
float joined(float total, float sum) { return add(total, sum); }
float as_sum(float v) { return operand(v); }
float as_float(float sum) { return sum; }
#endif

layout(local_size_x = 16, local_size_y = 16, local_size_y_id = 14) in;
#include "window_operands.inc"
#define WEFT_OPERANDS WEFT_CONVOLVE_OPERANDS
#include "operands.glsl"

float total_of(Geometry g, uint o, uint place, Floats image) {
  uint of_group = g.channels / g.groups, group = o / (outputs / g.groups), plane = volume(g.image);
  Weight weights = Weight(w, scales, zero_points, of_group * volume(g.kernel));
  uvec3 p = split(place, g.windows);
  Sum total = kNothing, sum = kNothing;
  uint k = 0;
  for (uint c = group * of_group; c < (group + 1) * of_group; ++c)
    for (uint tz = 0; tz < g.kernel[0]; ++tz)
      for (uint ty = 0; ty < g.kernel[1]; ++ty)
        for (uint tx = 0; tx < g.kernel[2]; ++tx) {
          uint at = element_of(g, p, uvec3(tz, ty, tx));
          float v = 0.0;
          if (at < plane) v = operand(image.at[c * plane + at]);
          sum = stepped(weights, o, k, v, sum);
          if (++k % 64 == 0) {
            total = joined(total, sum);
            sum = kNothing;
          }
        }
  if (k % 64 != 0) total = joined(total, sum);
  if (bias != 0ul) total = joined(total, as_sum(Floats(bias).at[o]));
  return as_float(total);
}

void main() {
  load_operands();
  Geometry g = Geometry(geometry);
  uint positions = volume(g.windows), panels = (outputs + 15) / 16;
  for (uint job = gl_WorkGroupID.y; job < rows * panels; job += gl_NumWorkGroups.y) {
    uint b = job / panels, o = job % panels * 16 + gl_LocalInvocationID.x;
    if (o >= outputs) continue;
    for (uint p = gl_WorkGroupID.x * gl_WorkGroupSize.y + gl_LocalInvocationID.y; p < positions;
         p += gl_NumWorkGroups.x * gl_WorkGroupSize.y) {
      float sum = total_of(g, o, p, row_at(x, b, x_stride));
      if (z != 0ul) row_at(z, b, z_stride).at[o * positions + p] = sum;
      row_at(y, b, y_stride).at[o * positions + p] = activate(sum);
    }
  }
}
