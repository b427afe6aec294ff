// SPDX-License-Identifier: Apache-2.0
// Needs no device: what the build made of gpu/shaders.

#include "gpu/internal/spirv.hpp"

#include "gpu/internal/shader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weft::gpu {
namespace {

TEST(Spirv, NoShaderLetsItsArithmeticBeContracted) {
  ASSERT_GE(shaders().size(), 7u);
  for (const Shader& each : shaders())
    for (const auto& module : {each.fused.words(), each.emulated.words()}) {
      const auto found = inexact_instructions(module);
      EXPECT_TRUE(found.empty()) << each.name << ": " << found.size() << " instructions, such as " << found.front();
    }
}

// That the walk finds arithmetic at all, and misses a decoration that is taken away.
TEST(Spirv, TheWalkSeesInstructionsAndTheirDecorations) {
  const auto module = shader("unary").fused.words();
  ASSERT_GE(arithmetic_instructions(module), 8u);  // divide() alone has six
  std::vector<std::uint32_t> bare(module.begin(), module.end());
  std::size_t taken = 0;
  for (std::size_t at = 5; at < bare.size(); at += bare[at] >> 16)
    if (bare[at] == (3u << 16 | 71u) && bare[at + 2] == 42u) {
      bare[at + 2] = 0;  // RelaxedPrecision instead of NoContraction
      ++taken;
      break;
    }
  ASSERT_EQ(taken, 1u);
  EXPECT_EQ(inexact_instructions(bare).size(), 1u);
}

TEST(Spirv, OnlyEmulationNeedsSixtyFourBits) {
  for (const Shader& each : shaders()) EXPECT_FALSE(uses_float64(each.fused.words())) << each.name;
  EXPECT_TRUE(uses_float64(shader("linear_row").emulated.words()));
}

TEST(Spirv, ControlsAreWrittenBeforeWhatMustFollow) {
  const auto module = shader("unary").fused.words();
  const auto controlled = with_float_controls(module, {.keep_special_values = true, .flush_subnormals = true});
  EXPECT_EQ(controlled.size(), module.size() + 2 * 2 + 2 * 4);
  // Logical layout (SPIR-V 2.4): capabilities, then the memory model, then entry points, then execution modes.
  std::vector<std::uint32_t> order;
  for (std::size_t at = 5; at < controlled.size(); at += controlled[at] >> 16) {
    const std::uint32_t code = controlled[at] & 0xffff;
    if (code == 17 || code == 14 || code == 15 || code == 16) order.push_back(code == 17 ? 0 : code);
  }
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_TRUE(with_float_controls(module, {}) == std::vector<std::uint32_t>(module.begin(), module.end()));
}

}  // namespace
}  // namespace weft::gpu
