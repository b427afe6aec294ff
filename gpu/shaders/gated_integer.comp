// SPDX-License-Identifier: Apache-2.0
// A gated pair of linear layers on integer codes, for devices without packed dot products.
#version 460
#extension GL_GOOGLE_include_directive : require
#define WEFT_GATED
#include "dots_by_byte.glsl"
#include "linear_integer.glsl"
