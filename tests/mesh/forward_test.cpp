// SPDX-License-Identifier: Apache-2.0

// Passes over many rows and runs of many ticks: on every number of threads, in parts of bounded memory, to the same
// bits.

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/runtime/internal/combinational.hpp"
#include "mesh/runtime/internal/time_series.hpp"
#include "mesh/weights/weight_store.hpp"

#include <gtest/gtest.h>

#include "testing.hpp"
#include <limits>
#include <string>
#include <vector>

namespace weft::mesh::forward_test {
namespace {

using namespace testing_support;
using kernels::Activation;

MeshOptions shape(std::size_t threads, bool is_wide = false) {
  MeshOptions options;
  options.threads = threads;
  options.grain_bytes = 0;
  options.pin = false;
  if (is_wide) options.wide = true;
  return options;
}

/// Attention, a norm, a hidden state, a loop and noise, which is numbered by rows.
NetworkSpec network() {
  return NetworkBuilder("rows", GridShape{1, 1, 6, 1})
      .input("x", 24)
      .layer({0, 0, 0, 0}, "attention")
      .option("heads", 2.0)
      .view({4, 6})
      .dense({0, 0, 1, 0}, 70, Activation::silu)
      .view({24})
      .layer({0, 0, 2, 0}, "gru", 19)
      .layer({0, 0, 3, 0}, "softmax")
      .option("kind", std::string("gumbel"))
      .dense({0, 0, 4, 0}, 8, Activation::tanh)
      .from({Coord{0, 0, 3, 0}, Coord{0, 0, 5, 0}})
      .layer({0, 0, 5, 0}, "leaky_integrator")
      .output("y", {0, 0, 4, 0})
      .output("noisy", {0, 0, 3, 0})
      .seed(4)
      .spec();
}

TEST(Passes, GiveTheSameBitsOnAnyNumberOfThreads) {
  constexpr std::size_t kRows = 333;
  const auto x = noise(kRows * 24, 7);
  std::vector<float> first;
  for (const bool is_wide : {false, true})
    for (const std::size_t threads : {1, 2, 7}) {
      const auto mesh = Mesh::build(network(), shape(threads, is_wide));
      ASSERT_TRUE(mesh) << mesh.error().text();
      for (const std::size_t rows : {std::size_t{1}, std::size_t{9}, std::size_t{64}, std::size_t{65}, kRows}) {
        std::vector<float> y(rows * 8), noisy(rows * 19);
        const RunInput input{"x", std::span(x).first(rows * 24)};
        const RunOutput outputs[] = {{"y", y}, {"noisy", noisy}};
        ASSERT_TRUE(mesh->forward({&input, 1}, rows, outputs));
        if (rows != kRows) {
          // A row does not depend on those behind it.
          if (!first.empty()) EXPECT_TRUE(std::equal(y.begin(), y.end(), first.begin())) << threads << " " << rows;
          continue;
        }
        y.insert(y.end(), noisy.begin(), noisy.end());
        if (first.empty()) first = y;
        EXPECT_EQ(y, first) << threads << (is_wide ? " wide" : "");
      }
    }
}

TEST(Passes, NameTheFirstLayerThatIsNotFiniteWhateverPartItIsIn) {
  const auto spec = NetworkBuilder("faults", GridShape{1, 1, 2, 1})
                        .input("x", 2)
                        .dense({0, 0, 0, 0}, 2)
                        .dense({0, 0, 1, 0}, 2)
                        .output("y", {0, 0, 1, 0})
                        .spec();
  for (const std::size_t threads : {1, 3}) {
    auto mesh = Mesh::build(spec, shape(threads));
    // The second layer overflows at rows of 1, the first at 3e38: that one stands far behind.
    WeightStore& store = MeshAccess::weights(*mesh);
    const auto set = [&](Coord at, const std::vector<float>& values) {
      must(store.write(store.parameters()[store.first(*mesh->graph().find_layer(at))], values, "weight"));
    };
    set({0, 0, 0, 0}, {2, 2, 2, 2});
    set({0, 0, 1, 0}, {3e38f, 3e38f, 0, 0});
    constexpr std::size_t kRows = 400;
    std::vector<float> x(kRows * 2, 1.0f), y(kRows * 2);
    x[2 * 390] = x[2 * 390 + 1] = 3e38f;
    const RunInput input{"x", x};
    const RunOutput output{"y", y};
    const Status done = mesh->forward({&input, 1}, kRows, {&output, 1});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), Errc::not_finite);
    EXPECT_NE(done.error().text().find("layers[0]"), std::string::npos) << done.error().text();
  }
}

TEST(Passes, TakeBoundedMemoryHoweverManyRowsThereAre) {
  // 4,000 floats a row and layer: 64 rows of 40 layers, twice, would take 82 MB.
  NetworkBuilder builder("broad", GridShape{1, 1, 40, 1});
  builder.input("x", 4000);
  for (std::uint32_t i = 0; i < 40; ++i) builder.layer({0, 0, i, 0}, "activation");
  const Graph graph = must(Graph::build(builder.output("y", {0, 0, 39, 0}).spec()));
  for (const std::size_t threads : {1, 4}) {
    const std::size_t rows = internal::pass_rows(graph, 1000000, threads);
    EXPECT_GE(rows, 1u);
    EXPECT_LE(threads * internal::TimeSeries::bytes_for(graph, 2 * rows, rows), internal::kPassBytes);
    EXPECT_GT(threads * internal::TimeSeries::bytes_for(graph, 2 * (rows + 1), rows + 1), internal::kPassBytes);
  }
  const Graph small = must(Graph::build(network()));
  EXPECT_EQ(internal::pass_rows(small, 1000000, 2), 64u);
  EXPECT_EQ(internal::pass_rows(small, 40, 2), 20u);
  EXPECT_EQ(internal::pass_rows(small, 3, 2), 3u);
}

TEST(Runs, GiveTheSameBitsOnAnyNumberOfThreads) {
  // Products that are worth a handover: 64 rows of 512 x 512.
  const auto spec = NetworkBuilder("wide", GridShape{1, 1, 3, 1})
                        .input("x", 512)
                        .dense({0, 0, 0, 0}, 512, Activation::gelu)
                        .layer({0, 0, 1, 0}, "gru", 64)
                        .dense({0, 0, 2, 0}, 512, Activation::tanh)
                        .output("y", {0, 0, 2, 0})
                        .seed(5)
                        .spec();
  constexpr std::uint64_t kTicks = 150;
  const auto x = noise(kTicks * 512, 3);
  std::vector<float> first;
  std::string hash;
  for (const bool is_wide : {false, true})
    for (const std::size_t threads : {1, 2, 7}) {
      auto mesh = Mesh::build(spec, shape(threads, is_wide));
      std::vector<float> y(kTicks * 512);
      const RunInput input{"x", x};
      const RunOutput output{"y", y};
      ASSERT_TRUE(mesh->run({&input, 1}, kTicks, {&output, 1}));
      if (first.empty()) first = y, hash = to_string(mesh->state_hash());
      EXPECT_EQ(y, first) << threads;
      EXPECT_EQ(to_string(mesh->state_hash()), hash) << threads;
    }
}

}  // namespace
}  // namespace weft::mesh::forward_test
