// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/spirv_checks.hpp"

#include "gpu/internal/spirv.hpp"

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

}  // namespace weft::gpu
