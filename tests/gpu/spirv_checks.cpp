// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/spirv_checks.hpp"

#include "gpu/internal/spirv.hpp"

#include <functional>
#include <map>
#include <set>
#include <string_view>

namespace weft::gpu {
namespace {

// Numbers of the SPIR-V specification, 1.5.
constexpr std::uint32_t kCapability = 17, kDecorate = 71, kNoContraction = 42, kFloat64 = 10;
constexpr std::uint32_t kExtInstImport = 11, kExtInst = 12, kTypeFloat = 22, kTypeVector = 23;
constexpr std::uint32_t kQuantizeToF16 = 116, kFDiv = 136, kFRem = 140, kFMod = 141;
constexpr std::uint32_t kVectorTimesMatrix = 144, kDot = 148;
// Numbers of GLSL.std.450.
constexpr std::uint32_t kFAbs = 4, kSqrt = 31, kUMin = 38, kSMin = 39, kUMax = 41, kSMax = 42, kUClamp = 44,
                        kSClamp = 45;
constexpr std::uint32_t kFma = 50, kPackDouble2x32 = 59, kUnpackDouble2x32 = 65, kFindUMsb = 75;

/// The name of a float instruction that may be contracted, regrouped or distributed; null for any other.
const char* arithmetic(std::uint32_t code) {
  switch (code) {
    case 127:
      return "OpFNegate";
    case 129:
      return "OpFAdd";
    case 131:
      return "OpFSub";
    case 133:
      return "OpFMul";
    case 136:
      return "OpFDiv";
    case 140:
      return "OpFRem";
    case 141:
      return "OpFMod";
    case 142:
      return "OpVectorTimesScalar";
    case 143:
      return "OpMatrixTimesScalar";
    case 144:
      return "OpVectorTimesMatrix";
    case 145:
      return "OpMatrixTimesVector";
    case 146:
      return "OpMatrixTimesMatrix";
    case 147:
      return "OpOuterProduct";
    case 148:
      return "OpDot";
    default:
      return nullptr;
  }
}

}  // namespace

std::vector<std::string> inexact_instructions(std::span<const std::uint32_t> module) {
  std::set<std::uint32_t> decorated;
  for_each_instruction(module, [&](const SpirvInstruction& i) {
    if (i.code == kDecorate && i.words[2] == kNoContraction) decorated.insert(i.words[1]);
  });
  std::vector<std::string> found;
  for_each_instruction(module, [&](const SpirvInstruction& i) {
    if (const char* what = arithmetic(i.code); what && decorated.count(i.words[2]) == 0)
      found.push_back(std::string(what) + " %" + std::to_string(i.words[2]) + " at word " + std::to_string(i.at));
  });
  return found;
}

std::vector<std::string> forbidden_instructions(std::span<const std::uint32_t> module, const Estimates& allowed) {
  constexpr std::string_view kSet = "GLSL.std.450";
  const std::set<std::uint32_t> exact = {
      kFAbs, kUMin, kSMin, kUMax, kSMax, kUClamp, kSClamp, kPackDouble2x32, kUnpackDouble2x32, kFindUMsb};
  std::map<std::uint32_t, std::uint32_t> float_bits;  // by type
  std::vector<std::string> found;
  std::size_t roots = 0, quotients = 0;
  for_each_instruction(module, [&](const SpirvInstruction& i) {
    const auto forbid = [&](const std::string& what) { found.push_back(what + " at word " + std::to_string(i.at)); };
    const auto is_binary32 = [&] { return float_bits.count(i.words[1]) != 0 && float_bits[i.words[1]] == 32; };
    if (i.code == kTypeFloat) {
      float_bits[i.words[1]] = i.words[2];
    } else if (i.code == kTypeVector && float_bits.count(i.words[2]) != 0) {
      float_bits[i.words[1]] = float_bits[i.words[2]];
    } else if (i.code == kExtInstImport) {
      if (std::string_view(reinterpret_cast<const char*>(&i.words[2])) != kSet) forbid("a set of instructions");
    } else if (i.code == kExtInst) {
      const std::uint32_t which = i.words[4];
      const bool is_allowed = exact.count(which) != 0 || (which == kFma && allowed.fma) ||
                              (which == kSqrt && (!is_binary32() || ++roots <= allowed.roots));
      if (!is_allowed) forbid("instruction " + std::to_string(which) + " of " + std::string(kSet));
    } else if (i.code == kFDiv) {
      if (is_binary32() && ++quotients > allowed.quotients) forbid("OpFDiv");
    } else if (i.code == kFRem || i.code == kFMod || i.code == kQuantizeToF16 ||
               (i.code >= kVectorTimesMatrix && i.code <= kDot)) {
      forbid("instruction " + std::to_string(i.code));
    }
  });
  return found;
}

std::size_t arithmetic_instructions(std::span<const std::uint32_t> module) {
  std::size_t count = 0;
  for_each_instruction(module, [&](const SpirvInstruction& i) { count += arithmetic(i.code) != nullptr; });
  return count;
}

bool uses_float64(std::span<const std::uint32_t> module) {
  bool found = false;
  for_each_instruction(module,
                       [&](const SpirvInstruction& i) { found |= i.code == kCapability && i.words[1] == kFloat64; });
  return found;
}

namespace {

/// Types and constants of a module, by id.
class Sizes {
 public:
  Sizes(std::span<const std::uint32_t> module, std::uint32_t group_threads) {
    for (std::size_t at = 5; at < module.size(); at += module[at] >> 16) add(module.subspan(at), group_threads);
  }
  std::uint32_t threads() const {
    if (!group_) return fixed_threads_;
    std::uint32_t product = 1;
    for (const std::uint32_t id : composites_.at(group_)) product *= values_.at(id);
    return product;
  }
  std::uint32_t shared_bytes() const {
    std::uint32_t sum = 0;
    for (const std::uint32_t pointer : shared_) sum += bytes_.at(pointee_.at(pointer))();
    return sum;
  }

