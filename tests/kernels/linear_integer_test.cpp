// SPDX-License-Identifier: Apache-2.0
// Sums at the ends of what codes allow, and threads that run other layers meanwhile. The rest: the table of
// op_cases.hpp.

#include "kernels/linear_integer.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/internal/matrix_tiles.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/comparing.hpp"
#include "tests/kernels/product_oracle.hpp"
#include <array>
#include <limits>
#include <string>
#include <vector>

namespace weft::kernels::linear_integer_test {
namespace {
using namespace testing_support;
using testing_coded::CodedMatrix;

std::vector<Encoding> encodings() {
  std::vector<Encoding> all;
  for (const Encoding& each : testing_coded::all_encodings())
    if (has_integer_kernel(each.dtype)) all.push_back(each);
  return all;
}

std::vector<float> computed(const CodedMatrix& w, const Matrix& x, OpStream& stream) {
  Matrix y(x.rows(), w.view().out);
  stream.linear({w.view(), nullptr, x.view(), Activation::linear, {}, y.view()});
  EXPECT_TRUE(y.gaps_intact());
  if (active_isa() == Isa::amx)  // few rows and zero points go without tiles
    EXPECT_EQ(last_isa_run(), x.rows() < 8 || has_zero_point(w.view().dtype) ? Isa::avx512_vnni : Isa::amx);
  else
    EXPECT_EQ(last_isa_run(), active_isa());
  return y.values();
}

class LinearInteger : public testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(set_active_isa(best_isa())); }
  const FlushSubnormals flush_;
};

TEST_F(LinearInteger, NoSumOverflowsWithAllCodesAtTheirEnds) {
  constexpr std::size_t kOut = 33, kIn = 1000;
  for (const Encoding& encoding : encodings()) {
    const Dtype dtype = encoding.dtype;
    const std::uint64_t top = testing_coded::code_mask(dtype);
    const bool is_signed = !has_zero_point(dtype) && dtype != Dtype::binary;
    const std::uint64_t highest = is_signed ? top / 2 : top, lowest = is_signed ? top / 2 + 2 : 0;
    for (const bool high_code : {false, true})
      for (const bool high_zero : {false, true})
        for (const float sign : {1.0f, -1.0f})
          for (const std::size_t batch : {1u, 9u}) {
            CodedMatrix w(encoding, kOut, kIn);
            Matrix x(batch, kIn);
            for (std::size_t o = 0; o < kOut; ++o)
              for (std::size_t k = 0; k < kIn; ++k) {
                // All alike, and with signs that follow the activations' in half of the outputs.
                const bool high = o % 2 == 0 ? high_code : (k % 3 == 0) == high_code;
                w.set_code(o, k, high ? highest : lowest);
                w.set_scale(o, k, 1.0);
                if (has_zero_point(dtype)) w.set_zero(o, k, high_zero ? highest : 0);
              }
            for (std::size_t b = 0; b < batch; ++b)
              for (std::size_t k = 0; k < kIn; ++k) x.at(b, k) = sign * (b % 2 == 0 || k % 3 == 0 ? 127.0f : -127.0f);
            testing_ops::Products<float> product(w.view());
            std::vector<float> want;
            for (std::size_t b = 0; b < batch; ++b) {
              product.set_row(testing_ops::row_of<float>(x.view(), b));
              for (std::size_t o = 0; o < kOut; ++o) want.push_back(product(o, nullptr));
            }
            for (const Isa isa : available_isas()) {
              ASSERT_TRUE(set_active_isa(isa));
              CpuStream stream;
              expect_same_bits(computed(w, x, stream), want, to_string(encoding) + " on " + std::string(name(isa)));
            }
          }
  }
}

// CPUs with AMX run these shapes by its tiles in the table of op_cases.hpp; others with VNNI run the same code here,
// but for the tiles themselves.
TEST_F(LinearInteger, TilesOfTheMatrixUnitGiveTheSameBits) {
  if (!is_supported(Isa::avx512_vnni)) GTEST_SKIP() << "no AVX-512 VNNI";
  struct Emulated {
    Emulated() { detail::emulates_matrix_unit = true; }
    ~Emulated() { detail::emulates_matrix_unit = false; }
  };
  RandomStream random(91, 0, RandomPurpose::test);
  for (const Encoding& encoding : encodings())
    for (const auto& sizes : {std::array<std::size_t, 3>{8, 16, 32},
                              {9, 33, 7},
                              {16, 50, 64},
                              {17, 35, 97},
                              {31, 80, 544},
                              {32, 17, 130},
                              {48, 19, 4200},
                              {300, 20, 1000}}) {
      const std::size_t batch = sizes[0], out = sizes[1], in = sizes[2];
      CodedMatrix w(encoding, out, in);
      w.fill(random, testing_coded::Codes::finite);
      Matrix x = random_matrix(random, batch, in);
      x.at(batch / 2, in / 2) = std::numeric_limits<float>::infinity();
      ASSERT_TRUE(set_active_isa(Isa::scalar));
      CpuStream plain, tiled;
      const auto product = [&](OpStream& stream) {
        Matrix y(batch, out);
        stream.linear({w.view(), nullptr, x.view(), Activation::relu, {}, y.view()});
        return y.values();
      };
      const std::vector<float> want = product(plain);
      ASSERT_TRUE(set_active_isa(Isa::avx512_vnni));
      const std::string text = to_string(encoding) + ", batch " + std::to_string(batch);
      expect_same_bits(product(tiled), want, text + ", without a matrix unit");
      EXPECT_EQ(last_isa_run(), Isa::avx512_vnni);
      const Emulated emulated;
      expect_same_bits(product(tiled), want, text);
      EXPECT_EQ(last_isa_run(), has_zero_point(encoding.dtype) ? Isa::avx512_vnni : Isa::amx);
    }
}

