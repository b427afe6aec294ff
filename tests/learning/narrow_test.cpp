// SPDX-License-Identifier: Apache-2.0

// Activations and errors in narrow types: what is computed, against binary64 written apart, and what memory it takes.
// The same bits on every machine shape, through files and snapshots, beside a device: cases.cpp.

#include "learning/memory_estimate.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/runtime/state.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace weft::learning::narrow_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

/// A rounding in binary64: the quantum at |x| / 2^e by the format's exponent and mantissa, then nearbyint, ties to
/// even.
struct Format {
  Dtype dtype;
  double largest;
  int mantissa, least_exponent;  // of normal numbers; mantissa < 0: integers
  bool has_scale;
};
constexpr Format kFormats[] = {{Dtype::bfloat16, 0x1.fep127, 7, -126, false},
                               {Dtype::fp8_e4m3, 448, 3, -6, true},
                               {Dtype::fp8_e5m2, 57344, 2, -14, true},
                               {Dtype::int8, 127, -1, 0, true}};

using Row = std::vector<double>;

Row rounded(Dtype dtype, Row row) {
  if (dtype == Dtype::float32) return row;
  const Format& format =
      *std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& each) { return each.dtype == dtype; });
  double most = 0;
  for (const double x : row) most = std::max(most, std::abs(x));
  const int e = format.has_scale && most > 0 ? static_cast<int>(std::ceil(std::log2(most / format.largest))) : 0;
  for (double& x : row) {
    const double scaled = std::ldexp(x, -e);
    double quantum = 1;
    if (format.mantissa >= 0 && scaled != 0)
      quantum = std::ldexp(1.0, std::max(std::ilogb(scaled), format.least_exponent) - format.mantissa);
    x = std::ldexp(std::nearbyint(scaled / quantum) * quantum, e);
  }
  return row;
}

struct Layer {
  std::size_t out, in;
  Row w, b, x, y;
};

/// A chain of tanh layers and a linear one, and its gradient of the mean square, one sample an update.
struct Reference {
  std::vector<Layer> layers;
  Dtype outputs, errors;

  Row forward(Row x) {
    for (std::size_t l = 0; l < layers.size(); ++l) {
      Layer& layer = layers[l];
      layer.x = rounded(outputs, x);  // what is kept of it
      Row y(layer.out);
      for (std::size_t o = 0; o < layer.out; ++o) {
        double sum = layer.b[o];
        for (std::size_t k = 0; k < layer.in; ++k) sum += layer.w[o * layer.in + k] * x[k];
        y[o] = l + 1 < layers.size() ? std::tanh(sum) : sum;
      }
      x = layer.y = rounded(outputs, y);
    }
    return x;
  }
  void learn(const Row& x, const Row& wanted, double lr) {
    Row error = forward(x);
    for (std::size_t i = 0; i < error.size(); ++i)
      error[i] = 2 * (error[i] - wanted[i]) / static_cast<double>(error.size());
    for (std::size_t l = layers.size(); l-- > 0;) {
      Layer& layer = layers[l];
      error = rounded(errors, error);
      Row back(layer.in, 0);
      for (std::size_t o = 0; o < layer.out; ++o) {
        const double slope = l + 1 < layers.size() ? 1 - layer.y[o] * layer.y[o] : 1, d = error[o] * slope;
        for (std::size_t k = 0; k < layer.in; ++k) {
          back[k] += layer.w[o * layer.in + k] * d;
          layer.w[o * layer.in + k] -= lr * d * layer.x[k];
        }
        layer.b[o] -= lr * d;
      }
      error = back;
    }
  }
};

mesh::NetworkSpec chain(Dtype outputs, Dtype errors, std::size_t hidden = 2, std::uint32_t width = 9) {
  mesh::NetworkBuilder builder("narrow", {1, 1, static_cast<std::uint32_t>(hidden) + 1, 1});
  builder.input("x", 6);
  for (std::uint32_t i = 0; i <= hidden; ++i)
    builder
        .dense({0, 0, i, 0}, i < hidden ? width : 3,
               i < hidden ? kernels::Activation::tanh : kernels::Activation::linear)
        .activation_dtype(outputs)
        .gradient_dtype(errors);
  return builder.output("y", {0, 0, static_cast<std::uint32_t>(hidden), 0}).seed(5).spec();
}

constexpr std::array kPairs{std::pair{Dtype::bfloat16, Dtype::bfloat16}, std::pair{Dtype::fp8_e4m3, Dtype::fp8_e5m2},
                            std::pair{Dtype::int8, Dtype::int8}, std::pair{Dtype::float32, Dtype::fp8_e5m2},
                            std::pair{Dtype::int8, Dtype::float32}};

