// SPDX-License-Identifier: Apache-2.0
// A convolution of integer codes, with packed dot products.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "dots_packed.glsl"
#include "convolve_integer.glsl"
