// SPDX-License-Identifier: Apache-2.0
// A linear layer on integer codes, for devices without packed dot products.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "dots_by_byte.glsl"
#include "linear_integer.glsl"
