// SPDX-License-Identifier: Apache-2.0
// linear_cell.glsl for devices with packed dot products (VK_KHR_shader_integer_dot_product): OpSDot and OpSUDot of four
// bytes a word, as instructions, since glslang has no functions for them yet.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_control_flow_attributes : require

// Capabilities DotProductInput4x8BitPacked and DotProduct; the last operand is PackedVectorFormat4x8Bit.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packed_signed_dot(uint a, uint b, spirv_literal uint format);
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4452)
int packed_mixed_dot(uint a, uint b, spirv_literal uint format);

int signed_dot(uint a, uint b) { return packed_signed_dot(a, b, 0); }
// b's bytes are unsigned.
int mixed_dot(uint a, uint b) { return packed_mixed_dot(a, b, 0); }

#include "linear_cell.glsl"
