// SPDX-License-Identifier: Apache-2.0
// Stored weights of 32 and 64 bits, whose numbers take binary64. Few shaders include it: it is long, and compilers of
// drivers are slow with it. Others get such weights dequantized (dequantize.comp).
#ifndef WEFT_WIDE
#define WEFT_WIDE

#include "weights.glsl"
#include "binary64.glsl"

const bool kIsWide = DTYPE == kInt64 || DTYPE == kInt32 || DTYPE == kUint64 || DTYPE == kUint32;
const bool kIsLong = DTYPE == kFloat64 || DTYPE == kInt64 || DTYPE == kUint64;
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Longs { uint64_t at[]; };

// The bits of an output's code.
uint64_t long_code(Weight w, uint p, uint k, uint lane) {
  uint64_t element = (uint64_t(p) * w.inputs + k) * 16ul + lane;
  return kIsLong ? Longs(w.codes + element * 8ul).at[0] : uint64_t(Words(w.codes + element * 4ul).at[0]);
}

#endif  // WEFT_WIDE
