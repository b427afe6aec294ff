// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/specialise.hpp"

#include "gpu/internal/spirv.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace weft::gpu {
namespace {

// Numbers of the SPIR-V specification, 1.5. Those of integer and logical operations: folded() names them.
enum Code : std::uint32_t {
  kTypeBool = 20,
  kTypeInt = 21,
  kConstantTrue = 41,
  kConstantFalse = 42,
  kConstant = 43,
  kConstantComposite = 44,
  kSpecConstantTrue = 48,
  kSpecConstantFalse = 49,
  kSpecConstant = 50,
  kSpecConstantComposite = 51,
  kSpecConstantOp = 52,
  kFunction = 54,
  kFunctionEnd = 56,
  kFunctionCall = 57,
  kStore = 62,
  kCopyMemory = 63,
  kDecorate = 71,
  kCompositeExtract = 81,
  kControlBarrier = 224,
  kMemoryBarrier = 225,
  kAtomicStore = 228,
  kPhi = 245,
  kLoopMerge = 246,
  kSelectionMerge = 247,
  kLabel = 248,
  kBranch = 249,
  kBranchConditional = 250,
  kSwitch = 251,
  kUnreachable = 255,
  kEntryPoint = 15,
  kCooperativeMatrixStore = 5360,
};
constexpr std::uint32_t kSpecId = 1;  // a decoration

using Words = std::span<const std::uint32_t>;
using Ids = std::set<std::uint32_t>;

void append(std::vector<std::uint32_t>& to, std::uint32_t code, std::initializer_list<std::uint32_t> operands) {
  to.push_back(static_cast<std::uint32_t>(operands.size() + 1) << 16 | code);
  to.insert(to.end(), operands);
}
void append(std::vector<std::uint32_t>& to, Words words) { to.insert(to.end(), words.begin(), words.end()); }

/// The result of an operation on unsigned integers of 32 bits or on truth values; none where it is another's.
std::optional<std::uint32_t> folded(std::uint32_t code, std::span<const std::uint32_t> of) {
  const std::uint32_t a = of[0], b = of.size() > 1 ? of[1] : 0;
  if (of.size() == 1) return code == 168 ? std::optional(a ? 0u : 1u) : std::nullopt;    // LogicalNot
  if (of.size() == 3) return code == 169 ? std::optional(a ? b : of[2]) : std::nullopt;  // Select
  switch (code) {
    case 128:
      return a + b;  // IAdd
    case 130:
      return a - b;  // ISub
    case 132:
      return a * b;  // IMul
    case 134:
      return b ? std::optional(a / b) : std::nullopt;  // UDiv
    case 137:
      return b ? std::optional(a % b) : std::nullopt;  // UMod
    case 164:
      return a == b;  // LogicalEqual
    case 165:
      return a != b;  // LogicalNotEqual
    case 166:
      return a || b;  // LogicalOr
    case 167:
      return a && b;  // LogicalAnd
    case 170:
      return a == b;  // IEqual
    case 171:
      return a != b;  // INotEqual
    case 172:
      return a > b;  // UGreaterThan
    case 174:
      return a >= b;  // UGreaterThanEqual
    case 176:
      return a < b;  // ULessThan
    case 178:
      return a <= b;  // ULessThanEqual
    case 194:
      return b < 32 ? std::optional(a >> b) : std::nullopt;  // ShiftRightLogical
    case 196:
      return b < 32 ? std::optional(a << b) : std::nullopt;  // ShiftLeftLogical
    case 197:
      return a | b;  // BitwiseOr
    case 198:
      return a ^ b;  // BitwiseXor
    case 199:
      return a & b;  // BitwiseAnd
    default:
      return std::nullopt;
  }
}

bool has_result(std::uint32_t code) {
  switch (code) {
    case kStore:
    case kCopyMemory:
    case kCooperativeMatrixStore:
    case kControlBarrier:
    case kMemoryBarrier:
    case kAtomicStore:
    case kLoopMerge:
    case kSelectionMerge:
      return false;
    default:
      return code < kBranch || code > kUnreachable;
  }
}

/// Types and constants, which stand before all functions, with their values.
class ConstantValues {
 public:
  ConstantValues(Words module, const std::map<std::uint32_t, std::uint32_t>& values) : values_(values) {
    for_each_instruction(module, [&](const SpirvInstruction& i) {
      if (i.code == kDecorate && i.words[2] == kSpecId) spec_ids_[i.words[1]] = i.words[3];
      if (i.code == kTypeBool) bools_.insert(i.words[1]);
      if (i.code == kTypeInt && i.words[2] == 32) integers_.insert(i.words[1]);
    });
  }

