// SPDX-License-Identifier: Apache-2.0

#include "kernels/linear_integer.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/unary.hpp"

#include "core/aligned_buffer.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/comparing.hpp"
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace weft::kernels::linear_integer_test {
namespace {
using namespace testing_support;

constexpr std::array kTypes = {Dtype::int8, Dtype::uint8, Dtype::int4,    Dtype::uint4,
                               Dtype::int2, Dtype::uint2, Dtype::ternary, Dtype::binary};
constexpr std::array kGranularities = {Granularity::tensor, Granularity::channel, Granularity::block32};

/// A weight as numbers: what its codes stand for, less their zeros, and scales, by the places that weight.hpp names.
class IntegerWeight {
 public:
  IntegerWeight(Dtype dtype, Granularity granularity, std::size_t out, std::size_t in)
      : encoding_(dtype, granularity),
        out_(out),
        in_(in),
        words_((in + per_word() - 1) / per_word()),
        codes_((out + 15) / 16 * words_ * 16),
        scales_(scale_count(encoding_, out, in)),
        zeros_(is_unsigned() ? scales_.size() : 0),
        values_(out * in) {}

  int width() const { return bits(encoding_.dtype); }
  bool is_unsigned() const {
    return encoding_.dtype == Dtype::uint8 || encoding_.dtype == Dtype::uint4 || encoding_.dtype == Dtype::uint2;
  }
  int lowest() const {
    if (is_unsigned()) return 0;
    return encoding_.dtype == Dtype::binary ? -1 : -highest();
  }
  int highest() const {
    if (is_unsigned()) return (1 << width()) - 1;
    return encoding_.dtype == Dtype::binary ? 1 : (1 << (width() - 1)) - 1;
  }
  std::size_t group(std::size_t o, std::size_t k) const {
    switch (encoding_.granularity) {
      case Granularity::tensor:
        return 0;
      case Granularity::channel:
        return o;
      default:
        return (o / 16 * ((in_ + 31) / 32) + k / 32) * 16 + o % 16;
    }
  }
  /// number: a code of the type (binary: -1 or 1).
  void set(std::size_t o, std::size_t k, int number) {
    values_[o * in_ + k] = number;
    const std::uint32_t mask = width() == 32 ? ~0u : (1u << width()) - 1;
    const std::uint32_t code =
        encoding_.dtype == Dtype::binary ? (number > 0 ? 1u : 0u) : static_cast<std::uint32_t>(number) & mask;
    std::uint32_t& word = codes_[(o / 16 * words_ + k / per_word()) * 16 + o % 16];
    const int shift = static_cast<int>(k % per_word()) * width();
    word = (word & ~(mask << shift)) | code << shift;
  }
  void set_group(std::size_t o, std::size_t k, float scale, int zero) {
    scales_[group(o, k)] = scale;
    if (is_unsigned()) zeros_[group(o, k)] = static_cast<std::uint8_t>(zero);
  }
  std::int64_t value(std::size_t o, std::size_t k) const {
    return values_[o * in_ + k] - (is_unsigned() ? zeros_[group(o, k)] : 0);
  }
  float scale(std::size_t o, std::size_t k) const { return scales_[group(o, k)]; }
  void fill(RandomStream& random, float size = 0.02f) {
    const auto range = static_cast<std::uint32_t>(highest() - lowest() + 1);
    for (std::size_t o = 0; o < out_; ++o)
      for (std::size_t k = 0; k < in_; ++k) {
        const int number = lowest() + static_cast<int>(random.next_below(range));
        set(o, k, encoding_.dtype == Dtype::binary ? (number > 0 ? 1 : -1) : number);
        set_group(o, k, (0.5f + random.next_uniform()) * size,
                  static_cast<int>(random.next_below(static_cast<std::uint32_t>(highest()) + 1)));
      }
  }
  ConstWeight view() const {
    ConstWeight w;
    w.codes = codes_.data();
    w.scales = scales_.data();
    w.zeros = is_unsigned() ? zeros_.data() : nullptr;
    w.out = out_;
    w.in = in_;
    w.dtype = encoding_.dtype;
    w.granularity = encoding_.granularity;
    return w;
  }
  std::size_t out() const { return out_; }
  std::size_t in() const { return in_; }

 private:
  std::size_t per_word() const { return 32 / static_cast<std::size_t>(width()); }
  Encoding encoding_;
  std::size_t out_, in_, words_;
  AlignedBuffer<std::uint32_t> codes_;
  AlignedBuffer<float> scales_;
  AlignedBuffer<std::uint8_t> zeros_;
  std::vector<int> values_;
};

std::string text(Dtype dtype, Granularity granularity, std::size_t batch, std::size_t out, std::size_t in) {
  return to_string(Encoding(dtype, granularity)) + ", batch " + std::to_string(batch) + ", out " + std::to_string(out) +
         ", in " + std::to_string(in);
}

/// One activation block as the contract says, in binary64 rounded once a step.
struct Block {
  float scale = 0;
  std::array<std::int64_t, 32> codes{};
};
Block quantize(const Matrix& x, std::size_t b, std::size_t first) {
  Block block;
  double m = 0;
  const std::size_t last = std::min(x.cols(), first + 32);
  for (std::size_t k = first; k < last; ++k) {
    if (!std::isfinite(x.at(b, k))) {
      block.scale = std::numeric_limits<float>::quiet_NaN();
      return block;
    }
    m = std::max(m, std::abs(static_cast<double>(x.at(b, k))));
  }
  if (m < 0x1p-100) return block;
  block.scale = static_cast<float>(m / 127);
  const float inverse = static_cast<float>(127 / m);
  for (std::size_t k = first; k < last; ++k)
    block.codes[k - first] = std::llrint(static_cast<double>(static_cast<float>(double(x.at(b, k)) * inverse)));
  return block;
}

/// z by the contract.
std::vector<float> expected(const IntegerWeight& w, Granularity granularity, const float* bias, const Matrix& x) {
  std::vector<float> all;
  std::int64_t largest = 0;
  for (std::size_t b = 0; b < x.rows(); ++b) {
    std::vector<Block> blocks;
    for (std::size_t k = 0; k < w.in(); k += 32) blocks.push_back(quantize(x, b, k));
    for (std::size_t o = 0; o < w.out(); ++o) {
      float total = 0, sum = 0;
      for (std::size_t t = 0; t < blocks.size(); ++t) {
        if (t % 2 == 0) sum = 0;
        std::int64_t exact = 0;
        for (std::size_t k = 32 * t; k < std::min(w.in(), 32 * t + 32); ++k)
          exact += w.value(o, k) * blocks[t].codes[k - 32 * t];
        largest = std::max(largest, std::abs(exact));
        const float scale = granularity == Granularity::block32
                                ? static_cast<float>(double(blocks[t].scale) * w.scale(o, 32 * t))
                                : blocks[t].scale;
        sum = std::fma(static_cast<float>(exact), scale, sum);
        if (t % 2 == 1 || t + 1 == blocks.size()) total += sum;
      }
      if (granularity != Granularity::block32) total *= w.scale(o, 0);
      all.push_back(bias ? total + bias[o] : total);
    }
  }
  EXPECT_LE(largest, 32 * 255 * 127) << "every sum is exact as a float";
  return all;
}

std::vector<float> computed(const IntegerWeight& w, const float* bias, const Matrix& x, OpStream* stream = nullptr) {
  Matrix y(x.rows(), w.out());
  if (stream)
    stream->linear({w.view(), bias, x.view(), Activation::linear, {}, y.view()});
  else
    linear_integer(w.view(), bias, x.view(), Activation::linear, {}, y.view());
  EXPECT_TRUE(y.gaps_intact());
  EXPECT_TRUE(x.rows() == 0 || last_isa_run() == active_isa());
  return y.values();
}

class LinearInteger : public testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(set_active_isa(best_isa())); }

  template <class F>
  static void on_each_isa(const F& f) {
    for (const Isa isa : available_isas()) {
      ASSERT_TRUE(set_active_isa(isa));
      f(std::string(" on ") + std::string(name(isa)));
    }
  }
  template <class F>
  static void on_each_encoding(const F& f) {
    for (const Dtype dtype : kTypes)
      for (const Granularity granularity : kGranularities) f(dtype, granularity);
  }
  static void check(const IntegerWeight& w, Granularity granularity, const float* bias, const Matrix& x,
                    const std::string& what) {
    const std::vector<float> want = expected(w, granularity, bias, x);
    on_each_isa([&](const std::string& where) { expect_same_bits(computed(w, bias, x), want, what + where); });
  }
  const FlushSubnormals flush_;
};

