// SPDX-License-Identifier: Apache-2.0
// Traces take gradients in, as kernels/trace.cpp does, and are summed by rule R2: a group of 64 lanes, each with every
// 64th trace.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 64) in;
#include "trace_operands.inc"
WEFT_SIGNAL_NUMBERS(WEFT_NUMBER)
WEFT_TRACED_NUMBERS(WEFT_NUMBER)
layout(constant_id = 1) const uint TRACED = kTracesMemory;
#define WEFT_OPERANDS WEFT_TRACE_UPDATE_OPERANDS
#include "operands.glsl"

// Traces of a thread whose loads are under way together. Emulated arithmetic is long: one.
#ifdef WEFT_EMULATED
const uint kAhead = 1;
#else
const uint kAhead = 8;
#endif
const uint kPanel = 16;

shared float lanes[64];

// Place of a thread's next trace in a product's panels.
uint output_ = 0, input_ = 0;
void settle_place() {
  while (input_ >= cols) {
    input_ -= cols;
    output_ += kPanel;
  }
}

bool is_zero(float v) { return (bits(v) & 0x7fffffffu) == 0u; }

// A zero that comes of an addition of +0 has no sign. In bits: compilers take that addition for nothing.
float next_gradient(uint at) {
  if (TRACED == kTracesMemory) return flushed(Floats(gradient).at[at]);
  if (TRACED == kTracesErrors) {
    float error = flushed(Floats(gradient).at[at]);
    return is_zero(error) ? 0.0 : error;
  }
  float error = output_ < rows ? flushed(Floats(gradient).at[output_]) : 0.0, value = flushed(Floats(x).at[input_]);
  float product = fused(error, value, 0.0);
  input_ += 64 / kPanel;
  settle_place();
  return (is_zero(error) || is_zero(value)) && !is_nan(product) ? 0.0 : product;
}

void main() {
  load_operands();
  uint lane = gl_LocalInvocationID.x;
  if (TRACED == kTracesProduct) {
    output_ = lane % kPanel;
    input_ = lane / kPanel;
    settle_place();
  }
  float decay = flushed(Floats(signal).at[kSignalDecay]), total = 0.0;
  for (uint first = lane; first < count; first += 64 * kAhead) {
    float before[kAhead], taken[kAhead];
    [[unroll]] for (uint i = 0; i < kAhead; ++i) {
      uint at = first + i * 64;
      if (at >= count) break;
      before[i] = flushed(Floats(z).at[at]);
      taken[i] = next_gradient(at);
    }
    [[unroll]] for (uint i = 0; i < kAhead; ++i) {
      uint at = first + i * 64;
      if (at >= count) break;
      float moved = fused(decay, before[i], taken[i]);
      Floats(z).at[at] = moved;
      total = add(total, magnitude_of(moved));
    }
  }
  lanes[lane] = total;
  barrier();
  for (uint reach = 32; reach > 0; reach /= 2) {
    if (lane < reach) lanes[lane] = add(lanes[lane], lanes[lane + reach]);
    barrier();
  }
  if (lane == 0) Floats(sum).at[0] = lanes[0];
}
