// SPDX-License-Identifier: Apache-2.0
// Matrices of a subgroup (VK_NV_cooperative_matrix): 16 by 32 signed bytes times 32 by 16, summed in 32 bits, which is
// exact. They come from arrays of four words in shared memory: rows of values, and outputs of codes, `stride` apart.
// Debian 12's glslang does not know the extension's successor of KHR, which has no larger ones.
#ifndef WEFT_BYTE_MATRICES
#define WEFT_BYTE_MATRICES
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_NV_integer_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require

#define Values icoopmatNV<8, gl_ScopeSubgroup, 16, 32>
#define Codes icoopmatNV<8, gl_ScopeSubgroup, 32, 16>
#define Sums icoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define LOAD_VALUES(to, from, at, stride) coopMatLoadNV(to, from, at, stride, false)
#define LOAD_CODES(to, from, at, stride) coopMatLoadNV(to, from, at, stride, true)
#define LOAD_SUMS(to, from, at, stride) coopMatLoadNV(to, from, at, stride, false)
#define MULTIPLIED(values, codes, sums) coopMatMulAddNV(values, codes, sums)
#define ELEMENT(sums, i) sums[i]

#endif  // WEFT_BYTE_MATRICES