struct Shape {
  std::size_t batch, out, in;
};
const std::vector<Shape> kShapes = {{1, 1, 1},     {1, 1, 0},    {2, 3, 0},   {0, 3, 3},    {1, 16, 32},  {1, 17, 31},
                                    {1, 63, 33},   {1, 64, 64},  {1, 65, 65}, {1, 113, 63}, {1, 97, 100}, {1, 40, 1000},
                                    {1, 200, 127}, {2, 64, 64},  {3, 31, 97}, {5, 33, 65},  {6, 80, 257}, {7, 129, 32},
                                    {8, 65, 300},  {9, 16, 700}, {12, 1, 40}, {13, 47, 3},  {17, 20, 64}, {40, 35, 70}};

TEST_F(LinearInteger, GivesTheContractsBitsForEveryTypeAndShape) {
  RandomStream random(81, 0, RandomPurpose::test);
  on_each_encoding([&](Dtype dtype, Granularity granularity) {
    for (const Shape& s : kShapes) {
      IntegerWeight w(dtype, granularity, s.out, s.in);
      w.fill(random);
      const Matrix x = random_matrix(random, s.batch, s.in), bias = random_matrix(random, 1, s.out);
      check(w, granularity, s.out % 2 == 0 ? nullptr : bias.view().data, x,
            text(dtype, granularity, s.batch, s.out, s.in));
    }
  });
}

