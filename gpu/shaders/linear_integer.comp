// SPDX-License-Identifier: Apache-2.0
// A linear layer on integer codes.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "linear_integer.glsl"
