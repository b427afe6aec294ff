// SPDX-License-Identifier: Apache-2.0
// Linear layers of sizes that other shaders compute. Each operation on smaller ones: op_cases_test.cpp.

#include "tests/gpu/gpu_testing.hpp"

namespace weft::gpu::stream_linear_test {
namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::ConstPanels;
using kernels::testing_ops::At;

struct Size {
  std::size_t batch, out, in;
};
std::string text(const Size& s) {
  return "batch " + std::to_string(s.batch) + ", out " + std::to_string(s.out) + ", in " + std::to_string(s.in);
}

// As equal cells of a mesh are: many pairs a step apart in one dispatch, some of them sharing a group.
TEST(StreamLinear, ManyGatedPairsInAProgramHaveTheCpusBits) {
  constexpr std::size_t kPairs = 70;
  for (const Size& s : {Size{1, 20, 24}, Size{2, 44, 64}, Size{1, 96, 200}, Size{6, 36, 40}}) {
    Operands o(10, false);
    const std::size_t weights = kernels::panels_size(s.out, s.in), values = 4 * s.out * s.batch;
    float* const w = o.values(2 * kPairs * weights);
    for (std::size_t i = 0; i < 2 * kPairs * weights; i += weights)  // padding
      for (std::size_t at = s.out; at < weights / s.in; ++at)
        for (std::size_t k = 0; k < s.in; ++k) w[i + kernels::panel_index(s.in, at, k)] = 0.0f;
    const float *const bias = o.values(2 * kPairs * s.out), *const x = o.values(kPairs * s.batch * s.in);
    float* const y = o.values(kPairs * values);
    expect_cpus_bits(o.chain("gated pairs, " + text(s), [=](OpStream& stream, const At& at) {
      for (std::size_t i = 0; i < kPairs; ++i) {
        const float *const gate = at(w) + 2 * i * weights, *const of_gate = at(bias) + 2 * i * s.out;
        stream.gated_linear(
            {{ConstPanels{gate, s.out, s.in}, ConstPanels{gate + weights, s.out, s.in}, of_gate, of_gate + s.out},
             {at(x) + i * s.batch * s.in, s.batch, s.in, s.in},
             Activation::silu,
             {at(y) + i * values, s.batch, 4 * s.out, 4 * s.out}});
      }
    }));
  }
}

// A hundred tiles of 128 by 128 and more are worked through by other text than fewer.
TEST(StreamLinear, LargeTilesHaveTheCpusBits) {
  for (const std::size_t in : {71, 16}) {
    Operands o(8, false);
    const ConstPanels w = o.panels(1283, in);
    const MatrixView x = o.matrix(1270, in);
    expect_cpus_bits(o.make("", kernels::ops::Linear{w, nullptr, x, Activation::linear, {}, o.matrix(1270, 1283)}));
  }
  Operands gated(9, false);  // both matrices of a pair in each tile
  const ConstPanels gate = gated.panels(645, 71), up = gated.panels(645, 71);
  const MatrixView x = gated.matrix(1270, 71), y = gated.matrix(1270, kernels::kGatedBlocks * 645);
  expect_cpus_bits(gated.make("", kernels::ops::GatedLinear{{gate, up, nullptr, nullptr}, x, Activation::relu, y}));
  Operands outer(11, false);
  const MatrixView dy = outer.matrix(21, 1283), of = outer.matrix(21, 1270);
  expect_cpus_bits(outer.make("", kernels::ops::OuterAccumulate{dy, of, outer.panels(1283, 1270)}));
}

// From sixteen tiles and four chunks of inputs on, four chunks are summed at once: whole rounds of them, then what is
// left, with a last chunk that is not full.
TEST(StreamLinear, FourChunksAtOnceHaveTheCpusBits) {
  std::size_t seed = 20;
  for (const std::size_t in : {256, 335, 840})
    for (const Encoding& encoding : {Encoding(Dtype::float32), Encoding(Dtype::bfloat16), Encoding(Dtype::uint4)}) {
      if (encoding.dtype != Dtype::float32 && in != 335) continue;
      Operands o(++seed, in == 335);
      const std::size_t rows = 260, out = 258, aligned = in % 4 == 0 ? 4 : 5;  // gaps between rows
      const kernels::ConstWeight w = o.weight(encoding, out, in, Activations::float32);
      const float* const bias = o.values(out);
      const MatrixView x = o.matrix(rows, in, aligned);
      const std::string what = ", in " + std::to_string(in) + ", " + to_string(encoding);
      expect_cpus_bits(o.make(what, kernels::ops::Linear{w, bias, x, Activation::relu, {}, o.matrix(rows, out, 2)}),
                       encoding.dtype == Dtype::float32);
    }
  Operands gated(30, false);
  const ConstPanels gate = gated.panels(130, 335), up = gated.panels(130, 335);
  const MatrixView x = gated.matrix(260, 335), y = gated.matrix(260, kernels::kGatedBlocks * 130);
  expect_cpus_bits(gated.make("", kernels::ops::GatedLinear{{gate, up, nullptr, nullptr}, x, Activation::relu, y}));
}

// A hundred tiles of many rows and outputs: lanes of which the last ones have an output less, zeros of either sign.
TEST(StreamLinear, LargeTransposedTilesHaveTheCpusBits) {
  for (const bool is_special : {false, true}) {
    Operands o(is_special ? 31 : 32, is_special);
    const std::size_t rows = 290, out = is_special ? 515 : 512, in = 330;
    const MatrixView dy = o.matrix(rows, out, is_special ? 5 : 4);
    const ConstPanels w = o.panels(out, in);
    expect_cpus_bits(o.make("", kernels::ops::LinearTransposed{w, dy, o.matrix(rows, in, 2)}), is_special);
  }
}

// A layer of at most 16 outputs, as classifiers end in.
TEST(StreamLinear, TransposedPanelsHaveTheCpusBits) {
  for (const std::size_t out : {1, 10, 16})
    for (const Encoding& encoding : {Encoding(Dtype::float32), Encoding(Dtype::int4)}) {
      Operands o(40 + out, out != 16);
      const kernels::ConstWeight w = o.weight(encoding, out, 270, Activations::float32);
      const MatrixView dy = o.matrix(19, out);
      const std::string what = ", out " + std::to_string(out) + ", " + to_string(encoding);
      expect_cpus_bits(o.make(what, kernels::ops::LinearTransposed{w, dy, o.matrix(19, 270)}));
    }
}

// Weights that exceed what a device binds at once (lavapipe: 128 MiB): operands are addresses, so no range ends in
// them.
TEST(StreamLinear, WeightsBeyondABoundRangeHaveTheCpusBits) {
  const Size s{1, 16400, 2100};
  if (device().info().kind == "cpu") {
    ASSERT_GT(kernels::panels_size(s.out, s.in) * sizeof(float), device().info().max_storage_range);
  }
  Operands o(11, false);
  const kernels::Panels w = o.panels(s.out, s.in);
  const MatrixView x = o.matrix(s.batch, s.in), y = o.matrix(s.batch, s.out), dx = o.matrix(s.batch, s.in);
  expect_cpus_bits(o.chain(text(s),
                           [=](OpStream& stream, const At& at) {
                             stream.linear({ConstPanels(at(w)), nullptr, at(x), Activation::tanh, {}, at(y)});
                             stream.linear_transposed({ConstPanels(at(w)), at(y), at(dx)});
                           }),
                   false);
}

}  // namespace
}  // namespace weft::gpu::stream_linear_test
