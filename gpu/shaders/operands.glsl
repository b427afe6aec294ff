// SPDX-License-Identifier: Apache-2.0
// A shader's operands: globals, named in a list before this file is included,
//   #define WEFT_OPERANDS(X) X(uint64_t, x) X(uint, rows)
// which main() fills with load_operands() before all else. One dispatch outside of a program has them in its push
// constants; a dispatch of a program (gpu/program.hpp) runs many operations, whose operands stand in a table, ENTRIES of
// them for each z of the groups. A host structure with the same members, in this order, is what Recorder::dispatch gets.
//
// A shader whose loops go over item() and items() may be given small operations side by side in one group: each has a
// share of its threads. It leaves when load_operands() says that there is no entry for this share. Such a shader declares
// its local size before it includes this file: glslang takes it for 1 until then. One with an operand of a type T of its
// own says kHalvesOf_T, words of 32 bits, and defines T take_T() of take_uint() before it.
#ifndef WEFT_OPERANDS_READ
#define WEFT_OPERANDS_READ

#include "memory.glsl"
#extension GL_EXT_control_flow_attributes : require

// Operations of a group; 0: one, whose operands are pushed.
layout(constant_id = 8) const uint ENTRIES = 0;
const uint kShares = ENTRIES == 0 ? 1 : ENTRIES;
// A table's words of 64 bits, by bit: those that grow by a step from entry to entry, and those that do as they like. Both
// 0: the table has all of each entry. Else it has the first entry, the steps, and then each entry's words of the latter
// kind; so what all entries agree on is read from where all threads read.
layout(constant_id = 9) const uint MOVING = 0;
layout(constant_id = 10) const uint SCATTERED = 0;

#define WEFT_DECLARED(type, name) type name;
#define WEFT_PUSHED(type, name) name = pushed.name;
#define WEFT_TABLED(type, name) name = entry.name;
#define WEFT_TAKEN(type, name) name = take_##type();
#define WEFT_HALVES(type, name) +kHalvesOf_##type
const uint kHalvesOf_uint64_t = 2, kHalvesOf_uint = 1, kHalvesOf_float = 1;
const uint kOperandWords = (0 WEFT_OPERANDS(WEFT_HALVES) + 1) / 2;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer OperandTable {
  WEFT_OPERANDS(WEFT_DECLARED)
};
layout(push_constant) uniform Pushed {
  uint64_t table_;
  uint table_stride_, entries_;
  WEFT_OPERANDS(WEFT_DECLARED)
} pushed;
WEFT_OPERANDS(WEFT_DECLARED)

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer OperandWords { uint64_t at[]; };
uint64_t operand_words_[kOperandWords];
uint operand_half_ = 0;
uint64_t take_uint64_t() {
  operand_half_ += 2;
  return operand_words_[operand_half_ / 2 - 1];
}
uint take_uint() {
  uint half_ = operand_half_++;
  return uint(operand_words_[half_ / 2] >> half_ % 2 * 32);
}
float take_float() { return uintBitsToFloat(take_uint()); }

// Names of its own end in an underscore: operands may have any other.
void load_stepped_operands(uint place_) {
  OperandWords first_ = OperandWords(pushed.table_);
  OperandWords own_ = OperandWords(pushed.table_ + (2 * kOperandWords + uint64_t(place_) * bitCount(SCATTERED)) * 8ul);
  [[unroll]] for (uint word_ = 0; word_ < kOperandWords; ++word_) {
    if ((SCATTERED >> word_ & 1u) != 0u)
      operand_words_[word_] = own_.at[bitCount(SCATTERED & (1u << word_) - 1u)];
    else
      operand_words_[word_] = first_.at[word_];
    if ((MOVING >> word_ & 1u) != 0u) 
      operand_words_[word_] += uint64_t(int64_t(place_) * int(first_.at[kOperandWords + word_]));
  }
  WEFT_OPERANDS(WEFT_TAKEN)
}

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
  if ((MOVING | SCATTERED) != 0u) {
    load_stepped_operands(exists ? place : pushed.entries_ - 1);
    return exists;
  }
  OperandTable entry = OperandTable(pushed.table_ + uint64_t(exists ? place : pushed.entries_ - 1) * pushed.table_stride_);
  WEFT_OPERANDS(WEFT_TABLED)
  return exists;
}

#endif  // WEFT_OPERANDS_READ
