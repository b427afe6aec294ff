// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_statistics.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include "tests/mesh/on_device.hpp"
#include <array>
#include <bit>
#include <memory>
#include <string>
#include <vector>

/// A mesh that learns on the CPU and the same one on a device, which are trained the same.
namespace weft::learning::test {

using mesh::testing_support::device_name;
using mesh::testing_support::must;

/// A mesh and its learner that run the same as another pair does.
struct LearningRun {
  std::unique_ptr<mesh::Mesh> mesh;
  std::unique_ptr<Learner> learner;

  LearningRun(const mesh::NetworkSpec& spec, const LearningOptions& options, std::size_t sessions,
              const std::string& where) {
    mesh::MeshOptions wanted;
    wanted.threads = 1;
    wanted.sessions = sessions;
    wanted.device = where;
    mesh = std::make_unique<mesh::Mesh>(must(mesh::Mesh::build(spec, wanted)));
    learner = must(Learner::build(*mesh, options));
  }
};

/// All of a score, its loss as bits.
inline std::vector<std::uint64_t> words(std::span<const Score> scores) {
  std::vector<std::uint64_t> out;
  for (const Score& s : scores)
    for (const std::uint64_t word :
         {s.sample, std::uint64_t{s.learner}, std::uint64_t{s.prediction}, std::uint64_t{s.label},
          std::uint64_t{std::bit_cast<std::uint32_t>(s.loss)}, std::uint64_t{s.token}})
      out.push_back(word);
  return out;
}

class Pair {
 public:
  Pair(const mesh::NetworkSpec& spec, const LearningOptions& options, std::size_t sessions = 1)
      : cpu_(spec, options, sessions, "cpu"), gpu_(spec, options, sessions, device_name()) {}

  LearningRun& cpu() { return cpu_; }
  LearningRun& gpu() { return gpu_; }
  const mesh::DeviceStatistics& statistics() const { return *gpu_.mesh->device_statistics(); }

  template <class Act>
  void both(Act&& act) {
    act(cpu_);
    act(gpu_);
  }
  void expect_equal(const std::string& when) {
    for (std::size_t session = 0; session < cpu_.mesh->sessions(); ++session)
      EXPECT_EQ(to_string(gpu_.mesh->state_hash(session)), to_string(cpu_.mesh->state_hash(session)))
          << when << ", session " << session;
    EXPECT_EQ(words(gpu_.learner->scores()), words(cpu_.learner->scores())) << when;
  }
  /// Nothing was run on the CPU instead.
  void expect_on_device() {
    EXPECT_EQ(statistics().why_host, "");
    EXPECT_EQ(statistics().host_steps, 0u);
    EXPECT_EQ(statistics().replays, 0u);
    EXPECT_GT(statistics().device_steps, 0u);
  }

 private:
  LearningRun cpu_, gpu_;
};

/// Samples [first, first + count) of the digits; a multiple of `skip` has no label, session `s` sees them s later.
struct Batch {
  std::vector<float> pixels;
  std::vector<std::uint32_t> labels;

  Batch(const Dataset& data, std::uint64_t first, std::uint64_t count, std::size_t sessions = 1,
        std::size_t learners = 1, std::uint64_t skip = 0) {
    for (std::uint64_t i = first; i < first + count; ++i)
      for (std::size_t session = 0; session < sessions; ++session) {
        const std::size_t row = (i + session) % data.size;
        pixels.insert(pixels.end(), data.inputs.begin() + static_cast<std::ptrdiff_t>(row * data.features),
                      data.inputs.begin() + static_cast<std::ptrdiff_t>((row + 1) * data.features));
        if (session < learners) labels.push_back(skip && i % skip == 0 ? kNoLabel : data.labels[row]);
      }
  }
  void train(LearningRun& run, std::uint64_t count) const {
    const mesh::RunInput inputs[] = {{"pixels", pixels}};
    const Target targets[] = {{"digit", labels, {}}};
    must(run.learner->learn(inputs, targets, count));
  }
};

inline const Dataset& all_digits() {
  static const Dataset data = digits();
  return data;
}

/// Three batches of so many samples each. Before the second the output's weights become so large that a sum of it is
/// infinite after some more samples; both sides run that to the same end, and say the same of it.
inline void run_through_a_fault(Pair& pair, const Coord& output, const std::array<std::uint64_t, 3>& counts) {
  std::uint64_t first = 0;
  const auto try_to_train = [&](std::uint64_t count) {
    const Batch batch(all_digits(), first, count);
    const mesh::RunInput inputs[] = {{"pixels", batch.pixels}};
    const Target targets[] = {{"digit", batch.labels, {}}};
    std::string told[2], *next = told;
    pair.both([&](LearningRun& run) {
      const Status learned = run.learner->learn(inputs, targets, count);
      *next++ = learned ? "learned" : learned.error().text();
    });
    EXPECT_EQ(told[1], told[0]);
    first += count;
  };
  try_to_train(counts[0]);
  pair.both([&](LearningRun& run) {
    mesh::WeightStore& weights = mesh::MeshAccess::weights(*run.mesh);
    const mesh::NodeId node = *run.mesh->graph().find_layer(output);
    must(weights.write(weights.parameters()[weights.first(node)], std::vector<float>(640, 3e38f), "large"));
  });
  try_to_train(counts[1]);
  try_to_train(counts[2]);
  pair.expect_equal("with faults");
  const auto &there = pair.gpu().mesh->supervisor().events(), &here = pair.cpu().mesh->supervisor().events();
  EXPECT_GT(here.appended(), 0u);
  EXPECT_EQ(there.appended(), here.appended());
  EXPECT_GT(pair.statistics().replays, 0u);
}

}  // namespace weft::learning::test