  /// The value of an integer of 32 bits or of a truth value, where it is constant.
  std::optional<std::uint32_t> value(std::uint32_t id) const {
    const auto found = known_.find(id);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }

  /// Takes an instruction before the functions; writes it as it is to stand.
  void take(const SpirvInstruction& i, std::vector<std::uint32_t>& to) {
    switch (i.code) {
      case kDecorate:
        if (i.words[2] != kSpecId) append(to, i.words);
        return;
      case kConstantTrue:
      case kConstantFalse:
        known_[i.words[2]] = i.code == kConstantTrue;
        break;
      case kConstant:
        if (integers_.contains(i.words[1])) known_[i.words[2]] = i.words[3];
        break;
      case kSpecConstantTrue:
      case kSpecConstantFalse:
        return write(i, given(i.words[2]).value_or(i.code == kSpecConstantTrue), to);
      case kSpecConstant:
        return write(i, given(i.words[2]).value_or(i.words[3]), to);
      case kConstantComposite:
      case kSpecConstantComposite:
        composites_[i.words[2]].assign(i.words.begin() + 3, i.words.end());
        append(to, i.words);
        to[to.size() - i.words.size()] = static_cast<std::uint32_t>(i.words.size()) << 16 | kConstantComposite;
        return;
      case kSpecConstantOp:
        if (const auto result = computed(i)) return write(i, *result, to);
        break;
      default:
        break;
    }
    append(to, i.words);
  }

 private:
  std::optional<std::uint32_t> given(std::uint32_t id) const {
    const auto spec = spec_ids_.find(id);
    if (spec == spec_ids_.end()) return std::nullopt;
    const auto found = values_.find(spec->second);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  void write(const SpirvInstruction& i, std::uint32_t value, std::vector<std::uint32_t>& to) {
    const std::uint32_t type = i.words[1], id = i.words[2];
    if (bools_.contains(type) || integers_.contains(type)) known_[id] = value;
    if (bools_.contains(type)) {
      append(to, value ? kConstantTrue : kConstantFalse, {type, id});
    } else {
      append(to, kConstant, {type, id, value});
    }
  }

  std::optional<std::uint32_t> computed(const SpirvInstruction& i) const {
    if (!bools_.contains(i.words[1]) && !integers_.contains(i.words[1])) return std::nullopt;
    const std::uint32_t code = i.words[3];
    if (code == kCompositeExtract) {
      const auto found = composites_.find(i.words[4]);
      if (found == composites_.end() || i.words.size() != 6) return std::nullopt;
      return value(found->second.at(i.words[5]));
    }
    std::vector<std::uint32_t> operands;
    for (const std::uint32_t id : i.words.subspan(4)) {
      const auto known = value(id);
      if (!known) return std::nullopt;
      operands.push_back(*known);
    }
    return folded(code, operands);
  }

  const std::map<std::uint32_t, std::uint32_t>& values_;
  std::map<std::uint32_t, std::uint32_t> spec_ids_;  // by the constant
  Ids bools_, integers_;                             // types
  std::map<std::uint32_t, std::uint32_t> known_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> composites_;
};

struct Block {
  std::vector<SpirvInstruction> instructions;  // from its label on
  std::uint32_t label() const { return instructions.front().words[1]; }
  const SpirvInstruction& last() const { return instructions.back(); }
  /// The instruction that declares the structure, if any.
  const SpirvInstruction* merge() const {
    if (instructions.size() < 3) return nullptr;
    const SpirvInstruction& i = instructions[instructions.size() - 2];
    return i.code == kSelectionMerge || i.code == kLoopMerge ? &i : nullptr;
  }
};

/// A function, and which of its blocks can run.
class Function {
 public:
  void take(const SpirvInstruction& i) {
    if (i.code == kLabel) {
      index_[i.words[1]] = blocks_.size();
      blocks_.emplace_back();
    }
    if (blocks_.empty() || i.code == kFunctionEnd) {
      (blocks_.empty() ? head_ : tail_).push_back(i);
    } else {
      blocks_.back().instructions.push_back(i);
    }
  }
  std::uint32_t id() const { return head_.front().words[2]; }

