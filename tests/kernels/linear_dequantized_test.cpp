// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new. What is computed: the table of op_cases.hpp.

#include "kernels/linear_dequantized.hpp"

#include "kernels/linear.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/coded_weights.hpp"
#include "tests/kernels/comparing.hpp"
#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> aligned_allocations{0};
}
// AlignedBuffer's allocations, counted.
void* operator new(std::size_t size, std::align_val_t alignment) {
  ++aligned_allocations;
  if (void* memory = std::aligned_alloc(static_cast<std::size_t>(alignment), (size + 63) / 64 * 64)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }

namespace weft::kernels::linear_dequantized_test {
namespace {
using namespace testing_support;
using namespace testing_coded;

// A kernel that takes a power of two into the scale must see where that would overflow.
TEST(LinearDequantized, TakesScalesAtTheEndsOfTheRange) {
  RandomStream random(21, 7, RandomPurpose::test);
  const Matrix x = random_matrix(random, 1, 96);
  for (const Encoding& encoding : all_encodings()) {
    if (!has_scale(encoding.dtype) || bits(encoding.dtype) > 16) continue;
    for (const double scale : {0x1p-126, 0x1.8p-120, 0x1.fffffep118, 0x1p119, 0x1.8p120, 0x1.fffffep127}) {
      CodedMatrix w(encoding, 80, 96);
      w.fill(random, Codes::finite);
      for (std::size_t o = 0; o < 80; o += 3)
        for (std::size_t k = 0; k < 96; ++k) w.set_scale(o, k, scale);
      Matrix want(1, 80);
      const FlushSubnormals flush;
      linear(DequantizedMatrix(w).view(), nullptr, x.view(), Activation::linear, {}, want.view());
      expect_one_result_on_every_isa(to_string(encoding), [&] {
        Matrix y(1, 80);
        linear_dequantized(w.view(), nullptr, x.view(), Activation::linear, {}, y.view());
        expect_same_bits(y.values(), want.values(), to_string(encoding) + " times " + std::to_string(scale));
        return y.values();
      });
    }
  }
}

TEST(LinearDequantized, SeesANansCodeWhereverItStands) {
  for (unsigned code = 0; code < 256; ++code) {
    CodedMatrix w(Encoding(Dtype::fp8_e4m3), 19, 37);
    w.set_code(code % 19, code % 37, code);
    EXPECT_EQ(holds_nan_code(w.view()), code == 0x7f || code == 0xff) << code;
  }
  for (std::size_t o = 0; o < 19; ++o)
    for (std::size_t k = 0; k < 37; ++k) {
      CodedMatrix w(Encoding(Dtype::fp8_e4m3), 19, 37);
      w.set_code(o, k, 0xff);
      ASSERT_TRUE(holds_nan_code(w.view())) << o << ", " << k;
    }
  EXPECT_FALSE(holds_nan_code(CodedMatrix(Encoding(Dtype::fp8_e4m3), 5, 0).view()));
}

TEST(LinearDequantized, AllocatesNothingInASteadyState) {
  for (const Encoding& encoding : all_encodings())
    for (const std::size_t batch : {1, 5}) {
      const CodedMatrix w(encoding, 70, 90);
      const Matrix x(batch, 90), dy(batch, 70);
      Matrix y(batch, 70), dx(batch, 90);
      std::vector<float> s(90);
      const FlushSubnormals flush;
      const auto run = [&] {
        linear_dequantized(w.view(), nullptr, x.view(), Activation::relu, {}, y.view());
        linear_transposed_dequantized(w.view(), dy.view(), dx.view());
        column_l1_norms_dequantized(w.view(), s.data());
      };
      run();
      const std::size_t before = aligned_allocations;
      run();
      EXPECT_EQ(aligned_allocations, before) << to_string(encoding);
    }
}

}  // namespace
}  // namespace weft::kernels::linear_dequantized_test
