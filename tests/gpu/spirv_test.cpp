// SPDX-License-Identifier: Apache-2.0
// Needs no device: what the build made of gpu/shaders.

#include "gpu/internal/spirv.hpp"

#include "gpu/internal/shader.hpp"

#include <gtest/gtest.h>

#include "tests/gpu/spirv_checks.hpp"
#include <algorithm>
#include <vector>

namespace weft::gpu::spirv_test {
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

/// Estimates that docs/gpu.md allows: of quotients and roots that are corrected, which emulation does not use. The
/// self-test tries the device's own besides.
Estimates allowed(const Shader& shader, bool emulated) {
  const std::size_t own = shader.name == "selftest" ? 1 : 0, mended = emulated ? 0 : 1;
  return {.fma = !emulated || own > 0, .roots = own + mended, .quotients = own + mended};
}

TEST(Spirv, NoShaderLeavesResultsToTheDevice) {
  for (const Shader& each : shaders())
    for (const bool emulated : {false, true}) {
      const auto found =
          forbidden_instructions((emulated ? each.emulated : each.fused).words(), allowed(each, emulated));
      EXPECT_TRUE(found.empty()) << each.name << (emulated ? ", emulated: " : ", fused: ") << found.size()
                                 << " instructions, such as " << found.front();
    }
}

// That the walk finds what is patched in, wherever it stands.
TEST(Spirv, ForbiddenInstructionsAreFound) {
  const Shader& softmax = shader("softmax");
  const auto module = softmax.fused.words();
  ASSERT_TRUE(forbidden_instructions(module, allowed(softmax, false)).empty());
  std::vector<std::size_t> extended, products;
  for (std::size_t at = 5; at < module.size(); at += module[at] >> 16) {
    if ((module[at] & 0xffff) == 12u && module[at + 4] == 50u) extended.push_back(at);  // OpExtInst Fma
    if ((module[at] & 0xffff) == 133u) products.push_back(at);                          // OpFMul
  }
  ASSERT_FALSE(extended.empty());
  ASSERT_GE(products.size(), 2u);
  const auto found_with = [&](std::size_t at, std::uint32_t word) {
    std::vector<std::uint32_t> patched(module.begin(), module.end());
    patched[at] = word;
    return forbidden_instructions(patched, allowed(softmax, false)).size();
  };
  // RoundEven, Floor, Exp, Log, Exp2, InverseSqrt, FMin, FMax, FClamp, FMix, NMin.
  for (const std::uint32_t which : {2u, 8u, 27u, 28u, 29u, 32u, 37u, 40u, 43u, 46u, 79u})
    for (const std::size_t at : {extended.front(), extended.back()}) EXPECT_EQ(found_with(at + 4, which), 1u) << which;
  EXPECT_EQ(found_with(extended.front() + 4, 4u), 0u);  // FAbs
  // A quotient beside the estimate that division.glsl mends, a remainder.
  EXPECT_EQ(found_with(products.back(), (module[products.back()] & ~0xffffu) | 136u), 1u);
  EXPECT_EQ(found_with(products.back(), (module[products.back()] & ~0xffffu) | 140u), 1u);
  // A root where none is allowed.
  EXPECT_EQ(forbidden_instructions(shader("norm").fused.words(), {.roots = 0}).size(), 1u);
  EXPECT_FALSE(forbidden_instructions(module, {.fma = false}).empty());
}

TEST(Spirv, OnlyEmulationNeedsSixtyFourBits) {
  for (const Shader& each : shaders()) EXPECT_FALSE(uses_float64(each.fused.words())) << each.name;
  EXPECT_TRUE(uses_float64(shader("linear_row").emulated.words()));
}

/// Shaders that devices of small groups do not run: each has a smaller kin (gpu/shaders/variants.txt, stream_*.cpp).
bool is_wide_alone(std::string_view name) {
  const auto ends = [&](std::string_view end) {
    return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
  };
  return name == "outer_accumulate" || ends("_large") || ends("_half") || ends("_tile") || ends("_tile_dots") ||
         ends("_chunks") || ends("_integer_matrix");
}

// Vulkan 1.2 promises every device's groups 128 threads and 16 KiB of memory that they share.
TEST(Spirv, AllOtherShadersFitTheSmallestGroups) {
  std::size_t small = 0;
  for (const Shader& each : shaders())
    for (const bool emulated : {false, true}) {
      const auto module = (emulated ? each.emulated : each.fused).words();
      const GroupSize wide = group_size(module, 256), least = group_size(module, 128);
      EXPECT_GE(wide.threads, 32u) << each.name;
      EXPECT_LE(wide.threads, each.name == "linear_transposed_large" ? 512u : 256u) << each.name;
      EXPECT_LE(wide.shared_bytes, each.name.ends_with("_integer_matrix") ? 36u << 10 : 32u << 10) << each.name;
      if (is_wide_alone(each.name)) continue;
      ++small;
      EXPECT_LE(least.threads, 128u) << each.name;
      EXPECT_LE(least.shared_bytes, 16u << 10) << each.name;
    }
  EXPECT_GT(small, 100u);
  // That sizes are read at all, by hand: gpu/shaders/elementwise.comp, linear_tile.comp, lanes.glsl.
  EXPECT_EQ(group_size(shader("elementwise").fused.words(), 256).threads, 256u);
  EXPECT_EQ(group_size(shader("elementwise").fused.words(), 128).threads, 128u);
  EXPECT_EQ(group_size(shader("norm").fused.words(), 128).threads, 128u);
  EXPECT_EQ(group_size(shader("linear_tile").fused.words(), 128).threads, 256u);
  EXPECT_EQ(group_size(shader("linear_tile").fused.words(), 256).shared_bytes, (2u * 256 + 2 * 272) * 16);
  EXPECT_EQ(group_size(shader("linear_tile_small").fused.words(), 128).shared_bytes, (2u * 128 + 2 * 136) * 16);
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
}  // namespace weft::gpu::spirv_test
