// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.

#include "kernels/linear_dequantized.hpp"

#include "kernels/float_environment.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/coded_weights.hpp"
#include "tests/kernels/linear_testing.hpp"
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
using namespace testing_linear;
using namespace testing_coded;

std::vector<Size> shapes() {
  return {{1, 1, 1},    {1, 63, 65},   {1, 64, 64},   {1, 65, 63},   {1, 10, 257},  {1, 17, 0},
          {0, 5, 5},    {1, 0, 5},     {3, 5, 0},     {1, 1000, 37}, {1, 37, 1000}, {2, 31, 97},
          {5, 130, 33}, {14, 64, 128}, {29, 113, 70}, {40, 19, 129}};
}

struct Problem {
  Problem(Encoding encoding, Size size, std::uint64_t seed, Fill fill = Fill::plain, Codes codes = Codes::finite)
      : w(encoding, size.out, size.in), x(size.batch, size.in), dy(size.batch, size.out), bias(size.out) {
    RandomStream random(seed, 7, RandomPurpose::test);
    w.fill(random, codes);
    x.fill(random, fill);
    dy.fill(random, fill);
    for (float& b : bias) b = draw(random, fill);
  }
  Panels dequantized() {
    panels = AlignedBuffer<float>(panels_size(w.view().out, w.view().in));
    const Panels to{panels.data(), w.view().out, w.view().in};
    dequantize(w.view(), to);
    return to;
  }
  CodedMatrix w;
  Matrix x, dy;
  std::vector<float> bias;
  AlignedBuffer<float> panels;
};

/// Forward, with what lies between the rows and with z.
std::vector<float> forward(const Problem& p, bool with_bias = true, Activation activation = Activation::linear,
                           bool with_z = false, bool in_parts = false) {
  Matrix y(p.x.rows, p.w.view().out), z(p.x.rows, p.w.view().out);
  const MatrixView to = with_z ? z.view() : MatrixView{};
  const float* bias = with_bias ? p.bias.data() : nullptr;
  ConstWeight w = p.w.view();
  w.activations = Activations::float32;
  if (in_parts)
    EXPECT_GT(run_in_parts(ops::Linear{w, bias, p.x.view(), activation, to, y.view()}), 1u);
  else
    linear_dequantized(p.w.view(), bias, p.x.view(), activation, to, y.view());
  if (with_z) y.data.insert(y.data.end(), z.data.begin(), z.data.end());
  return y.data;
}
std::vector<float> forward_of_panels(const Problem& p, const ConstPanels& w, bool with_bias = true,
                                     Activation activation = Activation::linear, bool with_z = false) {
  Matrix y(p.x.rows, w.out), z(p.x.rows, w.out);
  linear(w, with_bias ? p.bias.data() : nullptr, p.x.view(), activation, with_z ? z.view() : MatrixView{}, y.view());
  if (with_z) y.data.insert(y.data.end(), z.data.begin(), z.data.end());
  return y.data;
}
std::vector<float> backward(const Problem& p, bool in_parts = false) {
  const ConstWeight w = p.w.view();
  Matrix dx(p.dy.rows, w.in);
  if (in_parts)
    EXPECT_EQ(run_in_parts(ops::LinearTransposed{w, p.dy.view(), dx.view()}) > 1,
              p.dy.rows > 1 || w.dtype == Dtype::float32);
  else
    linear_transposed_dequantized(w, p.dy.view(), dx.view());
  return dx.data;
}
std::vector<float> column_sums(const Problem& p) {
  std::vector<float> s(p.w.view().in, -1.0f);
  column_l1_norms_dequantized(p.w.view(), s.data());
  return s;
}

std::string describe(const Encoding& encoding, const Size& size) {
  return to_string(encoding) + ", " + testing::PrintToString(size);
}

class LinearDequantized : public OnEachIsa {
  const FlushSubnormals flush_;
};

