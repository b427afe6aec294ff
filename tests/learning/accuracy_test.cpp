// SPDX-License-Identifier: Apache-2.0

// Accuracy of rules on real data, the digits: three seeds, a rate that falls in a straight line. Learning is exact, so
// these figures change only with what is computed; bounds lie 1.6 points below what they were when they were written.

#include "learning/sample_stream.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cstdio>
#include <string>

namespace weft::learning::accuracy_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

constexpr std::uint64_t kSeeds = 3;

/// Networks: the layers of examples/digits.json with an activation, or a shipped example.
mesh::NetworkSpec network(const std::string& called, std::uint64_t seed) {
  if (const auto activation = kernels::parse_activation(called)) return digits_network(seed, *activation);
  const std::string path = source_path("examples/digits_" + called + ".json");
  auto spec = must(mesh::read_network(as_text(must(storage::real_file_system().read(path, 1 << 20))), path));
  spec.seed = seed;
  return spec;
}

/// Mean share of held-out digits that are named right, after so many passes.
double right(const std::string& called, Rule rule, Schedule schedule, std::uint64_t passes) {
  static const Dataset data = digits();
  double mean = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    auto mesh = must(mesh::Mesh::build(network(called, seed), shape()));
    LearningOptions learning{.rule = rule, .schedule = schedule};
    StreamOptions options;
    options.epochs = passes;
    options.seed = seed;
    options.held_out = 0.2;
    learning.rate_schedule.kind = RateScheduleKind::linear;
    learning.rate_schedule.updates = 1438 * passes;
    const auto learner = must(Learner::build(mesh, learning));
    SampleStream stream = must(SampleStream::build(*learner, data, options));
    must(stream.advance(stream.total()));
    must(stream.finish());
    mean += *stream.held_out_accuracy() / static_cast<double>(kSeeds);
  }
  return mean;
}

struct Row {
  std::string network;
  Rule rule;
  std::uint64_t passes;
  double settled, pipelined;  // bounds
};

class Accuracy : public ::testing::TestWithParam<Row> {};

TEST_P(Accuracy, OfHeldOutDigits) {
  const Row& row = GetParam();
  const double settled = right(row.network, row.rule, Schedule::settle, row.passes);
  const double pipelined = right(row.network, row.rule, Schedule::pipelined, row.passes);
  std::printf("%s by %s: %.4f settled, %.4f pipelined\n", row.network.c_str(), std::string(name(row.rule)).c_str(),
              settled, pipelined);
  EXPECT_GE(settled, row.settled);
  EXPECT_GE(pipelined, row.pipelined);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Accuracy,
    ::testing::Values(Row{"tanh", Rule::dtp, 10, 0.947, 0.951},  //
                      Row{"tanh", Rule::sdtp, 10, 0.944, 0.946}, Row{"tanh", Rule::local_ce, 10, 0.954, 0.955},
                      Row{"tanh", Rule::chain, 10, 0.954, 0.95}, Row{"tanh", Rule::gap_difference, 10, 0.952, 0.951},
                      Row{"relu", Rule::fw_dtp, 10, 0.949, 0.952}, Row{"gelu", Rule::fw_dtp, 10, 0.953, 0.956},
                      Row{"relu", Rule::dfa, 10, 0.953, 0.957}, Row{"gelu", Rule::dfa, 10, 0.955, 0.958},
                      Row{"cnn", Rule::fw_dtp, 4, 0.933, 0.935}, Row{"transformer", Rule::fw_dtp, 6, 0.947, 0.951},
                      Row{"gru", Rule::fw_dtp, 10, 0.925, 0.924}),
    [](const auto& row) { return row.param.network + "_" + std::string(name(row.param.rule)); });

}  // namespace
}  // namespace weft::learning::accuracy_test
