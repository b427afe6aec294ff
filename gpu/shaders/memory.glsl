// SPDX-License-Identifier: Apache-2.0
// Access of shaders to operands: by device address (docs/decisions/0016-vulkan-addresses.md).
#ifndef WEFT_MEMORY
#define WEFT_MEMORY
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// Numbers that hosts have too: lists of *_operands.inc.
#define WEFT_NUMBER(name, number) const uint name = number;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Quads { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint at[]; };

// Row i of a matrix whose rows stand `stride` floats apart. 64 bits: a matrix may be larger than 4 GiB.
Floats row_at(uint64_t matrix, uint i, uint stride) { return Floats(matrix + uint64_t(i) * stride * 4ul); }
// Panel p of weights with `inputs` inputs.
Quads panel_at(uint64_t weights, uint p, uint inputs) { return Quads(weights + uint64_t(p) * inputs * 64ul); }

#endif  // WEFT_MEMORY
