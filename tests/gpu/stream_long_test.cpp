// SPDX-License-Identifier: Apache-2.0
// Passes over many elements, of which a thread takes several. Each operation on fewer: op_cases_test.cpp.

#include "tests/gpu/gpu_testing.hpp"
#include <cmath>
#include <limits>
#include <vector>

namespace weft::gpu::stream_long_test {
namespace {

using namespace testing_support;

// Of a whole number of threads' parts, and of what ends in the middle of one.
constexpr std::size_t kLengths[] = {std::size_t{1} << 18, (std::size_t{1} << 18) + 2477};

TEST(StreamLong, StepsOfManyWeightsHaveTheCpusBits) {
  std::size_t seed = 1;
  for (const std::size_t n : kLengths)
    for (const kernels::OptimizerKind kind : {kernels::OptimizerKind::sgd, kernels::OptimizerKind::adamw}) {
      ++seed;
      Operands o(seed, seed % 2 == 0);
      kernels::OptimizerOptions options;
      options.kind = kind, options.clip = kernels::Clip::value, options.clip_limit = 0.5f;
      float *const w = o.values(n), *const first = o.values(n), *const second = o.values(n);
      const float* const factors = o.values_of({0.05f, 0.19f, 0.002f});
      const bool has_state = kind == kernels::OptimizerKind::adamw;
      expect_cpus_bits(
          o.make(", " + std::to_string(n),
                 kernels::ops::OptimizerStep{n, w, has_state ? first : nullptr, has_state ? second : nullptr, nullptr,
                                             o.values(n), factors, nullptr, options}),
          false);
    }
}

TEST(StreamLong, WhatIsNotFiniteIsFoundAnywhere) {
  auto stream = device().make_stream();
  ASSERT_TRUE(stream) << stream.error().text();
  for (const std::size_t n : kLengths)
    for (const std::size_t at : {std::size_t{0}, n / 8 - 1, n / 8, n / 2 + 777, n - 1, n}) {
      std::vector<float> values(n, 1.0f);
      if (at < n) values[at] = at % 2 ? std::numeric_limits<float>::infinity() : std::nanf("");
      const Buffer buffer = on_device(**stream, values);
      EXPECT_EQ((*stream)->is_finite({{buffer.data(), 1, n, n}}), at == n) << at << " of " << n;
    }
  // Rows with gaps between them, in which anything may stand.
  const std::size_t rows = 300, cols = 1000, stride = 1003;
  std::vector<float> values(rows * stride, 1.0f);
  for (std::size_t i = 0; i < rows; ++i) values[i * stride + cols] = std::nanf("");
  const Buffer gaps = on_device(**stream, values);
  EXPECT_TRUE((*stream)->is_finite({{gaps.data(), rows, cols, stride}}));
  values[(rows - 1) * stride + cols - 1] = std::nanf("");
  const Buffer found = on_device(**stream, values);
  EXPECT_FALSE((*stream)->is_finite({{found.data(), rows, cols, stride}}));
}

}  // namespace
}  // namespace weft::gpu::stream_long_test
