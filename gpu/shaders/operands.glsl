// SPDX-License-Identifier: Apache-2.0
// A shader's operands: globals, named in a list before this file is included,
//   #define WEFT_OPERANDS(X) X(uint64_t, x) X(uint, rows)
// which main() fills with load_operands() before all else. One dispatch outside of a program has them in its push
// constants; a dispatch of a program (gpu/program.hpp) runs many operations, whose operands stand in a table, ENTRIES of
// them for each z of the groups. A host structure with the same members, in this order, is what Recorder::dispatch gets.
//
// A shader whose loops go over item() and items() may be given small operations side by side in one group: each has a
// share of its threads. It leaves when load_operands() says that there is no entry for this share. Such a shader declares
// its local size before it includes this file: glslang takes it for 1 until then.
#ifndef WEFT_OPERANDS_READ
#define WEFT_OPERANDS_READ

#include "memory.glsl"

// Operations of a group; 0: one, whose operands are pushed.
layout(constant_id = 8) const uint ENTRIES = 0;
const uint kShares = ENTRIES == 0 ? 1 : ENTRIES;

#define WEFT_DECLARED(type, name) type name;
#define WEFT_PUSHED(type, name) name = pushed.name;
#define WEFT_TABLED(type, name) name = entry.name;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer OperandTable {
  WEFT_OPERANDS(WEFT_DECLARED)
};
layout(push_constant) uniform Pushed {
  uint64_t table_;
  uint table_stride_, entries_;
  WEFT_OPERANDS(WEFT_DECLARED)
} pushed;
WEFT_OPERANDS(WEFT_DECLARED)

uint share_size() { return gl_WorkGroupSize.x / kShares; }
uint share() { return kShares == 1 ? 0 : gl_LocalInvocationID.x / share_size(); }
uint share_thread() { return kShares == 1 ? gl_LocalInvocationID.x : gl_LocalInvocationID.x % share_size(); }
uint item() { return gl_WorkGroupID.x * share_size() + share_thread(); }
uint items() { return gl_NumWorkGroups.x * share_size(); }

// False where the table has no entry for this thread; it then has the last one's.
bool load_operands() {
  if (ENTRIES == 0) {
    WEFT_OPERANDS(WEFT_PUSHED)
    return true;
  }
  uint place = gl_WorkGroupID.z * kShares + share();
  bool exists = kShares == 1 || place < pushed.entries_;
  OperandTable entry = OperandTable(pushed.table_ + uint64_t(exists ? place : pushed.entries_ - 1) * pushed.table_stride_);
  WEFT_OPERANDS(WEFT_TABLED)
  return exists;
}

#endif  // WEFT_OPERANDS_READ