TEST_F(LinearInteger, GivesTheContractsBitsForEveryLengthOfARow) {
  RandomStream random(82, 0, RandomPurpose::test);
  on_each_encoding([&](Dtype dtype, Granularity granularity) {
    for (std::size_t in = 1; in <= 130; in += 1 + in / 40) {
      IntegerWeight w(dtype, granularity, 19, in);
      w.fill(random);
      for (const std::size_t batch : {1u, 3u})
        check(w, granularity, nullptr, random_matrix(random, batch, in), text(dtype, granularity, batch, 19, in));
    }
  });
}

TEST_F(LinearInteger, GivesTheContractsBitsForEveryBatchUpTo40) {
  RandomStream random(83, 0, RandomPurpose::test);
  on_each_encoding([&](Dtype dtype, Granularity granularity) {
    IntegerWeight w(dtype, granularity, 49, 96);
    w.fill(random);
    const Matrix x = random_matrix(random, 40, 96);
    const std::vector<float> want = expected(w, granularity, nullptr, x);
    for (std::size_t batch = 1; batch <= 40; ++batch) {
      Matrix head(batch, 96);
      for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t k = 0; k < 96; ++k) head.at(b, k) = x.at(b, k);
      const std::vector<float> want_head(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(batch * 49));
      on_each_isa([&](const std::string& where) {
        if (active_isa() == Isa::scalar && batch % 13 != 1) return;  // slow, and takes row by row
        expect_same_bits(computed(w, nullptr, head), want_head, text(dtype, granularity, batch, 49, 96) + where);
      });
    }
  });
}