  void follow(const ConstantValues& constants) {
    std::vector<std::uint32_t> open{blocks_.front().label()};
    while (!open.empty()) {
      const std::uint32_t label = open.back();
      open.pop_back();
      if (!runs_.insert(label).second) continue;
      const Block& block = blocks_[index_.at(label)];
      for (const std::uint32_t to : taken(block.last(), constants)) open.push_back(to);
      for (const SpirvInstruction& i : block.instructions)
        if (i.code == kFunctionCall) calls_.push_back(i.words[3]);
    }
    // Blocks that structure or a branch on a constant names stay, empty.
    for (const Block& block : blocks_) {
      if (!runs_.contains(block.label())) continue;
      if (const SpirvInstruction* const merge = block.merge()) {
        kept_.insert(merge->words[1]);
        if (merge->code == kLoopMerge) headers_[merge->words[2]] = block.label();
      }
      if (block.last().code == kBranchConditional) kept_.insert({block.last().words[2], block.last().words[3]});
    }
  }
  const std::vector<std::uint32_t>& calls() const { return calls_; }

  /// Writes what runs; adds to `gone` what is no longer defined.
  void write(const ConstantValues& constants, std::vector<std::uint32_t>& to, Ids& gone) const {
    for (const SpirvInstruction& i : head_) append(to, i.words);
    for (const Block& block : blocks_) {
      const std::uint32_t label = block.label();
      if (runs_.contains(label)) {
        for (const SpirvInstruction& i : block.instructions) write(i, block, constants, to);
        continue;
      }
      for (const SpirvInstruction& i : block.instructions) forget(i, gone);
      const auto header = headers_.find(label);
      if (header == headers_.end() && !kept_.contains(label)) continue;
      append(to, block.instructions.front().words);
      if (header != headers_.end())
        append(to, kBranch, {header->second});
      else
        append(to, kUnreachable, {});
    }
    for (const SpirvInstruction& i : tail_) append(to, i.words);
  }
  void forget(Ids& gone) const {
    for (const SpirvInstruction& i : head_) forget(i, gone);
    for (const Block& block : blocks_)
      for (const SpirvInstruction& i : block.instructions) forget(i, gone);
  }

 private:
  static void forget(const SpirvInstruction& i, Ids& gone) {
    if (i.code == kLabel)
      gone.insert(i.words[1]);
    else if (has_result(i.code) && i.words.size() > 2)
      gone.insert(i.words[2]);
  }

  /// The label that a switch on a constant chooses.
  static std::uint32_t chosen(const SpirvInstruction& i, std::uint32_t value) {
    for (std::size_t at = 3; at + 1 < i.words.size(); at += 2)
      if (i.words[at] == value) return i.words[at + 1];
    return i.words[2];
  }

