// SPDX-License-Identifier: Apache-2.0
// Linear layers of sizes that other shaders compute. Each operation on smaller ones: op_cases_test.cpp.

#include "tests/gpu/gpu_testing.hpp"

namespace weft::gpu::stream_linear_test {
namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::ConstPanels;

struct Size {
  std::size_t batch, out, in;
};
std::string text(const Size& s) {
  return "batch " + std::to_string(s.batch) + ", out " + std::to_string(s.out) + ", in " + std::to_string(s.in);
}

// As equal cells of a mesh are: many pairs a step apart in one dispatch, some of them sharing a group.
TEST(StreamLinear, ManyGatedPairsInAProgramHaveTheCpusBits) {
  RandomStream random(10, 0, RandomPurpose::test);
  constexpr std::size_t kPairs = 70;
  for (const Size& s : {Size{1, 20, 24}, Size{2, 44, 64}, Size{1, 96, 200}, Size{6, 36, 40}}) {
    Comparison c;
    const std::size_t weights = kernels::panels_size(s.out, s.in), values = 4 * s.out * s.batch;
    std::vector<float> all;
    for (std::size_t i = 0; i < 2 * kPairs; ++i) {
      const auto one = draw_panels(random, s.out, s.in, false);
      all.insert(all.end(), one.begin(), one.end());
    }
    const auto w = c.add(all), bias = c.add(draw(random, 2 * kPairs * s.out, false)),
               x = c.add(draw(random, kPairs * s.batch * s.in, false)), y = c.add(draw(random, kPairs * values, false));
    c.expect_same("gated pairs, " + text(s), [&](OpStream& stream, const auto& at) {
      for (std::size_t i = 0; i < kPairs; ++i) {
        const float *const gate = at.data(w) + 2 * i * weights, *const of_gate = at.data(bias) + 2 * i * s.out;
        stream.gated_linear(
            {{ConstPanels{gate, s.out, s.in}, ConstPanels{gate + weights, s.out, s.in}, of_gate, of_gate + s.out},
             {at.data(x) + i * s.batch * s.in, s.batch, s.in, s.in},
             Activation::silu,
             {at.data(y) + i * values, s.batch, 4 * s.out, 4 * s.out}});
      }
    });
  }
}

// A hundred tiles of 128 by 128 and more are worked through by other text than fewer.
TEST(StreamLinear, LargeTilesHaveTheCpusBits) {
  RandomStream random(8, 0, RandomPurpose::test);
  for (const std::size_t in : {71, 16}) {
    const Size s{1270, 1283, in};
    Comparison c;
    const auto w = c.add(draw_panels(random, s.out, s.in, false));
    const auto x = c.add(draw_matrix(random, s.batch, s.in, false));
    const auto y = c.add(draw_matrix(random, s.batch, s.out, false));
    c.expect_same("linear, " + text(s), [&](OpStream& stream, const auto& at) {
      stream.linear({ConstPanels{at.data(w), s.out, s.in}, nullptr, at.rows(x), Activation::linear, {}, at.rows(y)});
    });
  }
  {
    const Size s{1270, 645, 71};  // both matrices of a pair in each tile
    Comparison c;
    const auto gate = c.add(draw_panels(random, s.out, s.in, false)),
               up = c.add(draw_panels(random, s.out, s.in, false));
    const auto x = c.add(draw_matrix(random, s.batch, s.in, false)),
               y = c.add(draw_matrix(random, s.batch, kernels::kGatedBlocks * s.out, false));
    c.expect_same("gated, " + text(s), [&](OpStream& stream, const auto& at) {
      stream.gated_linear(
          {{ConstPanels{at.data(gate), s.out, s.in}, ConstPanels{at.data(up), s.out, s.in}, nullptr, nullptr},
           at.rows(x),
           Activation::relu,
           at.rows(y)});
    });
  }
  const Size s{21, 1283, 1270};
  Comparison c;
  const auto dw = c.add(draw_panels(random, s.out, s.in, false));
  const auto dy = c.add(draw_matrix(random, s.batch, s.out, false));
  const auto x = c.add(draw_matrix(random, s.batch, s.in, false));
  c.expect_same("outer_accumulate, " + text(s), [&](OpStream& stream, const auto& at) {
    stream.outer_accumulate({at.rows(dy), at.rows(x), {at.data(dw), s.out, s.in}});
  });
}

// Weights that exceed what a device binds at once (lavapipe: 128 MiB): operands are addresses, so no range ends in
// them.
TEST(StreamLinear, WeightsBeyondABoundRangeHaveTheCpusBits) {
  RandomStream random(11, 0, RandomPurpose::test);
  const Size s{1, 16400, 2100};
  if (device().info().kind == "cpu") {
    ASSERT_GT(kernels::panels_size(s.out, s.in) * sizeof(float), device().info().max_storage_range);
  }
  Comparison c;
  const auto w = c.add(draw_panels(random, s.out, s.in, false));
  const auto x = c.add(draw_matrix(random, s.batch, s.in, false)),
             y = c.add(draw_matrix(random, s.batch, s.out, false)),
             dx = c.add(draw_matrix(random, s.batch, s.in, false));
  c.expect_same(
      text(s),
      [&](OpStream& stream, const auto& at) {
        const ConstPanels panels{at.data(w), s.out, s.in};
        stream.linear({panels, nullptr, at.rows(x), Activation::tanh, {}, at.rows(y)});
        stream.linear_transposed({panels, at.rows(y), at.rows(dx)});
      },
      false);
}

// One result for a row, whatever stands beside it in the batch: another shader runs from five rows on.
TEST(StreamLinear, ARowsBitsDoNotDependOnItsBatch) {
  RandomStream random(7, 0, RandomPurpose::test);
  constexpr std::size_t kBatch = 9, kOut = 50, kIn = 300;
  auto stream = device().make_stream();
  ASSERT_TRUE(stream);
  const auto on_device = [&](const std::vector<float>& values) {
    auto buffer = device().memory().allocate(values.size() * sizeof(float), "values");
    EXPECT_TRUE(buffer);
    (*stream)->upload(values.data(), values.size() * sizeof(float), buffer->data());
    return std::move(*buffer);
  };
  const Buffer w = on_device(draw_panels(random, kOut, kIn, false)), x = on_device(draw(random, kBatch * kIn, false)),
               together = on_device(std::vector<float>(kBatch * kOut)),
               alone = on_device(std::vector<float>(kBatch * kOut, 1.0f));
  const ConstPanels weight{w.data(), kOut, kIn};
  (*stream)->linear(
      {weight, nullptr, {x.data(), kBatch, kIn, kIn}, Activation::tanh, {}, {together.data(), kBatch, kOut, kOut}});
  for (std::size_t b = 0; b < kBatch; ++b)
    (*stream)->linear({weight,
                       nullptr,
                       {x.data() + b * kIn, 1, kIn, kIn},
                       Activation::tanh,
                       {},
                       {alone.data() + b * kOut, 1, kOut, kOut}});
  std::vector<float> one(kBatch * kOut), other(kBatch * kOut);
  ASSERT_TRUE((*stream)->download(together.data(), one.size() * sizeof(float), one.data()));
  ASSERT_TRUE((*stream)->download(alone.data(), other.size() * sizeof(float), other.data()));
  kernels::testing_support::expect_same_bits(one, other, "a row alone");
}

}  // namespace
}  // namespace weft::gpu::stream_linear_test