TEST_F(LinearInteger, NoSumOverflowsWithAllCodesAtTheirEnds) {
  on_each_encoding([&](Dtype dtype, Granularity granularity) {
    for (const bool high_code : {false, true})
      for (const bool high_zero : {false, true})
        for (const float sign : {1.0f, -1.0f})
          for (const std::size_t batch : {1u, 9u}) {
            constexpr std::size_t kOut = 33, kIn = 1000;
            IntegerWeight w(dtype, granularity, kOut, kIn);
            Matrix x(batch, kIn);
            for (std::size_t o = 0; o < kOut; ++o)
              for (std::size_t k = 0; k < kIn; ++k) {
                // All alike, and with signs that follow the activations' in half of the outputs.
                const bool high = o % 2 == 0 ? high_code : (k % 3 == 0) == high_code;
                w.set(o, k, high ? w.highest() : w.lowest());
                w.set_group(o, k, 1.0f, high_zero ? w.highest() : 0);
              }
            for (std::size_t b = 0; b < batch; ++b)
              for (std::size_t k = 0; k < kIn; ++k) x.at(b, k) = sign * (b % 2 == 0 || k % 3 == 0 ? 127.0f : -127.0f);
            check(w, granularity, nullptr, x, text(dtype, granularity, batch, kOut, kIn) + " at the ends");
          }
  });
}

TEST_F(LinearInteger, TakesEveryKindOfFloat) {
  RandomStream random(84, 0, RandomPurpose::test);
  on_each_encoding([&](Dtype dtype, Granularity granularity) {
    for (const float size : {0x1p-126f, 0x1p-60f, 1.0f, 0x1p100f}) {
      IntegerWeight w(dtype, granularity, 35, 160);
      w.fill(random, size);
      Matrix x = special_matrix(random, 13, 160, 60), bias = special_matrix(random, 1, 35);
      // Rows without infinities, of every size.
      for (std::size_t b = 3; b < 13; ++b)
        for (std::size_t k = 0; k < 160; ++k)
          x.at(b, k) = std::ldexp(random.next_normal(), static_cast<int>(b) * 24 - 160);
      for (std::size_t k = 0; k < 160; ++k) x.at(12, k) = k % 2 == 0 ? -0.0f : 0x1p-140f;
      check(w, granularity, bias.view().data, x, text(dtype, granularity, 13, 35, 160) + " special");
      for (const std::size_t b : {0u, 1u, 5u, 12u}) {
        Matrix one(1, 160);
        for (std::size_t k = 0; k < 160; ++k) one.at(0, k) = x.at(b, k);
        check(w, granularity, bias.view().data, one, text(dtype, granularity, 1, 35, 160) + " special");
      }
    }
  });
}

TEST_F(LinearInteger, ARowDoesNotDependOnItsNeighbours) {
  RandomStream random(85, 0, RandomPurpose::test);
  on_each_encoding([&](Dtype dtype, Granularity granularity) {
    IntegerWeight w(dtype, granularity, 70, 130);
    w.fill(random);
    Matrix x = random_matrix(random, 23, 130);
    for (std::size_t k = 0; k < 130; ++k) x.at(11, k) = std::numeric_limits<float>::quiet_NaN();
    on_each_isa([&](const std::string& where) {
      const std::vector<float> together = computed(w, nullptr, x);
      for (std::size_t b = 0; b < 23; ++b) {
        Matrix one(1, 130);
        for (std::size_t k = 0; k < 130; ++k) one.at(0, k) = x.at(b, k);
        const std::vector<float> row(together.begin() + static_cast<std::ptrdiff_t>(b * 70),
                                     together.begin() + static_cast<std::ptrdiff_t>((b + 1) * 70));
        expect_same_bits(computed(w, nullptr, one), row, "row " + std::to_string(b) + where);
      }
    });
  });
}