  static std::vector<std::uint32_t> taken(const SpirvInstruction& i, const ConstantValues& constants) {
    if (i.code == kBranch) return {i.words[1]};
    const auto value = i.code == kBranchConditional || i.code == kSwitch ? constants.value(i.words[1]) : std::nullopt;
    if (i.code == kBranchConditional) {
      if (value) return {*value ? i.words[2] : i.words[3]};
      return {i.words[2], i.words[3]};
    }
    if (i.code != kSwitch) return {};
    if (value) return {chosen(i, *value)};
    std::vector<std::uint32_t> all{i.words[2]};
    for (std::size_t at = 4; at < i.words.size(); at += 2) all.push_back(i.words[at]);
    return all;
  }

  void write(const SpirvInstruction& i, const Block& block, const ConstantValues& constants,
             std::vector<std::uint32_t>& to) const {
    if (i.code == kSwitch) {
      if (const auto value = constants.value(i.words[1])) return append(to, kSwitch, {i.words[1], chosen(i, *value)});
    }
    if (i.code != kPhi) return append(to, i.words);
    std::vector<std::uint32_t> words(i.words.begin(), i.words.begin() + 3);
    for (std::size_t at = 3; at + 1 < i.words.size(); at += 2)
      if (comes_from(i.words[at + 1], block.label(), constants))
        words.insert(words.end(), {i.words[at], i.words[at + 1]});
    words[0] = static_cast<std::uint32_t>(words.size()) << 16 | kPhi;
    append(to, words);
  }

  bool comes_from(std::uint32_t from, std::uint32_t label, const ConstantValues& constants) const {
    if (!runs_.contains(from)) return false;
    const SpirvInstruction& last = blocks_[index_.at(from)].last();
    if (last.code != kSwitch) return true;  // both ways of a branch stay
    const auto all = taken(last, constants);
    return std::find(all.begin(), all.end(), label) != all.end();
  }

  std::vector<SpirvInstruction> head_, tail_;
  std::vector<Block> blocks_;
  std::map<std::uint32_t, std::size_t> index_;      // of blocks, by label
  Ids runs_, kept_;                                 // labels
  std::map<std::uint32_t, std::uint32_t> headers_;  // of loops, by the label of what continues them
  std::vector<std::uint32_t> calls_;
};

}  // namespace

std::vector<std::uint32_t> specialised(std::span<const std::uint32_t> module,
                                       const std::map<std::uint32_t, std::uint32_t>& values) {
  ConstantValues constants(module, values);
  std::vector<std::uint32_t> before(module.begin(), module.begin() + kSpirvHeader);
  std::vector<Function> functions;
  std::map<std::uint32_t, std::size_t> index;
  std::uint32_t main = 0;
  for_each_instruction(module, [&](const SpirvInstruction& i) {
    if (i.code == kEntryPoint) main = i.words[2];
    if (i.code == kFunction) {
      index[i.words[2]] = functions.size();
      functions.emplace_back();
    }
    if (functions.empty())
      constants.take(i, before);
    else
      functions.back().take(i);
  });
  std::set<std::uint32_t> called;
  std::vector<std::uint32_t> open{main};
  while (!open.empty()) {
    const std::uint32_t id = open.back();
    open.pop_back();
    if (!called.insert(id).second) continue;
    Function& function = functions[index.at(id)];
    function.follow(constants);
    open.insert(open.end(), function.calls().begin(), function.calls().end());
  }
  Ids gone;
  std::vector<std::uint32_t> after;
  for (const Function& each : functions) {
    if (called.contains(each.id()))
      each.write(constants, after, gone);
    else
      each.forget(gone);
  }
  std::vector<std::uint32_t> to(before.begin(), before.begin() + kSpirvHeader);
  for_each_instruction(before, [&](const SpirvInstruction& i) {
    if (i.code != kDecorate || !gone.contains(i.words[1])) append(to, i.words);
  });
  append(to, after);
  return to;
}

}  // namespace weft::gpu
