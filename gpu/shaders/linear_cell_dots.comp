// SPDX-License-Identifier: Apache-2.0
// A linear layer of one chunk on integer codes, with packed dot products.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#include "dots_packed.glsl"
#include "linear_cell.glsl"
