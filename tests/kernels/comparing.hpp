// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"
#include "kernels/views.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/general_isa.hpp"
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// Fixtures of elementwise and row kernels.
namespace weft::kernels::testing_support {

/// Sizes that end inside, at and past vectors, blocks of 64 lanes and unrolled loops.
inline const std::vector<std::size_t> kSizes = {1, 2, 3, 7, 10, 13, 16, 31, 63, 64, 65, 127, 128, 131, 257, 1000};

inline const std::vector<float>& special_values() {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  static const std::vector<float> values = {0.0f,           -0.0f,
                                            kInf,           -kInf,
                                            kNan,           -kNan,
                                            0x1p-126f,      -0x1p-126f,
                                            0x1p-127f,      -0x1p-127f,
                                            0x1p-149f,      -0x1p-149f,
                                            0x1.8p-126f,    0x1p-63f,
                                            -0x1p-64f,      0x1p-24f,
                                            -0x1p-24f,      1.0f,
                                            -1.0f,          0.5f,
                                            -0.5f,          0.9375f,
                                            -5.5f,          10.0f,
                                            -20.0f,         30.0f,
                                            -87.5f,         87.5f,
                                            88.5f,          -88.5f,
                                            -100.0f,        1000.0f,
                                            0x1p20f,        -0x1p23f,
                                            0x1p64f,        -0x1p64f,
                                            0x1p127f,       -0x1.fffffep127f,
                                            0x1.fffffep127f};
  return values;
}

/// A matrix whose rows stand apart (stride > cols) between sentinels, and whose last row ends where its memory ends.
class Matrix {
 public:
  Matrix(std::size_t rows, std::size_t cols, std::size_t gap = 5)
      : rows_(rows), cols_(cols), stride_(cols + gap), data_(rows == 0 ? 0 : (rows - 1) * stride_ + cols, kSentinel) {}
  MatrixView view() { return {data_.data(), rows_, cols_, stride_}; }
  ConstMatrixView view() const { return {data_.data(), rows_, cols_, stride_}; }
  float& at(std::size_t i, std::size_t j) { return data_[i * stride_ + j]; }
  float at(std::size_t i, std::size_t j) const { return data_[i * stride_ + j]; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  bool gaps_intact() const {
    for (std::size_t i = 0; i < data_.size(); ++i)
      if (i % stride_ >= cols_ && data_[i] != kSentinel) return false;
    return true;
  }
  std::vector<float> values() const {
    std::vector<float> all;
    all.reserve(rows_ * cols_);
    for (std::size_t i = 0; i < rows_; ++i)
      for (std::size_t j = 0; j < cols_; ++j) all.push_back(at(i, j));
    return all;
  }

 private:
  static constexpr float kSentinel = 7654321.0f;
  std::size_t rows_, cols_, stride_;
  std::vector<float> data_;
};

/// Normal numbers times `scale`.
inline Matrix random_matrix(RandomStream& random, std::size_t rows, std::size_t cols, float scale = 1.0f) {
  Matrix m(rows, cols);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) m.at(i, j) = random.next_normal() * scale;
  return m;
}
/// Normal numbers, one element in `one_in` a special value.
inline Matrix special_matrix(RandomStream& random, std::size_t rows, std::size_t cols, std::uint32_t one_in = 4) {
  Matrix m = random_matrix(random, rows, cols, 3.0f);
  const auto& special = special_values();
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j)
      if (random.next_below(one_in) == 0)
        m.at(i, j) = special[random.next_below(static_cast<std::uint32_t>(special.size()))];
  return m;
}

/// One value: NaNs are one, since their payloads differ between machines (docs/numerics.md).
inline bool same_bits(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
inline void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(same_bits(got[i], want[i])) << what << ", element " << i << ": " << got[i] << " against " << want[i];
}

/// Runs `compute` (returning its results) on every instruction set this machine has and compares with the scalar one.
template <class Compute>
void expect_one_result_on_every_isa(const std::string& what, const Compute& compute) {
  const Isa before = active_isa();
  const FlushSubnormals flush;
  ASSERT_TRUE(set_active_isa(Isa::scalar));
  const std::vector<float> reference = compute();
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    const std::vector<float> got = compute();
    EXPECT_EQ(last_isa_run(), general_isa(isa)) << what;
    expect_same_bits(got, reference, what + " on " + std::string(name(isa)));
  }
  ASSERT_TRUE(set_active_isa(before));
}

}  // namespace weft::kernels::testing_support
