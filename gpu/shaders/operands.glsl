// SPDX-License-Identifier: Apache-2.0
// A shader's operands: globals, named in a list before this file is included,
//   #define WEFT_OPERANDS(X) X(uint64_t, x) X(uint, rows)
// which main() fills with load_operands() before all else. One dispatch outside of a program has them in its push
// constants; a dispatch of a program (gpu/program.hpp) runs many operations, whose operands stand in a table: the one of
// gl_WorkGroupID.z. A host structure with the same members, in this order, is what Recorder::dispatch gets.
#ifndef WEFT_OPERANDS_READ
#define WEFT_OPERANDS_READ

#include "memory.glsl"

layout(constant_id = 8) const bool FROM_TABLE = false;

#define WEFT_DECLARED(type, name) type name;
#define WEFT_PUSHED(type, name) name = pushed.name;
#define WEFT_TABLED(type, name) name = entry.name;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer OperandTable {
  WEFT_OPERANDS(WEFT_DECLARED)
};
layout(push_constant) uniform Pushed {
  uint64_t table_;
  uint table_stride_, unused_;
  WEFT_OPERANDS(WEFT_DECLARED)
} pushed;
WEFT_OPERANDS(WEFT_DECLARED)

void load_operands() {
  if (FROM_TABLE) {
    OperandTable entry = OperandTable(pushed.table_ + uint64_t(gl_WorkGroupID.z) * pushed.table_stride_);
    WEFT_OPERANDS(WEFT_TABLED)
  } else {
    WEFT_OPERANDS(WEFT_PUSHED)
  }
}

#endif  // WEFT_OPERANDS_READ
