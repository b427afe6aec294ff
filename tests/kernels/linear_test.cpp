// SPDX-License-Identifier: Apache-2.0

#include "kernels/linear.hpp"

#include "kernels/internal/held_bytes.hpp"

#include "core/aligned_buffer.hpp"

#include "comparing.hpp"
#include <array>
#include <thread>

namespace weft::kernels::linear_test {
namespace {
using namespace testing_support;

struct Problem {
  Problem(std::size_t batch, std::size_t out, std::size_t in)
      : w(panels_size(out, in)), panels{w.data(), out, in}, x(random_matrix(random, batch, in)) {
    pack_panels(random_matrix(random, out, in).view(), {w.data(), out, in});
  }
  std::vector<float> run() const {
    Matrix y(x.rows(), panels.out);
    linear(panels, nullptr, x.view(), Activation::linear, {}, y.view());
    return y.values();
  }
  RandomStream random{12, 1, RandomPurpose::test};
  AlignedBuffer<float> w;
  ConstPanels panels;
  Matrix x;
};

TEST(Linear, MayWriteBothOutputsToOnePlaceWhenThereIsNoActivation) {
  const FlushSubnormals flush;
  const Problem problem(3, 20, 30);
  Matrix y(3, 20);
  linear(problem.panels, nullptr, problem.x.view(), Activation::linear, y.view(), y.view());
  expect_same_bits(y.values(), problem.run(), "one place");
}

// Sizes whose rows are held in one part by some caches and in several by others, and whose depth is cut by some alone.
TEST(Linear, HasTheSameBitsWhateverCacheTheMachineHas) {
  for (const auto& sizes : {std::array<std::size_t, 3>{70, 100, 3000}, {300, 40, 1100}, {90, 1500, 70}}) {
    const std::size_t rows = sizes[0], out = sizes[1], in = sizes[2];
    const Problem problem(rows, out, in);
    const Matrix dy = random_matrix(const_cast<RandomStream&>(problem.random), rows, out);
    expect_one_result_on_every_isa(std::to_string(rows) + " rows", [&] {
      std::vector<float> first;
      for (const std::size_t kib : {0, 1, 256, 512, 1024, 2048, 65536}) {
        detail::set_second_level_cache(kib << 10);
        Matrix dx(rows, in);
        linear_transposed(problem.panels, dy.view(), dx.view());
        std::vector<float> all = problem.run();
        const std::vector<float> back = dx.values();
        all.insert(all.end(), back.begin(), back.end());
        if (first.empty()) first = all;
        expect_same_bits(all, first, std::to_string(kib) + " KiB of cache");
      }
      detail::set_second_level_cache(0);
      return first;
    });
  }
}

TEST(Linear, HoldsAsMuchAsTheSecondCacheDoesWithinBounds) {
  EXPECT_EQ(detail::held_bytes_of(0), 512u << 10);
  EXPECT_EQ(detail::held_bytes_of(64u << 10), 256u << 10);
  EXPECT_EQ(detail::held_bytes_of(1u << 20), 1u << 20);
  EXPECT_EQ(detail::held_bytes_of(std::size_t{16} << 20), 2u << 20);
}

TEST(Linear, RunsOnManyThreadsAtOnce) {
  const FlushSubnormals flush;
  const Problem problem(20, 100, 200);
  const auto expected = problem.run();
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (std::size_t t = 0; t < right.size(); ++t)
    threads.emplace_back([&, t] {
      const FlushSubnormals own;
      right[t] = true;
      for (int i = 0; i < 20; ++i) right[t] = right[t] && problem.run() == expected;
    });
  for (auto& thread : threads) thread.join();
  for (const bool each : right) EXPECT_TRUE(each);
}

TEST(Panels, PackAndUnpackAreInverseAndPadWithZero) {
  RandomStream random(3, 0, RandomPurpose::test);
  for (const auto& [out, in] : {std::pair<std::size_t, std::size_t>{1, 1}, {16, 3}, {33, 20}, {100, 7}}) {
    const Matrix rows = special_matrix(random, out, in);
    Matrix back(out, in);
    AlignedBuffer<float> panels(panels_size(out, in));
    std::fill(panels.begin(), panels.end(), 12345.0f);
    pack_panels(rows.view(), {panels.data(), out, in});
    for (std::size_t o = 0; o < panel_count(out) * kPanelWidth; ++o)
      for (std::size_t k = 0; k < in; ++k)
        EXPECT_TRUE(same_bits(panels[panel_index(in, o, k)], o < out ? rows.at(o, k) : 0.0f));
    unpack_panels({panels.data(), out, in}, back.view());
    expect_same_bits(back.values(), rows.values(), "back");
  }
}

}  // namespace
}  // namespace weft::kernels::linear_test
