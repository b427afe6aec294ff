// SPDX-License-Identifier: Apache-2.0
// Sums of four products of bytes as instructions (VK_KHR_shader_integer_dot_product): OpSDot and OpSUDot of four bytes
// a word, since glslang has no functions for them yet.
#ifndef WEFT_DOTS_PACKED
#define WEFT_DOTS_PACKED
#extension GL_EXT_spirv_intrinsics : require

// Capabilities DotProductInput4x8BitPacked and DotProduct; the last operand is PackedVectorFormat4x8Bit.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packed_signed_dot(uint a, uint b, spirv_literal uint format);
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4452)
int packed_mixed_dot(uint a, uint b, spirv_literal uint format);

int signed_dot(uint a, uint b) { return packed_signed_dot(a, b, 0); }
// b's bytes are unsigned.
int mixed_dot(uint a, uint b) { return packed_mixed_dot(a, b, 0); }

#endif  // WEFT_DOTS_PACKED