TEST_F(LinearDequantized, HasTheBitsOfDequantizedPanelsOnEveryIsa) {
  std::uint64_t seed = 0;
  for (const Encoding& encoding : all_encodings())
    for (const Size& size : shapes()) {
      if (size.batch * size.out == 0) continue;
      Problem p(encoding, size, ++seed);
      const std::string what = describe(encoding, size);
      for (const bool with_bias : {false, true}) {
        std::vector<float> want;
        if (encoding.dtype != Dtype::float64) want = forward_of_panels(p, p.dequantized(), with_bias);
        expect_same_on_all(what, [&] {
          const auto got = forward(p, with_bias);
          if (!want.empty()) {
            EXPECT_TRUE(same_bits(got, want)) << what;
          }
          return got;
        });
      }
    }
}

TEST_F(LinearDequantized, HasTheBitsOfDequantizedPanelsWithSpecialCodesAndInputs) {
  std::uint64_t seed = 1000;
  for (const Encoding& encoding : all_encodings())
    for (const Size& size : {Size{1, 83, 100}, Size{1, 70, 64}, Size{6, 37, 75}, Size{31, 20, 96}}) {
      ++seed;
      Problem p(encoding, size, seed, Fill::special, seed % 2 ? Codes::any : Codes::finite);
      const std::string what = describe(encoding, size);
      std::vector<float> want;
      if (encoding.dtype != Dtype::float64) want = forward_of_panels(p, p.dequantized());
      expect_same_on_all(what, [&] {
        const auto got = forward(p);
        if (!want.empty()) {
          EXPECT_TRUE(same_bits(got, want)) << what;
        }
        return got;
      });
    }
}

// A kernel that takes a power of two into the scale must see where that would overflow.
TEST_F(LinearDequantized, TakesScalesAtTheEndsOfTheRange) {
  for (const Encoding& encoding : all_encodings()) {
    if (!has_scale(encoding.dtype) || bits(encoding.dtype) > 16) continue;
    for (const double scale : {0x1p-126, 0x1.8p-120, 0x1.fffffep118, 0x1p119, 0x1.8p120, 0x1.fffffep127}) {
      Problem p(encoding, {1, 80, 96}, 21);
      for (std::size_t o = 0; o < 80; o += 3)
        for (std::size_t k = 0; k < 96; ++k) p.w.set_scale(o, k, scale);
      const auto want = forward_of_panels(p, p.dequantized());
      expect_same_on_all(to_string(encoding), [&] {
        const auto got = forward(p);
        EXPECT_TRUE(same_bits(got, want)) << to_string(encoding) << " times " << scale;
        return got;
      });
    }
  }
}

/// fp8_e4m3 with every code but a NaN's next to every other kind; 96 inputs for the vectors' way, 11 for the rest.
CodedMatrix every_number(Granularity granularity, double scale) {
  CodedMatrix w(Encoding(Dtype::fp8_e4m3, granularity), 70, 107);
  for (std::size_t o = 0; o < 70; ++o)
    for (std::size_t k = 0; k < 107; ++k) {
      const std::uint64_t code = (o * 107 + k) % 254;
      w.set_code(o, k, code < 0x7f ? code : code + 1);
      w.set_scale(o, k, scale);
    }
  return w;
}

TEST_F(LinearDequantized, NeedsNotLookForNansWhereThereAreNone) {
  const std::uint8_t yes = 1, no = 0;
  for (const Granularity granularity : {Granularity::tensor, Granularity::channel, Granularity::block32})
    for (const double scale : {0x1p-126, 0.3, 0x1p119}) {
      const CodedMatrix w = every_number(granularity, scale);
      Matrix x(6, 107), dy(6, 70);
      RandomStream random(31, 7, RandomPurpose::test);
      x.fill(random, Fill::special), dy.fill(random, Fill::plain);
      const auto all_results = [&](const std::uint8_t* nan_free) {
        ConstWeight view = w.view();
        view.nan_free = nan_free;
        Matrix y(1, 70), ys(6, 70), dx(6, 107);
        std::vector<float> all(107);
        column_l1_norms_dequantized(view, all.data());
        linear_dequantized(view, nullptr, x.row_view(0), Activation::linear, {}, y.view());
        linear_dequantized(view, nullptr, x.view(), Activation::linear, {}, ys.view());
        linear_transposed_dequantized(view, dy.view(), dx.view());
        for (const Matrix* each : {&y, &ys, &dx}) all.insert(all.end(), each->data.begin(), each->data.end());
        return all;
      };
      const auto want = all_results(nullptr);
      for (const std::uint8_t* const nan_free : {&no, &yes})
        expect_same_on_all("fp8_e4m3", [&] {
          const auto got = all_results(nan_free);
          EXPECT_TRUE(same_bits(got, want)) << weft::name(granularity) << " times " << scale << ", " << int{*nan_free};
          return got;
        });
    }
}

