// SPDX-License-Identifier: Apache-2.0
// A gated pair of linear layers for few rows.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#define WEFT_GATED
#include "linear_row.glsl"
