// SPDX-License-Identifier: Apache-2.0
// A convolution that sums in float32.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "weights.glsl"

#define Sum float
const float kNothing = 0.0;
float stepped(Weight w, uint o, uint k, float v, float sum) { return fused(weight_at(w, o / 16, k, o % 16), v, sum); }
float joined(float total, float sum) { return add(total, sum); }
float as_sum(float v) { return operand(v); }
float as_float(float sum) { return sum; }
#include "convolve.glsl"
