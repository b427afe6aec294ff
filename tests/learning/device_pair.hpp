// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_statistics.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/command.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include "tests/mesh/on_device.hpp"
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

/// Meshes that learn on the CPU, and the same ones on a device.
namespace weft::learning::test {

using mesh::testing_support::device_name;
using mesh::testing_support::must;

inline mesh::MeshOptions shape_on(const std::string& where, std::size_t sessions) {
  mesh::MeshOptions options;
  options.threads = 1;
  options.sessions = sessions;
  options.device = where;
  return options;
}

/// Every other cell stays on the host, as squares of one colour of a board do.
inline mesh::NetworkSpec checkered(mesh::NetworkSpec spec, std::uint32_t colour) {
  for (mesh::LayerSpec& layer : spec.layers)
    if ((layer.at.z + layer.at.y + layer.at.x) % 2 == colour) layer.device = mesh::Placement::cpu;
  return spec;
}

/// Nothing was run on the CPU instead.
inline void expect_all_on_device(const mesh::DeviceStatistics& statistics) {
  EXPECT_EQ(statistics.why_host, "");
  EXPECT_EQ(statistics.host_steps, 0u);
  EXPECT_EQ(statistics.replays, 0u);
  EXPECT_GT(statistics.device_steps, 0u);
}

/// A mesh on the CPU and one on a device, which learn the same from the same samples.
class Pair {
 public:
  Pair(const mesh::NetworkSpec& spec, LearningOptions options, std::size_t sessions = 1, std::uint64_t samples = 80)
      : data(spec, options, samples, sessions),
        cpu_(spec, with_defaults(options), shape_on("cpu", sessions)),
        gpu_(spec, with_defaults(options), shape_on(device_name(), sessions)) {}

  LearningRun& cpu() { return cpu_; }
  LearningRun& gpu() { return gpu_; }
  const mesh::DeviceStatistics& statistics() const { return *gpu_.mesh->device_statistics(); }

  template <class Act>
  void both(Act&& act) {
    act(cpu_);
    act(gpu_);
  }
  /// Gives labels to samples that have none, which are programs of their own.
  void label_all() {
    for (Samples::Port& port : data.targets) std::replace(port.labels.begin(), port.labels.end(), kNoLabel, 1u);
  }
  /// The next samples; a call that fails does so on both sides, in the same words.
  void train(std::uint64_t count) {
    std::string told[2], *next = told;
    both([&](LearningRun& run) {
      const Status learned = data.try_to_train(*run.learner, trained, count);
      *next++ = learned ? "learned" : learned.error().text();
    });
    EXPECT_EQ(told[1], told[0]);
    trained += count;
  }
  void drain() {
    both([](LearningRun& run) { must(run.learner->drain()); });
  }
  void expect_equal(const std::string& when) { EXPECT_EQ(gpu_.told(), cpu_.told()) << when; }
  void expect_on_device() const { expect_all_on_device(statistics()); }
  void expect_mixed() const {
    expect_on_device();
    EXPECT_GT(statistics().host_cells, 0u);
    EXPECT_GT(statistics().exchanged_bytes, 0u);
  }
  /// Trains, goes back and trains again, to the same end.
  void go_back_and_train(std::uint64_t count) {
    mesh::Snapshot here, there;
    cpu_.mesh->take_snapshot(here);
    gpu_.mesh->take_snapshot(there);
    train(count);
    const std::string after = gpu_.told();
    expect_equal("further");
    must(cpu_.mesh->restore_snapshot(here));
    must(gpu_.mesh->restore_snapshot(there));
    trained -= count;
    train(count);
    EXPECT_EQ(gpu_.told(), after);
    expect_equal("again");
  }
  /// Three batches. Before the second the output's weights become so large that a sum of it is infinite after some more
  /// samples.
  void run_through_a_fault(const Coord& output, const std::array<std::uint64_t, 3>& counts) {
    train(counts[0]);
    both([&](LearningRun& run) {
      const auto& parameter = run.store().of(run.node(output))[0];
      must(run.store().write(run.store().parameters()[run.store().first(run.node(output))],
                             std::vector<float>(parameter.spec->out * parameter.spec->in, 3e38f), "large"));
    });
    train(counts[1]);
    train(counts[2]);
    expect_equal("with faults");
    EXPECT_GT(cpu_.mesh->supervisor().events().appended(), 0u);
    EXPECT_EQ(gpu_.mesh->supervisor().events().appended(), cpu_.mesh->supervisor().events().appended());
    EXPECT_GT(statistics().replays, 0u);
  }

  Samples data;
  std::uint64_t trained = 0;

 private:
  LearningRun cpu_, gpu_;
};

}  // namespace weft::learning::test