TEST(Narrow, LearnsWhatBinary64SaysThatRoundsAlike) {
  for (const auto& [outputs, errors] : kPairs) {
    LearningRun run(chain(outputs, errors),
                    {.loss = Loss::mse, .optimizer = {.kind = OptimizerKind::sgd, .lr = 0.25f}});
    Reference reference{{}, outputs, errors};
    for (std::uint32_t i = 0; i < 3; ++i) {
      const auto all = run.weights({0, 0, i, 0});
      const std::size_t out = all[1].size(), in = all[0].size() / out;
      reference.layers.push_back({out, in, {all[0].begin(), all[0].end()}, {all[1].begin(), all[1].end()}, {}, {}});
    }
    for (std::uint64_t s = 0; s < 12; ++s) {
      const auto x = noise(6, 100 + s), wanted = noise(3, 200 + s);
      run.train(x, {}, wanted);
      reference.learn({x.begin(), x.end()}, {wanted.begin(), wanted.end()}, 0.25);
    }
    for (std::uint32_t i = 0; i < 3; ++i) {
      const auto all = run.weights({0, 0, i, 0});
      for (std::size_t j = 0; j < all[0].size(); ++j)
        ASSERT_NEAR(all[0][j], reference.layers[i].w[j], 2e-6) << name(outputs) << " layer " << i << " weight " << j;
      for (std::size_t j = 0; j < all[1].size(); ++j) ASSERT_NEAR(all[1][j], reference.layers[i].b[j], 2e-6);
    }
  }
}

// One layer, whose output every way of computing it rounds.
TEST(Narrow, OutputsAreRoundedHoweverTheyAreComputed) {
  for (const auto& [outputs, errors] : kPairs) {
    mesh::Mesh plain = must(mesh::Mesh::build(chain(Dtype::float32, Dtype::float32, 0), shape()));
    mesh::Mesh mesh = must(mesh::Mesh::build(chain(outputs, errors, 0), shape()));
    const auto x = noise(6, 3);
    must(plain.set_input("x", x));
    must(mesh.set_input("x", x));
    must(plain.tick());
    must(mesh.tick());
    const auto exact = must(plain.output("y"));
    const Row wanted = rounded(outputs, {exact.begin(), exact.end()});
    std::vector<float> pass(3), many(6);
    const mesh::RunInput input{"x", x};
    const mesh::RunOutput output{"y", pass};
    must(mesh.forward({&input, 1}, 1, {&output, 1}));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(static_cast<double>(must(mesh.output("y"))[i]), wanted[i]) << name(outputs);
      EXPECT_EQ(static_cast<double>(pass[i]), wanted[i]) << name(outputs);
    }
  }
}

std::uint64_t history_bytes(const mesh::NetworkSpec& spec, const LearningOptions& options) {
  const auto graph = must(mesh::Graph::build(spec));
  for (const auto& [name, bytes] : must(estimate_memory(graph, with_defaults(options), 1, UINT64_MAX)).parts)
    if (name == "history") return bytes;
  return 0;
}

// Sixteen layers of 512: what is kept of the past takes the bytes of its type, and a few ticks of float32.
TEST(Narrow, ThePastTakesTheBytesOfItsType) {
  for (const Schedule schedule : {Schedule::pipelined, Schedule::settle}) {
    const LearningOptions options{.schedule = schedule};
    const auto bytes = [&](Dtype dtype) { return history_bytes(chain(dtype, dtype, 16, 512), options); };
    const std::uint64_t plain = bytes(Dtype::float32), half = bytes(Dtype::bfloat16), small = bytes(Dtype::fp8_e4m3);
    EXPECT_LT(half, plain * (schedule == Schedule::pipelined ? 0.55 : 0.8)) << plain << " " << half;
    EXPECT_LT(small, plain * (schedule == Schedule::pipelined ? 0.36 : 0.65)) << plain << " " << small;
    EXPECT_EQ(bytes(Dtype::int8), small);
    // The rings are really short: as the state says that is there.
    LearningRun run(chain(Dtype::int8, Dtype::int8, 16, 512), options);
    LearningRun wide(chain(Dtype::float32, Dtype::float32, 16, 512), options);
    const auto rings = [](const LearningRun& of) { return mesh::MeshAccess::state(std::as_const(*of.mesh)).bytes(); };
    EXPECT_LE(rings(run), small);
    EXPECT_LT(rings(run), rings(wide) * (schedule == Schedule::pipelined ? 0.2 : 1.01));
  }
}

TEST(Narrow, OtherTypesAreRefusedByName) {
  auto spec = chain(Dtype::float32, Dtype::float32);
  spec.layers[1].activation_dtype = Dtype::int4;
  const auto refused = mesh::Graph::build(spec);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("activation_dtype"), std::string::npos) << refused.error().text();
  EXPECT_NE(refused.error().text().find("int4 is no type that values are rounded to; give float32, bfloat16, float16, "
                                        "fp8_e4m3, fp8_e5m2, int8"),
            std::string::npos)
      << refused.error().text();
  const auto read = mesh::read_network(R"({"weft": 2, "inputs": {"x": [2]}, "chain": [
    {"type": "dense", "out": 2, "gradient_dtype": "fp4"}]})",
                                       "n");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().text().find("gradient_dtype"), std::string::npos) << read.error().text();
}

}  // namespace
}  // namespace weft::learning::narrow_test
