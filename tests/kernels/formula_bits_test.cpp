// SPDX-License-Identifier: Apache-2.0
// Guards of bits: how near the formulas come to the functions they stand for is tested in math_test and unary_test.

#include "kernels/math_rows.hpp"
#include "kernels/unary.hpp"

#include "comparing.hpp"

namespace weft::kernels::formula_bits_test {
namespace {

using namespace testing_support;

// Bit patterns spread over all floats, and special values.
std::vector<float> arguments() {
  std::vector<float> all = special_values();
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 16411)
    all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (int i = -40000; i <= 40000; ++i) all.push_back(static_cast<float>(i) * 0x1p-11f);
  return all;
}

// FNV-1a over the bits, each NaN as the canonical one.
std::uint64_t hash_of(const std::vector<float>& values) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const float v : values)
    hash = (hash ^ (std::isnan(v) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(v))) * 0x100000001b3u;
  return hash;
}

// Calls compute() on each instruction set: they agree, and their bits are those that other machines have.
template <class Compute>
void expect_bits(const std::string& what, std::uint64_t want, const Compute& compute) {
  std::vector<float> y;
  expect_one_result_on_every_isa(what, [&] { return y = compute(); });
  EXPECT_EQ(hash_of(y), want) << what << ": hash 0x" << std::hex << hash_of(y);
}

TEST(FormulaBits, OfFunctionsStay) {
  constexpr std::uint64_t kWant[kFunctionCount] = {0x12f47675510024ed, 0xd392d8e030ac7943, 0x2fcd6edcf887458,
                                                   0xc4ae2506317dca9d, 0x8d89cd0ef3a13b92, 0xfae337bde1a6bbd,
                                                   0xf9cc6a9cffb256bf, 0x6549ad2fb481ea4c, 0x4e711494329fc885};
  for (int i = 0; i < kFunctionCount; ++i) {
    const auto function = static_cast<Function>(i);
    std::vector<float> x = arguments();
    for (float& v : x) {
      if (function == Function::expm1_nonpositive) v = -std::fabs(v);
      if (function == Function::log1p_unit) v = std::fabs(v) <= 1.0f ? std::fabs(v) : 0.25f;
    }
    expect_bits(std::string(name(function)), kWant[i], [&] {
      std::vector<float> y(x.size());
      apply(function, {x.data(), 1, x.size(), x.size()}, {y.data(), 1, y.size(), y.size()});
      return y;
    });
  }
}

struct Bits {
  std::uint64_t value, slope;
};

/// Puts x86's slope of sigmoid where ARM's is a zero: of y = 2^-126, y (1 - y) = 2^-126 - 2^-252 is tiny before it is
/// rounded and not after (docs/numerics.md, the tininess corner).
void leave_tininess_corner([[maybe_unused]] const std::vector<float>& y, [[maybe_unused]] const std::vector<float>& dy,
                           [[maybe_unused]] std::vector<float>& dx) {
#if defined(__aarch64__)
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] != 0x1p-126f) continue;
    EXPECT_EQ(dx[i], 0.0f);
    dx[i] = 0x1p-126f * dy[i];
  }
#endif
}

TEST(FormulaBits, OfActivationsAndSlopesStay) {
  constexpr Bits kWant[kActivationCount] = {
      {0xe515fe287c0ddd03, 0x4ee817506409128b}, {0x957ec9787e046e1b, 0x6b1a15eff28af614},
      {0x74d79ade0f30827c, 0x95fa8fc29ea48c0d}, {0xf1382b9df0915e72, 0x7be89ce7f4107e53},
      {0x431642a0c1d2d14f, 0x169eaaea92cd8481}, {0x3eb547e3527a6931, 0x5ab1afeed6a09522},
      {0xae84dbedf7c4030e, 0xdc0b75393fff7e56}, {0x8d89cd0ef3a13b92, 0xdec7272b7a80513e},
      {0xfae337bde1a6bbd, 0x9ee9c1814c83e562},  {0xac7668c6fa119ef9, 0x9712f7cc8508d095},
      {0x70179985ac9cbb9a, 0x35aadad054d78915}, {0x2cdf2e3f8075e95e, 0x34dd2b0a89ec0d7a}};
  const std::vector<float> x = arguments();
  std::vector<float> dy(x.rbegin(), x.rend());
  for (int i = 0; i < kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    const auto row = [](const std::vector<float>& v) { return ConstMatrixView{v.data(), 1, v.size(), v.size()}; };
    const std::string of{name(activation)};
    const Bits want = kWant[i];
    expect_bits(of, want.value, [&] {
      std::vector<float> y(x.size());
      unary(activation, row(x), {y.data(), 1, y.size(), y.size()});
      return y;
    });
    expect_bits("the slope of " + of, want.slope, [&] {
      std::vector<float> dx(x.size());
      unary_backward(activation, row(x), row(x), row(dy), {dx.data(), 1, dx.size(), dx.size()});
      if (activation == Activation::sigmoid) leave_tininess_corner(x, dy, dx);
      return dx;
    });
  }
}

}  // namespace
}  // namespace weft::kernels::formula_bits_test
