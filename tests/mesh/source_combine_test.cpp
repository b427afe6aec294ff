// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/source_combine.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"

#include "testing.hpp"
#include <functional>

namespace weft::mesh::source_combine_test {
namespace {

using kernels::ConstMatrixView;
using namespace testing_support;
using Vector = std::vector<double>;

constexpr std::size_t kRows = 3;

struct Way {
  Combine combine;
  std::vector<std::size_t> widths;
};

Vector combined(Combine combine, const std::vector<Vector>& sources) {
  Vector x;
  if (combine == Combine::concat) {
    for (const Vector& source : sources) x.insert(x.end(), source.begin(), source.end());
    return x;
  }
  for (std::size_t j = 0; j < sources[0].size(); ++j) {
    double sum = 0, largest = -INFINITY;
    for (const Vector& source : sources) sum += source[j], largest = std::max(largest, source[j]);
    if (combine == Combine::add) x.push_back(sum);
    if (combine == Combine::avg) x.push_back(sum / static_cast<double>(sources.size()));
    if (combine == Combine::max) x.push_back(largest);
    if (combine == Combine::gate) x.push_back(sources[0][j] / (1.0 + std::exp(-sources[1][j])));
  }
  return x;
}

std::string port(std::size_t i) { return std::string(1, static_cast<char>('p' + i)); }

/// Ports p, q, ... joined by one identity layer.
NetworkSpec joiner(const Way& way) {
  NetworkBuilder builder("joiner", {1, 1, 1, 1});
  std::vector<Source> sources;
  for (std::size_t i = 0; i < way.widths.size(); ++i) {
    builder.input(port(i), way.widths[i]);
    sources.emplace_back(port(i));
  }
  return builder.layer({0, 0, 0, 0}, "identity").from(sources, way.combine).spec();
}

class EveryCombine : public testing::TestWithParam<Way> {};

TEST_P(EveryCombine, JoinsSourcesInATick) {
  Mesh mesh = must(Mesh::build(joiner(GetParam()), {.threads = 1, .sessions = kRows}));
  std::vector<std::vector<Vector>> sources(kRows);
  for (std::size_t b = 0; b < kRows; ++b)
    for (std::size_t i = 0; i < GetParam().widths.size(); ++i) {
      const auto values = noise(GetParam().widths[i], 100 * b + i);
      must(mesh.set_input(port(i), values, b));
      sources[b].emplace_back(values.begin(), values.end());
    }
  must(mesh.tick());
  for (std::size_t b = 0; b < kRows; ++b) {
    const auto got = output_of(mesh, {0, 0, 0, 0}, b);
    const Vector want = combined(GetParam().combine, sources[b]);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t j = 0; j < got.size(); ++j)
      EXPECT_NEAR(got[j], want[j], 1e-6) << "session " << b << ", value " << j;
  }
}

TEST_P(EveryCombine, SplitsTheGradientAsFiniteDifferencesDo) {
  const Graph graph = must(Graph::build(joiner(GetParam())));
  const Node& node = graph.nodes().back();
  const kernels::FlushSubnormals exact;
  kernels::CpuStream stream;
  std::vector<std::vector<float>> sources;
  for (std::size_t i = 0; i < GetParam().widths.size(); ++i)
    sources.push_back(noise(kRows * GetParam().widths[i], 7 + i));
  const auto source_of = [&](const Edge& edge) {
    return ConstMatrixView{sources[edge.from].data(), kRows, edge.width, edge.width};
  };
  std::vector<float> x(kRows * node.in), scratch(kRows * node.in);
  const auto rows = [&](std::vector<float>& v, std::size_t width) {
    return kernels::MatrixView{v.data(), kRows, width, width};
  };
  combine_sources(stream, graph, node, source_of, rows(x, node.in));
  const std::vector<float> down = noise(kRows * node.in, 99);
  std::vector<float> dx = down;
  for (const std::uint32_t e : node.sources) {
    const Edge& edge = graph.edges()[e];
    std::vector<float> got(kRows * edge.width, NAN);
    split_gradient(stream, graph, node, edge, source_of, rows(x, node.in), rows(dx, node.in), rows(scratch, node.in),
                   rows(got, edge.width));
    for (std::size_t b = 0; b < kRows; ++b)
      for (std::size_t j = 0; j < edge.width; ++j) {
        std::vector<Vector> wide;
        for (std::size_t i = 0; i < sources.size(); ++i) {
          const float* row = sources[i].data() + b * GetParam().widths[i];
          wide.emplace_back(row, row + GetParam().widths[i]);
        }
        const auto loss = [&] {
          const Vector joined = combined(GetParam().combine, wide);
          double sum = 0;
          for (std::size_t k = 0; k < joined.size(); ++k) sum += down[b * node.in + k] * joined[k];
          return sum;
        };
        double& value = wide[edge.position][j];
        const double kept = value;
        value = kept + 1e-6;
        const double above = loss();
        value = kept - 1e-6;
        const double want = (above - loss()) / 2e-6;
        EXPECT_NEAR(got[b * edge.width + j], want, 1e-6)
            << "source " << edge.position << ", row " << b << ", value " << j;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryCombine,
                         testing::Values(Way{Combine::concat, {5, 17, 1}}, Way{Combine::add, {7, 7, 7}},
                                         Way{Combine::avg, {17, 17, 17}}, Way{Combine::max, {33, 33, 33}},
                                         Way{Combine::gate, {19, 19}}, Way{Combine::avg, {5, 5}}),
                         [](const auto& tested) {
                           return std::string(name(tested.param.combine)) + std::to_string(tested.param.widths[0]);
                         });

TEST(Combine, GivesTheGradientOfTiedMaximaToTheFirstSourceThatHoldsThem) {
  const Graph graph = must(Graph::build(joiner({Combine::max, {4, 4, 4}})));
  const Node& node = graph.nodes().back();
  const kernels::FlushSubnormals exact;
  kernels::CpuStream stream;
  const std::vector<float> sources[] = {{1, 2, 0.0f, 5}, {1, 3, -0.0f, 5}, {0, 3, -1, 5}};
  const auto source_of = [&](const Edge& edge) { return ConstMatrixView{sources[edge.from].data(), 1, 4, 4}; };
  std::vector<float> x(4), dx{10, 20, 30, 40}, got(4);
  combine_sources(stream, graph, node, source_of, {x.data(), 1, 4, 4});
  const std::vector<float> want[] = {{10, 0, 30, 40}, {0, 20, 0, 0}, {0, 0, 0, 0}};
  for (std::size_t i = 0; i < 3; ++i) {
    split_gradient(stream, graph, node, graph.edges()[node.sources[i]], source_of, ConstMatrixView{x.data(), 1, 4, 4},
                   {dx.data(), 1, 4, 4}, {}, {got.data(), 1, 4, 4});
    EXPECT_EQ(got, want[i]) << "source " << i;
  }
}

TEST(Combine, TakesTheSameSourceTwice) {
  Mesh mesh = must(Mesh::build(
      NetworkBuilder("twice", {1, 1, 1, 1}).input("in", 2).layer({0, 0, 0, 0}, "residual").from({"in", "in"}).spec()));
  must(mesh.set_input("in", std::vector<float>{1.5f, -2.0f}));
  must(mesh.tick());
  EXPECT_EQ(output_of(mesh, {0, 0, 0, 0}), (std::vector<float>{3.0f, -4.0f}));
}

}  // namespace
}  // namespace weft::mesh::source_combine_test
