// SPDX-License-Identifier: Apache-2.0
// A linear layer of binary64 weights.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "linear_double.glsl"