 private:
  void add(std::span<const std::uint32_t> w, std::uint32_t group_threads) {
    const std::uint32_t code = w[0] & 0xffff;
    const auto scalar = [](std::uint32_t bytes) { return [bytes] { return bytes; }; };
    if (code == 16 && w[2] == 17) fixed_threads_ = w[3] * w[4] * w[5];  // OpExecutionMode LocalSize
    if (code == 71 && w[2] == 11 && w[3] == 25) group_ = w[1];          // BuiltIn WorkgroupSize
    if (code == 71 && w[2] == 1) spec_[w[1]] = w[3];                    // SpecId
    if (code == 20) bytes_[w[1]] = scalar(4);                           // bool
    if (code == 21 || code == 22) bytes_[w[1]] = scalar(w[2] / 8);      // integers, floats
    if (code == 23 || code == 28)                                       // vectors, arrays
      bytes_[w[1]] = [this, each = w[2], count = w[3], is_array = code == 28] {
        return bytes_.at(each)() * (is_array ? values_.at(count) : count);
      };
    if (code == 32 && w[2] == 4) pointee_[w[1]] = w[3];  // pointers to shared memory
    if (code == 59 && w[3] == 4) shared_.push_back(w[1]);
    if (code == 43 || code == 48 || code == 49 || code == 50) {  // constants, of booleans 48 and 49
      const auto number = spec_.find(w[2]);
      std::uint32_t value = code == 48 ? 1 : code == 49 ? 0 : w[3];
      if (number != spec_.end() && number->second >= 12)
        value = group_threads / (number->second == 13 ? 64 : number->second == 14 ? 16 : 1);
      values_[w[2]] = value;
    }
    if (code == 51 || code == 44) composites_[w[2]] = {w.begin() + 3, w.begin() + (w[0] >> 16)};
    if (code == 52) fold(w);
  }
  /// OpSpecConstantOp, of those that lengths of arrays are made of.
  void fold(std::span<const std::uint32_t> w) {
    const auto at = [&](std::size_t i) {
      const auto found = values_.find(w[i]);
      return found == values_.end() ? 0 : found->second;
    };
    const std::uint32_t size = w[0] >> 16, a = size > 4 ? at(4) : 0, b = size > 5 ? at(5) : 0;
    std::uint32_t& to = values_[w[2]];
    switch (w[3]) {
      case 128:
        to = a + b;
        break;  // OpIAdd
      case 130:
        to = a - b;
        break;  // OpISub
      case 132:
        to = a * b;
        break;  // OpIMul
      case 134:
        to = b ? a / b : 0;
        break;  // OpUDiv
      case 169:
        to = a ? b : at(6);
        break;  // OpSelect
      case 170:
        to = a == b;
        break;  // OpIEqual
      case 176:
        to = a < b;
        break;  // OpULessThan
      case 81:
        to = composite(w[4], w[5]);
        break;  // OpCompositeExtract
      default:
        break;
    }
  }
  std::uint32_t composite(std::uint32_t id, std::uint32_t member) const {
    const auto found = composites_.find(id);
    return found == composites_.end() ? 0 : values_.at(found->second.at(member));
  }

  std::uint32_t group_ = 0, fixed_threads_ = 0;
  std::map<std::uint32_t, std::uint32_t> spec_, values_, pointee_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> composites_;
  std::map<std::uint32_t, std::function<std::uint32_t()>> bytes_;
  std::vector<std::uint32_t> shared_;  // pointers' types
};

}  // namespace

GroupSize group_size(std::span<const std::uint32_t> module, std::uint32_t group_threads) {
  const Sizes sizes(module, group_threads);
  return {sizes.threads(), sizes.shared_bytes()};
}

}  // namespace weft::gpu