TEST_F(LinearInteger, AppliesActivationsAndKeepsPreactivationsAsLinearDoes) {
  RandomStream random(86, 0, RandomPurpose::test);
  for (const std::size_t batch : {1u, 11u}) {
    IntegerWeight w(Dtype::int4, Granularity::block32, 53, 90);
    w.fill(random);
    const Matrix x = random_matrix(random, batch, 90);
    const std::vector<float> want = expected(w, Granularity::block32, nullptr, x);
    for (int a = 0; a < kActivationCount; ++a) {
      const auto activation = static_cast<Activation>(a);
      on_each_isa([&](const std::string& where) {
        Matrix z(batch, 53, 7), y(batch, 53, 2), alone(batch, 53);
        linear_integer(w.view(), nullptr, x.view(), activation, z.view(), y.view());
        expect_same_bits(z.values(), want, "z of " + std::string(name(activation)) + where);
        unary(activation, z.view(), alone.view());
        expect_same_bits(y.values(), alone.values(), "y of " + std::string(name(activation)) + where);
        EXPECT_TRUE(z.gaps_intact() && y.gaps_intact());
        linear_integer(w.view(), nullptr, x.view(), activation, {}, alone.view());
        expect_same_bits(alone.values(), y.values(), "y without z" + where);
        linear_integer(w.view(), nullptr, x.view(), Activation::linear, z.view(), z.view());
        expect_same_bits(z.values(), want, "z as y" + where);
      });
    }
  }
}

/// Runs tasks backwards, and inside each one other integer layers, as a thread that waits may.
struct Busy {
  std::size_t tasks = 0;
  const IntegerWeight& other;
  const Matrix& x;
  void operator()(std::size_t count, ParallelFor::Body body, void* context) {
    tasks += count;
    for (std::size_t i = count; i-- > 0;) {
      computed(other, nullptr, x);
      body(context, i);
    }
  }
};

TEST_F(LinearInteger, SplittingOverTasksChangesNoBit) {
  RandomStream random(87, 0, RandomPurpose::test);
  IntegerWeight other(Dtype::int8, Granularity::channel, 40, 64);
  other.fill(random);
  const Matrix other_x = random_matrix(random, 5, 64);
  for (const Dtype dtype : kTypes)
    for (const Shape& s : {Shape{1, 1300, 900}, Shape{1, 40, 64}, Shape{300, 300, 70}, Shape{33, 530, 200}}) {
      for (const Granularity granularity : kGranularities) {
        if (s.out * s.batch > 4000 && granularity == Granularity::channel) continue;
        IntegerWeight w(dtype, granularity, s.out, s.in);
        w.fill(random);
        const Matrix x = random_matrix(random, s.batch, s.in), bias = random_matrix(random, 1, s.out);
        on_each_isa([&](const std::string& where) {
          if (active_isa() == Isa::scalar && s.out * s.in > 40000) return;  // slow, and its splits are the others'
          const std::vector<float> whole = computed(w, bias.view().data, x);
          Busy busy{0, other, other_x};
          ParallelOptions parallel{ParallelFor(busy)};
          parallel.threads = 5;
          parallel.grain_size = 0;
          CpuStream stream;
          stream.set_parallel(&parallel);
          const std::string what = text(dtype, granularity, s.batch, s.out, s.in);
          expect_same_bits(computed(w, bias.view().data, x, &stream), whole, what + where);
          EXPECT_GT(busy.tasks, 1u) << what;
        });
      }
    }
}

TEST_F(LinearInteger, StaysCloseToTheProductOfWhatItsCodesStandFor) {
  RandomStream random(88, 0, RandomPurpose::test);
  IntegerWeight w(Dtype::int8, Granularity::channel, 30, 512);
  w.fill(random);
  const Matrix x = random_matrix(random, 4, 512);
  const std::vector<float> y = computed(w, nullptr, x);
  for (std::size_t b = 0; b < 4; ++b)
    for (std::size_t o = 0; o < 30; ++o) {
      // Activations err by half of their blocks' steps, 1/254 of a block's largest: below 4.5/254 for normal numbers.
      double sum = 0, slack = 0;
      for (std::size_t k = 0; k < 512; ++k) {
        const double weight = static_cast<double>(w.value(o, k)) * w.scale(o, k);
        sum += weight * x.at(b, k);
        slack += std::abs(weight) * 4.5 / 254;
      }
      EXPECT_NEAR(y[b * 30 + o], sum, slack);
    }
}

}  // namespace
}  // namespace weft::kernels::linear_integer_test
