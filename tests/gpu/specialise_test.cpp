// SPDX-License-Identifier: Apache-2.0
// Needs no device: shaders as pipelines hand them to a driver.

#include "gpu/internal/specialise.hpp"

#include "gpu/internal/shader.hpp"
#include "gpu/internal/spirv.hpp"

#include <gtest/gtest.h>

#include "tests/gpu/spirv_checks.hpp"
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <vector>

namespace weft::gpu::specialise_test {
namespace {

using Words = std::vector<std::uint32_t>;

void add(Words& to, std::uint32_t code, std::initializer_list<std::uint32_t> operands) {
  to.push_back(static_cast<std::uint32_t>(operands.size() + 1) << 16 | code);
  to.insert(to.end(), operands);
}

std::size_t count(const Words& module, std::uint32_t code) {
  std::size_t found = 0;
  for_each_instruction(module, [&](const SpirvInstruction& i) { found += i.code == code; });
  return found;
}

/// By hand, numbers of the SPIR-V specification: main() branches on two thirds of a constant (SpecId 7) being 4, calls
/// one of two functions, and takes a phi of both ways.
Words branching_module() {
  Words m{0x07230203, 0x00010500, 0, 40, 0};
  add(m, 17, {1});                    // OpCapability Shader
  add(m, 15, {5, 1, 0x6e69616d, 0});  // OpEntryPoint GLCompute %1 "main"
  add(m, 71, {10, 1, 7});             // OpDecorate %10 SpecId 7
  add(m, 71, {31, 42});               // OpDecorate %31 NoContraction
  add(m, 71, {33, 42});               // OpDecorate %33 NoContraction
  add(m, 19, {2});                    // OpTypeVoid
  add(m, 20, {3});                    // OpTypeBool
  add(m, 21, {4, 32, 0});             // OpTypeInt
  add(m, 22, {5, 32});                // OpTypeFloat
  add(m, 33, {6, 2});                 // OpTypeFunction void
  add(m, 33, {7, 5});                 // OpTypeFunction float
  add(m, 43, {5, 8, 0x3f800000});     // OpConstant float 1
  add(m, 43, {4, 9, 3});              // OpConstant uint 3
  add(m, 50, {4, 10, 9});             // OpSpecConstant uint 9
  add(m, 43, {4, 11, 4});             // OpConstant uint 4
  add(m, 43, {4, 15, 2});             // OpConstant uint 2
  add(m, 52, {4, 12, 132, 10, 15});   // OpSpecConstantOp IMul
  add(m, 52, {4, 13, 134, 12, 9});    // OpSpecConstantOp UDiv
  add(m, 52, {3, 14, 170, 13, 11});   // OpSpecConstantOp IEqual
  add(m, 54, {2, 1, 0, 6});           // OpFunction %1
  add(m, 248, {20});                  // OpLabel
  add(m, 247, {23, 0});               // OpSelectionMerge
  add(m, 250, {14, 21, 22});          // OpBranchConditional
  add(m, 248, {21});
  add(m, 57, {5, 24, 30});  // OpFunctionCall %30
  add(m, 249, {23});        // OpBranch
  add(m, 248, {22});
  add(m, 57, {5, 25, 32});  // OpFunctionCall %32
  add(m, 249, {23});
  add(m, 248, {23});
  add(m, 245, {5, 26, 24, 21, 25, 22});  // OpPhi
  add(m, 253, {});                       // OpReturn
  add(m, 56, {});                        // OpFunctionEnd
  for (const std::uint32_t id : {30u, 32u}) {
    add(m, 54, {5, id, 0, 7});
    add(m, 248, {id + 4});
    add(m, 129, {5, id + 1, 8, 8});  // OpFAdd
    add(m, 254, {id + 1});           // OpReturnValue
    add(m, 56, {});
  }
  return m;
}

TEST(Specialised, WhatConstantsLeaveOutIsGone) {
  for (const bool is_first : {false, true}) {
    const Words to = specialised(branching_module(), {{7, is_first ? 6u : 3u}});
    std::map<std::uint32_t, std::uint32_t> constants;
    std::vector<std::uint32_t> called, decorated, phi, functions;
    for_each_instruction(to, [&](const SpirvInstruction& i) {
      if (i.code == 43) constants[i.words[2]] = i.words[3];
      if (i.code == 41 || i.code == 42) constants[i.words[2]] = i.code == 41;
      if (i.code == 57) called.push_back(i.words[3]);
      if (i.code == 71) decorated.push_back(i.words[1]);
      if (i.code == 245) phi.assign(i.words.begin() + 3, i.words.end());
      if (i.code == 54) functions.push_back(i.words[2]);
    });
    EXPECT_EQ(constants.at(10), is_first ? 6u : 3u);
    EXPECT_EQ(constants.at(13), is_first ? 4u : 2u);
    EXPECT_EQ(constants.at(14), is_first ? 1u : 0u);
    EXPECT_EQ(count(to, 50) + count(to, 52), 0u);
    EXPECT_EQ(functions, is_first ? Words({1, 30}) : Words({1, 32}));
    EXPECT_EQ(called, is_first ? Words({30}) : Words({32}));
    EXPECT_EQ(decorated, is_first ? Words({31}) : Words({33}));
    EXPECT_EQ(phi, is_first ? Words({24, 21}) : Words({25, 22}));
    EXPECT_EQ(count(to, 255), 1u);  // OpUnreachable: the way not taken, which the branch still names
    EXPECT_EQ(count(to, 248), 5u);
  }
  // Without a value: its default, 9, of which two thirds are 6.
  EXPECT_EQ(specialised(branching_module(), {}).size(), specialised(branching_module(), {{7, 9}}).size());
}

/// Values as pipelines give them, other ones in each turn.
std::map<std::uint32_t, std::uint32_t> values_of(std::uint32_t turn) {
  std::map<std::uint32_t, std::uint32_t> values{{0, turn & 1}};
  for (std::uint32_t id = 1; id < 8; ++id) values[id] = 1 + (turn * 7 + id * id) % 23;
  for (std::uint32_t id = 8; id < 12; ++id) values[id] = (turn >> (id - 8)) & 1;
  const std::uint32_t threads = turn & 2 ? 128 : 256;
  values[12] = threads, values[13] = threads / 64, values[14] = threads / 16;
  return values;
}

// Of every shader: calls and branches find what they name, and arithmetic that stays may not be contracted.
TEST(Specialised, EachShaderStaysWholeAndExact) {
  for (const Shader& each : shaders())
    for (const bool emulated : {false, true}) {
      const Words module = (emulated ? each.emulated : each.fused).words();
      for (std::uint32_t turn = 0; turn < 6; ++turn) {
        const Words to = specialised(module, values_of(turn));
        EXPECT_LE(to.size(), module.size()) << each.name;
        EXPECT_EQ(count(to, 48) + count(to, 49) + count(to, 50), 0u) << each.name;
        EXPECT_TRUE(inexact_instructions(to).empty()) << each.name;
        std::set<std::uint32_t> defined, named;
        for_each_instruction(to, [&](const SpirvInstruction& i) {
          if (i.code == 248) defined.insert(i.words[1]);
          if (i.code == 54) defined.insert(i.words[2]);
          if (i.code == 57) named.insert(i.words[3]);
          if (i.code == 249 || i.code == 247) named.insert(i.words[1]);
          if (i.code == 246) named.insert({i.words[1], i.words[2]});
          if (i.code == 250) named.insert({i.words[2], i.words[3]});
        });
        for (const std::uint32_t id : named) EXPECT_TRUE(defined.contains(id)) << each.name << ": %" << id;
      }
    }
}

// An operation of many costs what it needs alone: copying needs no logarithm.
TEST(Specialised, OneOperationOfManyIsLeft) {
  const Words module = shader("elementwise").fused.words();
  const Words copying = specialised(module, {{1, 7}, {2, 0}});
  EXPECT_LT(copying.size() * 2, module.size());
  EXPECT_LT(arithmetic_instructions(copying), arithmetic_instructions(module) / 4);
}

}  // namespace
}  // namespace weft::gpu::specialise_test
