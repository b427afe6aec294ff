// SPDX-License-Identifier: Apache-2.0

#include "kernels/dropout.hpp"

#include "comparing.hpp"
#include <algorithm>
#include <array>
#include <set>

namespace weft::kernels::dropout_test {
namespace {

using namespace testing_support;
constexpr std::array<std::uint32_t, 2> kKey{0x12345678u, 0x9abcdef0u};

std::vector<float> mask_of(std::size_t cols, std::array<float, 4>& state, std::uint32_t threshold, float scale) {
  const FlushSubnormals flush;
  std::vector<float> mask(cols);
  dropout_mask(kKey, {state.data(), 1, 4, 4}, {state.data(), 1, 4, 4}, threshold, scale, {mask.data(), 1, cols, cols});
  return mask;
}

// Column 64 q + 16 w + i is word w of the Philox block (16 q + i, counter, stream), as docs/numerics.md says.
TEST(DropoutMask, IsTheDocumentedFunctionOfKeyStreamCounterAndColumn) {
  for (const std::size_t cols : kSizes)
    for (const std::uint32_t threshold : {0u, 1u, 0x40000000u, 0x80000000u, 0xffffffffu})
      for (const std::uint64_t counter : {0ull, (1ull << 33) + 5, (1ull << 48) - 1}) {
        constexpr std::uint64_t kStream = (1ull << 40) + 3;
        std::array<float, 4> state{static_cast<float>(counter % (1 << 24)), static_cast<float>(counter >> 24),
                                   static_cast<float>(kStream % (1 << 24)), static_cast<float>(kStream >> 24)};
        const std::vector<float> got = mask_of(cols, state, threshold, 2.5f);
        for (std::size_t j = 0; j < cols; ++j) {
          const auto words =
              philox4x32({static_cast<std::uint32_t>(j / 64 * 16 + j % 16), static_cast<std::uint32_t>(counter),
                          static_cast<std::uint32_t>((counter >> 32) + (kStream >> 32) * 65536),
                          static_cast<std::uint32_t>(kStream)},
                         kKey);
          ASSERT_EQ(got[j], words[j % 64 / 16] < threshold ? 0.0f : 2.5f) << j;
        }
        const std::uint64_t next = (counter + 1) % (1ull << 48);
        EXPECT_EQ(state[0], static_cast<float>(next % (1 << 24)));
        EXPECT_EQ(state[1], static_cast<float>(next >> 24));
        EXPECT_EQ(state[3], static_cast<float>(kStream >> 24));
      }
}

TEST(DropoutMask, DropsAsManyAsItsRateSaysAndOthersEachTick) {
  constexpr std::size_t kCols = 1000, kTicks = 400;
  for (const double rate : {0.1, 0.5, 0.85}) {
    std::array<float, 4> state{};
    std::set<std::vector<float>> masks;
    double dropped = 0;
    std::vector<double> by_column(kCols);
    for (std::size_t t = 0; t < kTicks; ++t) {
      const std::vector<float> mask = mask_of(kCols, state, static_cast<std::uint32_t>(rate * 4294967296.0), 1.0f);
      for (std::size_t j = 0; j < kCols; ++j) dropped += mask[j] == 0, by_column[j] += mask[j] == 0;
      masks.insert(mask);
    }
    EXPECT_EQ(masks.size(), kTicks);
    constexpr double kAll = kCols * kTicks;
    EXPECT_NEAR(dropped / kAll, rate, 4 * std::sqrt(rate * (1 - rate) / kAll));
    for (const double count : by_column)  // five deviations: once in 1700 runs of another seed for some column
      EXPECT_NEAR(count / kTicks, rate, 5 * std::sqrt(rate * (1 - rate) / kTicks));
  }
}

}  // namespace
}  // namespace weft::kernels::dropout_test
