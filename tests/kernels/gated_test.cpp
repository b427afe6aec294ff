// SPDX-License-Identifier: Apache-2.0
// The gated pair against binary64; all types, instruction sets and parts of it against the same sums one by one.

#include "kernels/gated.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/linear_integer.hpp"

#include "coded_weights.hpp"
#include "linear_testing.hpp"

namespace weft::kernels::gated_test {
namespace {

using namespace testing_linear;
using testing_coded::CodedMatrix;
using testing_coded::Codes;

class Gated : public OnEachIsa {
 protected:
  const FlushSubnormals flush_;
};

constexpr Activation kGates[] = {Activation::silu, Activation::gelu, Activation::relu2, Activation::tanh,
                                 Activation::linear};

/// Threads as a pool would give them.
struct Threads {
  explicit Threads(std::size_t count) {
    parallel.threads = count;
    parallel.grain_size = 0;
  }
  Backwards backwards;
  ParallelOptions parallel{ParallelFor(backwards)};
};

struct Pair {
  Pair(Size size, Encoding encoding, Codes which, std::uint64_t seed)
      : gate(encoding, size.out, size.in),
        up(encoding, size.out, size.in),
        gate_bias(size.out),
        up_bias(size.out),
        x(size.batch, size.in) {
    RandomStream random(seed, 4, RandomPurpose::test);
    const Fill fill = which == Codes::any ? Fill::special : Fill::plain;
    gate.fill(random, which), up.fill(random, which), x.fill(random, fill);
    for (std::size_t o = 0; o < size.out; ++o) gate_bias[o] = draw(random, fill), up_bias[o] = draw(random, fill);
  }
  GatedWeights weights(bool with_bias, Activations activations = Activations::float32) const {
    GatedWeights w{gate.view(), up.view(), with_bias ? gate_bias.data() : nullptr,
                   with_bias ? up_bias.data() : nullptr};
    w.gate.activations = w.up.activations = activations;
    return w;
  }
  Matrix run(OpStream& stream, const GatedWeights& w, Activation activation) const {
    Matrix y(x.rows, kGatedBlocks * w.gate.out);
    stream.gated_linear({w, x.view(), activation, y.view()});
    return y;
  }
  CodedMatrix gate, up;
  std::vector<float> gate_bias, up_bias;
  Matrix x;
};

constexpr Size kSizes[] = {{1, 1, 1},   {1, 64, 64}, {1, 35, 100}, {3, 17, 65}, {2, 100, 7},
                           {7, 16, 63}, {5, 3, 0},   {20, 40, 70}, {1, 300, 33}};

double silu(double z) { return z / (1 + std::exp(-z)); }
double silu_slope(double z) {
  const double s = 1 / (1 + std::exp(-z));
  return s * (1 + z * (1 - s));
}

TEST_F(Gated, IsSiluOfOneBranchTimesTheOther) {
  for (const Size& size : kSizes)
    for (const bool with_bias : {false, true}) {
      SCOPED_TRACE(testing::Message() << size << ", bias " << with_bias);
      const Pair pair(size, Encoding(Dtype::float32), Codes::finite, 7);
      CpuStream stream;
      const Matrix y = pair.run(stream, pair.weights(with_bias), Activation::silu);
      const auto sum = [&](const CodedMatrix& w, const std::vector<float>& bias, std::size_t b, std::size_t o) {
        double total = with_bias ? double{bias[o]} : 0, sizes = std::fabs(total);
        for (std::size_t k = 0; k < size.in; ++k) {
          const double product = w.number(w.code(o, k)) * double{pair.x.at(b, k)};
          total += product, sizes += std::fabs(product);
        }
        return std::pair(total, bound(size.in + size.in / 64 + 2, sizes));
      };
      for (std::size_t b = 0; b < size.batch; ++b)
        for (std::size_t o = 0; o < size.out; ++o) {
          const auto [z, z_error] = sum(pair.gate, pair.gate_bias, b, o);
          const auto [u, u_error] = sum(pair.up, pair.up_bias, b, o);
          const double g = silu(z), g_error = 1.1 * z_error + 0x1p-21 * std::fabs(g) + 0x1p-126;  // its slope is < 1.1
          ASSERT_NEAR(y.at(b, o), z, z_error) << b << ", " << o;
          ASSERT_NEAR(y.at(b, size.out + o), g, g_error) << b << ", " << o;
          ASSERT_NEAR(y.at(b, 2 * size.out + o), u, u_error) << b << ", " << o;
          ASSERT_NEAR(y.at(b, 3 * size.out + o), g * u,
                      std::fabs(u) * g_error + (std::fabs(g) + g_error) * u_error + 0x1p-23 * std::fabs(g * u))
              << b << ", " << o;
        }
    }
}

TEST_F(Gated, BackwardIsTheProductsAndTheActivationsSlope) {
  RandomStream random(8, 0, RandomPurpose::test);
  constexpr std::size_t kRows = 3, kOut = 21;
  Matrix values(kRows, kGatedBlocks * kOut), dy(kRows, kOut), dgate(kRows, kOut), dup(kRows, kOut);
  values.fill(random, Fill::plain), dy.fill(random, Fill::plain);
  CpuStream().gated_backward({Activation::silu, values.view(), dy.view(), dgate.view(), dup.view()});
  for (std::size_t b = 0; b < kRows; ++b)
    for (std::size_t o = 0; o < kOut; ++o) {
      const double z = values.at(b, o), g = values.at(b, kOut + o), u = values.at(b, 2 * kOut + o), d = dy.at(b, o);
      EXPECT_EQ(dup.at(b, o), static_cast<float>(d * g));
      const double want = d * u * silu_slope(z);
      EXPECT_NEAR(dgate.at(b, o), want, 0x1p-20 * std::fabs(d * u)) << b << ", " << o;
    }
}

// Every type, gate, instruction set and number of threads has the bits of the scalar path on one thread, which are
// those of two layers and a product.
TEST_F(Gated, HasTheBitsOfItsPartsOneByOne) {
  std::uint64_t seed = 100;
  for (const Encoding& encoding : testing_coded::all_encodings())
    for (const Activations activations : {Activations::int8, Activations::float32}) {
      if (activations == Activations::int8 && !has_integer_kernel(encoding.dtype)) continue;
      for (const Size& size : {kSizes[seed % std::size(kSizes)], Size{9, 70, 130}}) {
        const Activation activation = kGates[seed % std::size(kGates)];
        const Pair pair(size, encoding, seed % 2 ? Codes::any : Codes::finite, seed);
        const GatedWeights w = pair.weights(seed % 3 != 0, activations);
        ++seed;
        ASSERT_TRUE(set_active_isa(Isa::scalar));
        CpuStream plain;
        Matrix expected(size.batch, kGatedBlocks * size.out);
        const auto block = [&](GatedBlock which) { return gated_block(expected.view(), which); };
        plain.linear(
            {w.gate, w.gate_bias, pair.x.view(), activation, block(GatedBlock::before), block(GatedBlock::gate)});
        plain.linear({w.up, w.up_bias, pair.x.view(), Activation::linear, {}, block(GatedBlock::up)});
        plain.binary({BinaryOp::mul, block(GatedBlock::gate), block(GatedBlock::up), block(GatedBlock::product)});
        for (const Isa isa : available_isas()) {
          ASSERT_TRUE(set_active_isa(isa));
          for (const std::size_t count : {1, 2, 7}) {
            Threads threads(count);
            CpuStream stream;
            stream.set_parallel(&threads.parallel);
            EXPECT_TRUE(same_bits(pair.run(stream, w, activation).data, expected.data))
                << to_string(encoding) << ", " << size << ", " << name(activation) << ", " << name(isa) << ", " << count
                << " threads";
          }
        }
      }
    }
}

TEST_F(Gated, BackwardHasTheBitsOfItsPartsOneByOne) {
  RandomStream random(9, 0, RandomPurpose::test);
  for (const std::size_t rows : {1, 3, 20})
    for (const std::size_t out : {1, 16, 77})
      for (const Activation activation : kGates) {
        Matrix values(rows, kGatedBlocks * out), dy(rows, out), want_gate(rows, out), want_up(rows, out);
        values.fill(random, Fill::special), dy.fill(random, Fill::special);
        ASSERT_TRUE(set_active_isa(Isa::scalar));
        CpuStream plain;
        const auto block = [&](GatedBlock which) { return gated_block(ConstMatrixView(values.view()), which); };
        plain.binary({BinaryOp::mul, dy.view(), block(GatedBlock::gate), want_up.view()});
        plain.binary({BinaryOp::mul, dy.view(), block(GatedBlock::up), want_gate.view()});
        plain.unary_backward(
            {activation, block(GatedBlock::before), block(GatedBlock::gate), want_gate.view(), want_gate.view()});
        for (const Isa isa : available_isas()) {
          ASSERT_TRUE(set_active_isa(isa));
          for (const std::size_t count : {1, 2, 7}) {
            Threads threads(count);
            CpuStream stream;
            stream.set_parallel(&threads.parallel);
            Matrix in_place = dy, up(rows, out);  // dgate may stand on dy
            stream.gated_backward({activation, values.view(), in_place.view(), in_place.view(), up.view()});
            EXPECT_TRUE(same_bits(in_place.data, want_gate.data)) << name(activation) << ", " << name(isa);
            EXPECT_TRUE(same_bits(up.data, want_up.data)) << name(activation) << ", " << name(isa);
          }
        }
      }
}

}  // namespace
}  // namespace weft::kernels::gated_test
