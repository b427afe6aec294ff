// SPDX-License-Identifier: Apache-2.0
// From exact sums of codes to float32 (kernels/linear_integer.hpp).
#ifndef WEFT_LINEAR_CODES
#define WEFT_LINEAR_CODES

#include "linear_operands.glsl"

vec4 each_mul(vec4 a, vec4 b) { return vec4(mul(a.x, b.x), mul(a.y, b.y), mul(a.z, b.z), mul(a.w, b.w)); }

// A chunk's sum with one more block's: integers times `unit`, which is a power of two or 1; its scales count where they
// belong to blocks.
vec4 with_block(vec4 sum, vec4 numbers, float unit, float x_scale, vec4 scales_of) {
  vec4 factor = vec4(x_scale);
  if (kHasBlocks) {
    factor = each_mul(factor, scales_of);
    if (unit != 1.0) numbers = each_mul(numbers, vec4(unit));
  } else if (unit != 1.0) {
    factor = vec4(mul(x_scale, unit));  // exact: it is 0, a NaN or above 2^-107
  }
  return vec4(fused(numbers.x, factor.x, sum.x), fused(numbers.y, factor.y, sum.y), fused(numbers.z, factor.z, sum.z),
              fused(numbers.w, factor.w, sum.w));
}

#endif  // WEFT_LINEAR_CODES
