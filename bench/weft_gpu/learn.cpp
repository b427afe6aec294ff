// SPDX-License-Identifier: Apache-2.0

#include "learning/learner.hpp"

#include "mesh/device/device_statistics.hpp"
#include "mesh/mesh.hpp"

#include "core/philox.hpp"

#include "bench/weft_gpu/gpu_bench.hpp"
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace weft::bench {
namespace {

/// Of a step: each weight multiplies forwards and for its own gradient, and those behind the first layer for that of
/// their inputs; weights are read and written once, and inputs read.
double least_of_mlp(const GpuBench& bench) {
  const double batch = static_cast<double>(bench.sizes.batch), n = static_cast<double>(bench.sizes.hidden);
  const double first = 784 * n, others = n * n + n * 10;
  const double flops = 2.0 * batch * (2.0 * first + 3.0 * others);
  const double bytes = sizeof(float) * (2.0 * (first + others) + batch * 784);
  return std::max(flops / bench.peak, bytes / bench.bandwidth);
}

}  // namespace

void gpu_mlp(GpuBench& bench) {
  using kernels::Activation;
  const std::size_t batch = bench.sizes.batch, hidden = bench.sizes.hidden;
  mesh::NetworkBuilder builder("mlp", {1, 1, 3, 1});
  builder.input("x", 784);
  builder.dense({0, 0, 0, 0}, hidden, Activation::tanh).dense({0, 0, 1, 0}, hidden, Activation::tanh);
  builder.dense({0, 0, 2, 0}, 10).output("y", {0, 0, 2, 0}).seed(1);
  mesh::MeshOptions options;
  options.device = bench.request.device;
  options.sessions = batch;
  auto mesh = must(mesh::Mesh::build(builder.spec(), options));
  learning::LearningOptions rule;
  rule.rule = learning::Rule::backprop;
  rule.schedule = learning::Schedule::pipelined;
  rule.learners = batch;
  rule.optimizer.kind = learning::OptimizerKind::sgd;
  rule.optimizer.lr = 1e-4f;
  const auto learner = must(learning::Learner::build(mesh, rule));
  const std::uint64_t steps = bench.is_real ? 64 : bench.sizes.times == 1 ? 2 : 8;
  RandomStream random(1, 0, RandomPurpose::test);
  std::vector<float> x(steps * batch * 784);
  for (float& value : x) value = random.next_normal();
  std::vector<std::uint32_t> labels(steps * batch);
  for (auto& label : labels) label = random.next_below(10);
  const mesh::RunInput input{"x", x};
  const learning::Target target{"y", labels, {}};
  const Times times = bench.measure(
      [&] {
        check(learner->learn({&input, 1}, {&target, 1}, steps));
        learner->clear_scores();
      },
      static_cast<double>(steps));
  const auto& statistics = *mesh.device_statistics();
  std::fprintf(
      stderr,
      "weft: mlp: %llu steps on the device, %llu on the CPU, %llu command graphs, %llu uploads, %llu downloads %s\n",
      static_cast<unsigned long long>(statistics.device_steps), static_cast<unsigned long long>(statistics.host_steps),
      static_cast<unsigned long long>(statistics.graphs), static_cast<unsigned long long>(statistics.uploads),
      static_cast<unsigned long long>(statistics.downloads), statistics.why_host.c_str());
  Row row{"gpu/learn mlp 784-" + std::to_string(hidden) + "-" + std::to_string(hidden) + "-10, batch " +
              std::to_string(batch),
          times.median * 1e6,
          "",
          {},
          {},
          least_of_mlp(bench) * 1e6,
          "us/step"};
  if (bench.is_real) row.asked = Asked{0.8};
  if (const auto theirs = bench.of_peer("mlp"))
    row.peer = "pytorch eager", row.peer_value = *theirs * 1e6, row.ratio = *theirs / times.median;
  bench.rows.add(row);
}

}  // namespace weft::bench
