// SPDX-License-Identifier: Apache-2.0

#include "kernels/embedding.hpp"

#include "core/aligned_buffer.hpp"

#include "coded_weights.hpp"
#include "comparing.hpp"
#include <vector>

namespace weft::kernels::embedding_test {
namespace {
using namespace testing_support;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Embedding, NamesNoColumnOutsideTheTable) {
  EXPECT_EQ(column_of(0.0f, 5), 0u);
  EXPECT_EQ(column_of(4.0f, 5), 4u);
  EXPECT_EQ(column_of(2.9f, 5), 2u) << "rounded down";
  EXPECT_EQ(column_of(5.0f, 5), 4u);
  for (const float v : {-1.0f, -0.0f, -kInf, kNan, 0x1p-140f}) EXPECT_EQ(column_of(v, 5), 0u) << v;
  for (const float v : {1e30f, kInf}) EXPECT_EQ(column_of(v, 5), 4u) << v;
  EXPECT_EQ(column_of(16777215.0f, 16777216), 16777215u);
  EXPECT_EQ(column_of(7.0f, 1), 0u);
}

TEST(Embedding, AddsGradientsInTheOrderOfTokensAndLeavesPaddingAlone) {
  const FlushSubnormals flush;
  // 1e8 + 1 - 1e8 depends on the order; lanes past `out` hold a mark that nobody may touch.
  const std::size_t out = 18, in = 4;
  AlignedBuffer<float> dw(panels_size(out, in));
  std::fill(dw.begin(), dw.end(), 0.5f);
  Matrix x(2, 3), dy(2, 3 * out);
  const float indices[2][3] = {{2, 0, 2}, {2, 3, 0}}, errors[2][3] = {{1e8f, 7, -1e8f}, {1, 2, 3}};
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t t = 0; t < 3; ++t) {
      x.at(b, t) = indices[b][t];
      for (std::size_t o = 0; o < out; ++o) dy.at(b, t * out + o) = errors[b][t];
    }
  embedding_backward(x.view(), dy.view(), 3, {dw.data(), out, in});
  for (std::size_t o = 0; o < 32; ++o)
    for (std::size_t k = 0; k < in; ++k) {
      const float sums[] = {10.5f, 0.5f, 1.0f, 0.5f};
      EXPECT_EQ(dw[panel_index(in, o, k)], o < out ? sums[k] : 0.5f) << o << ", " << k;
    }
}

TEST(Embedding, ReadsTheDequantizedColumnInEveryType) {
  const FlushSubnormals flush;
  RandomStream random(5, 0, RandomPurpose::test);
  for (const Encoding& encoding : testing_coded::all_encodings()) {
    const std::size_t out = 35, in = 71;
    testing_coded::CodedMatrix coded(encoding, out, in);
    coded.fill(random, testing_coded::Codes::finite);
    const testing_coded::DequantizedMatrix dequantized(coded);
    Matrix x(2, 5), y(2, 5 * out);
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t t = 0; t < 5; ++t) x.at(b, t) = static_cast<float>((b * 37 + t * 17) % in);
    x.at(1, 4) = 1000;
    embedding(coded.view(), x.view(), y.view());
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t t = 0; t < 5; ++t)
        for (std::size_t o = 0; o < out; ++o)
          ASSERT_TRUE(same_bits(y.at(b, t * out + o), dequantized.data[panel_index(in, o, column_of(x.at(b, t), in))]))
              << name(encoding.dtype);
    EXPECT_TRUE(y.gaps_intact());
  }
}

TEST(Embedding, ReadsEveryE4m3CodeWhetherOrNotItWasLookedAt) {
  const FlushSubnormals flush;
  testing_coded::CodedMatrix coded(Encoding(Dtype::fp8_e4m3), 1, 256);
  for (std::size_t k = 0; k < 256; ++k) {
    // NaNs' codes only where nothing says that there are none.
    coded.set_code(0, k, k);
    coded.set_scale(0, k, 0.3);
  }
  Matrix x(1, 256), y(1, 256), free_of_nan(1, 256);
  for (std::size_t k = 0; k < 256; ++k) x.at(0, k) = static_cast<float>(k);
  embedding(coded.view(), x.view(), y.view());
  for (const std::size_t k : {0x7f, 0xff}) EXPECT_TRUE(std::isnan(y.at(0, k))) << k;
  for (const std::size_t k : {0x7f, 0xff}) coded.set_code(0, k, 0x7e);
  ConstWeight view = coded.view();
  const std::uint8_t yes = 1;
  view.nan_free = &yes;
  embedding(view, x.view(), free_of_nan.view());
  for (std::size_t k = 0; k < 256; ++k)
    if (k % 0x80 != 0x7f) {
      EXPECT_TRUE(same_bits(free_of_nan.at(0, k), y.at(0, k))) << k;
    }
}

}  // namespace
}  // namespace weft::kernels::embedding_test
