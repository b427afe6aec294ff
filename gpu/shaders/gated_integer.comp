// SPDX-License-Identifier: Apache-2.0
// A gated pair of linear layers on integer codes.
#version 460
#extension GL_GOOGLE_include_directive : require
#define WEFT_GATED
#include "linear_integer.glsl"