TEST_F(LinearDequantized, SeesANansCodeWhereverItStands) {
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

TEST_F(LinearDequantized, GivesEachRowTheSameBitsInEveryBatch) {
  for (const Encoding& encoding : all_encodings()) {
    const Problem p(encoding, {40, 67, 101}, 9);
    Matrix single(40, 67);
    for (std::size_t b = 0; b < 40; ++b)
      linear_dequantized(p.w.view(), p.bias.data(), p.x.row_view(b), Activation::linear, {},
                         {single.data.data() + b * single.stride, 1, 67, single.stride});
    for (std::size_t batch = 1; batch <= 40; ++batch) {
      Matrix y(batch, 67);
      linear_dequantized(p.w.view(), p.bias.data(), {p.x.data.data(), batch, 101, p.x.stride}, Activation::linear, {},
                         y.view());
      const std::vector<float> want(single.data.begin(),
                                    single.data.begin() + static_cast<std::ptrdiff_t>(y.data.size()));
      ASSERT_TRUE(same_bits(y.data, want)) << to_string(encoding) << ", batch " << batch;
    }
  }
}

TEST_F(LinearDequantized, GivesPreactivationsAndActivations) {
  for (const Encoding& encoding : all_encodings())
    for (const std::size_t batch : {1, 3})
      for (const bool with_z : {false, true})
        for (const Activation activation : {Activation::linear, Activation::tanh, Activation::relu}) {
          Problem p(encoding, {batch, 45, 70}, 11);
          if (encoding.dtype == Dtype::float64) continue;
          const auto want = forward_of_panels(p, p.dequantized(), true, activation, with_z);
          ASSERT_TRUE(same_bits(forward(p, true, activation, with_z), want)) << to_string(encoding);
        }
}

TEST_F(LinearDequantized, DequantizesInGroupsOfPanelsWhereAWeightIsLarge) {
  for (const Encoding& encoding :
       {Encoding(Dtype::int4), Encoding(Dtype::fp8_e4m3), Encoding(Dtype::binary), Encoding(Dtype::uint16)})
    for (const Size& size : {Size{2, 331, 1500}, Size{30, 331, 1500}}) {
      Problem p(encoding, size, 15);
      ASSERT_TRUE(same_bits(forward(p), forward_of_panels(p, p.dequantized()))) << describe(encoding, size);
      Matrix dx(size.batch, size.in);
      linear_transposed(p.dequantized(), p.dy.view(), dx.view());
      ASSERT_TRUE(same_bits(backward(p), dx.data)) << describe(encoding, size);
    }
}

TEST_F(LinearDequantized, TransposesWithTheBitsOfDequantizedPanels) {
  std::uint64_t seed = 2000;
  for (const Encoding& encoding : all_encodings())
    for (const Size& size : shapes()) {
      if (size.batch * size.in == 0) continue;
      const Fill fill = ++seed % 2 ? Fill::special : Fill::plain;
      Problem p(encoding, size, seed, fill, seed % 3 ? Codes::finite : Codes::any);
      const std::string what = describe(encoding, size);
      Matrix dx(size.batch, size.in);
      linear_transposed(p.dequantized(), p.dy.view(), dx.view());
      std::vector<float> sums(size.in);
      column_l1_norms(p.dequantized(), sums.data());
      const bool is_double = encoding.dtype == Dtype::float64;
      expect_same_on_all(what, [&] {
        const auto got = backward(p);
        if (!is_double) {
          EXPECT_TRUE(same_bits(got, dx.data)) << what;
        }
        return got;
      });
      expect_same_on_all(what, [&] {
        const auto got = column_sums(p);
        if (!is_double) {
          EXPECT_TRUE(same_bits(got, sums)) << what;
        }
        return got;
      });
    }
}

// One rounding of a sum in binary64: within half an ulp of float32, and the sum's own error.
float rounded(long double sum) { return static_cast<float>(sum); }

TEST_F(LinearDequantized, SumsFloat64InFloat64) {
  std::uint64_t seed = 3000;
  for (const Size& size : shapes()) {
    const Problem p(Encoding(Dtype::float64), size, ++seed);
    const auto weight = [&](std::size_t o, std::size_t k) {
      return static_cast<long double>(std::bit_cast<double>(p.w.code(o, k)));
    };
    const auto near = [](float got, long double want, long double magnitude) {
      const long double error = std::fabs(static_cast<long double>(got) - want);
      return error <= std::fabs(want) * 0x1p-24L + magnitude * 0x1p-44L;
    };
    const auto y = forward(p), dx = backward(p), s = column_sums(p);
    for (std::size_t b = 0; b < size.batch; ++b)
      for (std::size_t o = 0; o < size.out; ++o) {
        long double sum = p.bias[o], magnitude = std::fabs(sum);
        for (std::size_t k = 0; k < size.in; ++k) {
          const long double product = weight(o, k) * p.x.at(b, k);
          sum += product, magnitude += std::fabs(product);
        }
        ASSERT_TRUE(near(y[b * (size.out + 3) + o], sum, magnitude)) << size << " forward " << rounded(sum);
      }
    for (std::size_t k = 0; k < size.in; ++k) {
      long double sum = 0;
      for (std::size_t o = 0; o < size.out; ++o) sum += std::fabs(weight(o, k));
      ASSERT_TRUE(near(s[k], sum, sum)) << size << " column sums";
      for (std::size_t b = 0; b < size.batch; ++b) {
        long double product = 0, magnitude = 0;
        for (std::size_t o = 0; o < size.out; ++o) {
          product += weight(o, k) * p.dy.at(b, o);
          magnitude += std::fabs(weight(o, k) * p.dy.at(b, o));
        }
        ASSERT_TRUE(near(dx[b * (size.in + 3) + k], product, magnitude)) << size << " transposed";
      }
    }
  }
}

// The order of rule R1 shows here: 2^53 swallows ones inside its chunk, not those of the next; and the bias is added
// before the only rounding to float32.
TEST_F(LinearDequantized, SumsFloat64InChunksAndRoundsOnce) {
  CodedMatrix w(Encoding(Dtype::float64), 1, 128);
  for (std::size_t k = 0; k < 128; ++k) w.set_code(0, k, std::bit_cast<std::uint64_t>(k == 0 ? 0x1p53 : 1.0));
  const std::vector<float> x(128, 1.0f);
  const float bias = -0x1p53f;
  expect_same_on_all("float64", [&] {
    std::vector<float> y(1);
    linear_dequantized(w.view(), &bias, {x.data(), 1, 128, 128}, Activation::linear, {}, {y.data(), 1, 1, 1});
    EXPECT_EQ(y[0], 64.0f);
    return y;
  });
}

TEST_F(LinearDequantized, Float32IsLinearItself) {
  Problem p(Encoding(Dtype::float32), {3, 50, 40}, 17);
  EXPECT_TRUE(same_bits(forward(p), forward_of_panels(p, p.w.view().panels())));
}

TEST_F(LinearDequantized, AllocatesNothingInASteadyState) {
  for (const Encoding& encoding : all_encodings())
    for (const std::size_t batch : {1, 5}) {
      const Problem p(encoding, {batch, 70, 90}, 19);
      Matrix y(batch, 70), dx(batch, 90);
      std::vector<float> s(90);
      const auto run = [&] {
        linear_dequantized(p.w.view(), p.bias.data(), p.x.view(), Activation::relu, {}, y.view());
        linear_transposed_dequantized(p.w.view(), p.dy.view(), dx.view());
        column_l1_norms_dequantized(p.w.view(), s.data());
      };
      run();
      const std::size_t before = aligned_allocations;
      run();
      EXPECT_EQ(aligned_allocations, before) << to_string(encoding);
    }
}

}  // namespace
}  // namespace weft::kernels::linear_dequantized_test
