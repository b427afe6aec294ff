// SPDX-License-Identifier: Apache-2.0
// Traces become 0 where the signal says that an episode ends.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
#include "trace_operands.inc"
WEFT_SIGNAL_NUMBERS(WEFT_NUMBER)
#define WEFT_OPERANDS WEFT_END_TRACES_OPERANDS
#include "operands.glsl"

void main() {
  if (!load_operands()) return;
  if (flushed(Floats(signal).at[kSignalEnds]) == 0.0) return;
  for (uint i = item(); i < count; i += items()) Floats(z).at[i] = 0.0;
}
