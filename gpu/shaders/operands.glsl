// SPDX-License-Identifier: Apache-2.0
// A shader's operands: globals, words of 64 bits first, of a list that hosts have too,
//   #include "elementwise_operands.inc"
//   #define WEFT_OPERANDS WEFT_UNARY_OPERANDS
// which main() fills with load_operands() before all else. One dispatch outside of a command graph has them in its push
// constants; a dispatch of a command graph (gpu/command_graph.hpp) runs many operations, ENTRIES of them for each z of
// the groups.
// If these grow by steps, the first one's and the steps are pushed; else all stand in a table. Recorder::dispatch gets
// a structure of the same list (gpu/internal/push.hpp).
//
// A shader whose loops go over item() and items() may be given small operations side by side in one group: each has a
// share of its threads. It leaves when load_operands() says that there is no entry for this share. Such a shader
// declares its local size before it includes this file: glslang takes it for 1 until then. One with an operand of a
// type T of its own says kHalvesOf_T, words of 32 bits, and defines T take_T() of take_uint() before it.
#ifndef WEFT_OPERANDS_READ
#define WEFT_OPERANDS_READ

#include "memory.glsl"
#extension GL_EXT_control_flow_attributes : require

// Operations of a group; 0: one, whose operands are pushed.
layout(constant_id = 8) const uint ENTRIES = 0;
const uint kShares = ENTRIES == 0 ? 1 : ENTRIES;
// An entry's words of 64 bits, by bit: those that grow by a step from entry to entry, and those that do as they like.
// Both 0: the table has all of each entry. Else the table has each entry's words of the latter kind, after the first
// entry and the steps, unless these ARE_PUSHED; so what all entries agree on is read from where all threads read.
layout(constant_id = 9) const uint MOVING = 0;
layout(constant_id = 10) const uint SCATTERED = 0;
layout(constant_id = 11) const bool ARE_PUSHED = false;

#define WEFT_DECLARED(type, name) type name;
#define WEFT_TABLED(type, name) name = entry.name;
#define WEFT_TAKEN(type, name) name = take_##type();
#define WEFT_HALVES(type, name) +kHalvesOf_##type
const uint kHalvesOf_uint64_t = 2, kHalvesOf_uint = 1, kHalvesOf_float = 1;
const uint kOperandWords = (0 WEFT_OPERANDS(WEFT_HALVES) + 1) / 2;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer OperandTable {
  WEFT_OPERANDS(WEFT_DECLARED)
};
// Of words that are pushed with their steps, the steps of those that move, 32 bits each, fill table_, table_stride_ and
// what the operands leave of words_, in this order.
layout(push_constant, std430) uniform Pushed {
  uint64_t table_;
  uint table_stride_, entries_;
  uint64_t words_[14];
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
int pushed_step_(uint i_) {
  if (i_ == 2) return int(pushed.table_stride_);
  uint64_t two_ = i_ < 2 ? pushed.table_ : pushed.words_[min(kOperandWords + (i_ - 3) / 2, 13)];
  return int(uint(two_ >> (i_ < 2 ? i_ : i_ - 3) % 2 * 32));
}
void load_stepped_operands_(uint place_) {
  OperandWords first_ = OperandWords(pushed.table_);
  OperandWords own_ = OperandWords(pushed.table_ + (2 * kOperandWords + uint64_t(place_) * bitCount(SCATTERED)) * 8ul);
  [[unroll]] for (uint word_ = 0; word_ < kOperandWords; ++word_) {
    if (ARE_PUSHED)
      operand_words_[word_] = pushed.words_[word_];
    else if ((SCATTERED >> word_ & 1u) != 0u)
      operand_words_[word_] = own_.at[bitCount(SCATTERED & (1u << word_) - 1u)];
    else
      operand_words_[word_] = first_.at[word_];
    if ((MOVING >> word_ & 1u) != 0u) {
      int step_ = ARE_PUSHED ? pushed_step_(bitCount(MOVING & (1u << word_) - 1u)) : int(first_.at[kOperandWords + word_]);
      operand_words_[word_] += uint64_t(int64_t(int(place_)) * int64_t(step_));
    }
  }
  WEFT_OPERANDS(WEFT_TAKEN)
}

uint share_size() { return gl_WorkGroupSize.x / kShares; }
uint share() { return kShares == 1 ? 0 : gl_LocalInvocationID.x / share_size(); }
uint share_thread() { return kShares == 1 ? gl_LocalInvocationID.x : gl_LocalInvocationID.x % share_size(); }
uint item() { return gl_WorkGroupID.x * share_size() + share_thread(); }
uint items() { return gl_NumWorkGroups.x * share_size(); }

// False where there is no entry for this thread; it then has the last one's. May be called again: operands that only a
// shader's end needs then take no registers before.
bool load_operands() {
  operand_half_ = 0;
  if (ENTRIES == 0) {
    [[unroll]] for (uint word_ = 0; word_ < kOperandWords; ++word_) operand_words_[word_] = pushed.words_[word_];
    WEFT_OPERANDS(WEFT_TAKEN)
    return true;
  }
  uint place_ = gl_WorkGroupID.z * kShares + share();
  bool exists_ = kShares == 1 || place_ < pushed.entries_;
  uint at_ = exists_ ? place_ : pushed.entries_ - 1;
  if (ARE_PUSHED || (MOVING | SCATTERED) != 0u) {
    load_stepped_operands_(at_);
    return exists_;
  }
  OperandTable entry = OperandTable(pushed.table_ + uint64_t(at_) * pushed.table_stride_);
  WEFT_OPERANDS(WEFT_TABLED)
  return exists_;
}

#endif  // WEFT_OPERANDS_READ
