// SPDX-License-Identifier: Apache-2.0

#include "kernels/rope.hpp"

#include "comparing.hpp"
#include <cmath>
#include <vector>

namespace weft::kernels::rope_test {
namespace {
using namespace testing_support;

/// A rotation and what it points to.
struct Turning {
  explicit Turning(const RopeSettings& settings, std::size_t positions = 0)
      : turns(rope_turns(settings)), table(positions * 2 * settings.head_dim) {
    rope = {settings.head_dim, settings.pairs, turns.data(), nullptr, 0};
    for (std::size_t p = 0; p < positions; ++p) rope_row(rope, p, table.data() + p * 2 * settings.head_dim);
    rope.table = table.data(), rope.table_positions = positions;
  }
  std::vector<std::uint64_t> turns;
  std::vector<float> table;
  Rope rope;
};

/// Frequencies in extended precision by libm, from the papers' formulas.
long double frequency(const RopeSettings& s, std::size_t i) {
  const long double n = static_cast<long double>(s.head_dim), pi = std::acos(-1.0L);
  long double theta = s.theta;
  if (s.scaling == RopeScaling::ntk) theta *= std::pow(static_cast<long double>(s.factor), n / (n - 2));
  const long double f = std::pow(theta, -2.0L * static_cast<long double>(i) / n);
  if (s.scaling == RopeScaling::linear) return f / s.factor;
  if (s.scaling != RopeScaling::llama3) return f;
  const long double wavelength = 2 * pi / f, low = s.original_context / s.low_frequency_factor,
                    high = s.original_context / s.high_frequency_factor;
  if (wavelength < high) return f;
  if (wavelength > low) return f / s.factor;
  const long double smooth =
      (s.original_context / wavelength - s.low_frequency_factor) / (s.high_frequency_factor - s.low_frequency_factor);
  return (1 - smooth) * f / s.factor + smooth * f;
}

std::vector<RopeSettings> all_settings() {
  std::vector<RopeSettings> all;
  for (const std::size_t n : {2, 6, 34, 64, 128})
    for (const RopePairs pairs : {RopePairs::half, RopePairs::interleaved}) {
      all.push_back({n, pairs});
      all.push_back({n, pairs, 500000, RopeScaling::llama3, 8, 1, 4, 512});
      all.push_back({n, pairs, 10000, RopeScaling::linear, 4});
      if (n > 2) all.push_back({n, pairs, 10000, RopeScaling::ntk, 8});
    }
  return all;
}

TEST(Rope, TurnsByTheAnglesOfThePapers) {
  for (const RopeSettings& s : all_settings()) {
    const Turning turning(s);
    std::vector<float> row(2 * s.head_dim);
    for (const std::uint64_t position : {0ull, 1ull, 2ull, 77ull, 4095ull, 131071ull, 1048575ull}) {
      rope_row(turning.rope, position, row.data());
      for (std::size_t i = 0; i < s.head_dim / 2; ++i) {
        const long double angle = frequency(s, i) * static_cast<long double>(position);
        const bool half = s.pairs == RopePairs::half;
        const std::size_t a = half ? i : 2 * i, b = half ? i + s.head_dim / 2 : 2 * i + 1;
        // Half an ulp of a float, and 1e-15 of the angle.
        const double bound = 0x1p-25 + 4e-15 * static_cast<double>(position);
        ASSERT_NEAR(row[a], static_cast<double>(std::cos(angle)), bound) << position << ", pair " << i;
        ASSERT_EQ(row[a], row[b]);
        ASSERT_NEAR(row[s.head_dim + b], static_cast<double>(std::sin(angle)), bound) << position << ", pair " << i;
        ASSERT_EQ(row[s.head_dim + a], -row[s.head_dim + b]);
      }
    }
  }
}

TEST(Rope, KeepsDistancesHoweverFarOut) {
  const RopeSettings s{64};
  const Turning turning(s);
  std::vector<float> near(128), here(128), there(128);
  for (const std::uint64_t far :
       {std::uint64_t{1} << 24, (std::uint64_t{1} << 40) + 12345, (std::uint64_t{1} << 48) - 2})
    for (const std::uint64_t distance : {1u, 17u, 4096u}) {
      rope_row(turning.rope, distance, near.data());
      rope_row(turning.rope, far, here.data());
      rope_row(turning.rope, far + distance, there.data());
      for (std::size_t i = 32; i < 64; ++i) {
        const double c = double{here[i]} * there[i] + double{here[64 + i]} * there[64 + i];
        const double sine = double{there[64 + i]} * here[i] - double{there[i]} * here[64 + i];
        ASSERT_NEAR(c, near[i], 3e-7) << far << " + " << distance;
        ASSERT_NEAR(sine, near[64 + i], 3e-7) << far << " + " << distance;
      }
    }
}

// Rows of the last positions and rotations are kept: three rotations take turns, at positions that share a place.
TEST(Rope, TurnsByTheRowOfItsOwnPositionAndRotation) {
  const FlushSubnormals flush;
  const Turning turnings[] = {Turning({8}), Turning({8, RopePairs::interleaved}), Turning({16, RopePairs::half, 500})};
  RandomStream random(3, 0, RandomPurpose::test);
  for (const std::uint64_t position : {5u, 261u, 5u, 6u, 517u, 261u})
    for (const Turning& turning : turnings) {
      const std::size_t n = turning.rope.head_dim;
      const Matrix x = random_matrix(random, 1, n);
      std::vector<float> row(2 * n), workspace(2 * n), y(n), state(16);
      state[0] = static_cast<float>(position);
      rope(turning.rope, 1, x.view(), {state.data(), 1, 16, 16}, false, {y.data(), 1, n, n}, workspace.data());
      rope_row(turning.rope, position, row.data());
      for (std::size_t i = 0; i < n; ++i) {
        const bool half = turning.rope.pairs == RopePairs::half;
        const std::size_t other = half ? (i + n / 2) % n : i ^ 1;
        const float* const from = x.view().data;
        ASSERT_EQ(y[i], std::fma(from[i], row[i], from[other] * row[n + i])) << position << ", element " << i;
      }
    }
}

}  // namespace
}  // namespace weft::kernels::rope_test