// The same codes with the same scales as float32: every path gives the same bits.
TEST_F(LinearInteger, Binary16ScalesAreTheFloatsTheyStandFor) {
  RandomStream random(92, 0, RandomPurpose::test);
  for (const Encoding& encoding : encodings())
    for (const auto& shape :
         {std::array<std::size_t, 3>{1, 140, 1056}, {1, 33, 71}, {2, 64, 128}, {9, 35, 100}, {40, 48, 544}}) {
      if (encoding.granularity != Granularity::block32_f16) continue;
      const std::size_t batch = shape[0], out = shape[1], in = shape[2];
      CodedMatrix half(encoding, out, in);
      half.fill(random, testing_coded::Codes::finite);
      half.set_scale(0, 0, 0x1p-24), half.set_scale(out - 1, in - 1, 65504);
      AlignedBuffer<float> scales(scale_count(encoding, out, in));
      const auto* const codes = static_cast<const std::uint16_t*>(half.view().scales);
      for (std::size_t i = 0; i < scales.size(); ++i)
        scales[i] = static_cast<float>(testing_coded::small_float(codes[i], 5, 10));
      ConstWeight wide = half.view();
      wide.granularity = Granularity::block32, wide.scales = scales.data();
      const Matrix x = random_matrix(random, batch, in);
      for (const Isa isa : available_isas())
        for (const Activations activations : {Activations::int8, Activations::float32, Activations::int8_row}) {
          ASSERT_TRUE(set_active_isa(isa));
          CpuStream stream;
          const auto product = [&](ConstWeight w) {
            w.activations = activations;
            Matrix y(batch, out);
            stream.linear({w, nullptr, x.view(), Activation::linear, {}, y.view()});
            return y.values();
          };
          expect_same_bits(product(half.view()), product(wide), to_string(encoding) + " on " + std::string(name(isa)));
        }
    }
}

/// Runs tasks backwards, and inside each one another integer layer, as a thread that waits may.
struct Busy {
  std::size_t tasks = 0;
  const CodedMatrix& other;
  const Matrix& x;
  void operator()(std::size_t count, ParallelFor::Body body, void* context) {
    tasks += count;
    for (std::size_t i = count; i-- > 0;) {
      CpuStream own;
      computed(other, x, own);
      body(context, i);
    }
  }
};

TEST_F(LinearInteger, OtherLayersMeanwhileChangeNoBit) {
  RandomStream random(87, 0, RandomPurpose::test);
  CodedMatrix other(Encoding(Dtype::int8, Granularity::channel), 40, 64);
  other.fill(random, testing_coded::Codes::finite);
  const Matrix other_x = random_matrix(random, 5, 64);
  for (const Encoding& encoding : encodings())
    for (const auto& [batch, out, in] : {std::array<std::size_t, 3>{1, 1300, 900}, {300, 300, 70}, {33, 530, 200}}) {
      if (!is_block(encoding.granularity)) continue;
      CodedMatrix w(encoding, out, in);
      w.fill(random, testing_coded::Codes::finite);
      const Matrix x = random_matrix(random, batch, in);
      for (const Isa isa : available_isas()) {
        if (isa == Isa::scalar) continue;  // slow, and its splits are the others'
        ASSERT_TRUE(set_active_isa(isa));
        CpuStream whole, stream;
        const std::vector<float> want = computed(w, x, whole);
        Busy busy{0, other, other_x};
        ParallelOptions parallel{ParallelFor(busy)};
        parallel.threads = 5, parallel.grain_size = 0;
        stream.set_parallel(&parallel);
        expect_same_bits(computed(w, x, stream), want, to_string(encoding) + " on " + std::string(name(isa)));
        EXPECT_GT(busy.tasks, 1u) << to_string(encoding);
      }
    }
}

}  // namespace
}  // namespace weft::kernels::linear_integer_test
