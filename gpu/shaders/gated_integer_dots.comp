// SPDX-License-Identifier: Apache-2.0
// A gated pair of linear layers on integer codes, with packed dot products.
#version 460
#extension GL_GOOGLE_include_directive : require
#define WEFT_GATED
#include "dots_packed.glsl"
#include "linear_integer.glsl"
