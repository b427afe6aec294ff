// SPDX-License-Identifier: Apache-2.0
// Learning whose steps are with noise, and what works between samples, on a device: stored samples, weights that are
// held, units that begin anew. The state that the CPU has, to the bit. Skipped (77) where there is no Vulkan device;
// WEFT_TEST_DEVICE names one.

#include <gtest/gtest.h>

#include "device_pair.hpp"
#include "tests/mesh/faulty_device.hpp"
#include <string>
#include <vector>

namespace weft::learning::device_options_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

struct OptionCase {
  const char* name;
  const char* learning;  // the section
  std::size_t sessions = 1;
};

const OptionCase kCases[] = {
    {"upgd", R"({"optimizer": {"type": "sgd", "lr": 0.05}, "perturb": {"method": "upgd", "noise": 0.3}})"},
    {"upgd_of_learners",
     R"({"optimizer": {"type": "sgd", "lr": 0.05, "weight_decay": 0.01}, "learners": 2, "gradient_limit": 0.5,
         "perturb": {"method": "upgd_nonprotecting"}})",
     2},
    {"upgd_by_targets", R"({"rule": "fw_dtp", "optimizer": {"type": "sgd"}, "perturb": {"method": "upgd"}})"},
    {"er", R"({"replay": {"method": "er", "capacity": 7, "samples": 2}})", 3},
    {"er_pipelined", R"({"schedule": "pipelined", "replay": {"method": "er", "capacity": 7, "samples": 2}})", 3},
    {"der", R"({"replay": {"method": "der++", "capacity": 7, "samples": 2, "beta": 0}})", 3},
    {"derpp", R"({"replay": {"method": "der++", "capacity": 7, "samples": 2, "alpha": 0.3}, "loss": "mse"})", 3},
    {"ewc", R"({"consolidation": {"method": "ewc", "every": 8}})"},
    {"si", R"({"consolidation": {"method": "si", "every": 8}})"},
    {"lwf", R"({"consolidation": {"method": "lwf", "every": 8}})"},
    {"redo", R"({"renew": {"method": "redo", "every": 6, "threshold": 0.9}})"},
    {"continual", R"({"renew": {"method": "continual", "rate": 0.02, "maturity": 4}})"},
    {"pulled", R"({"plasticity": {"pull": "fresh", "every": 6}})"},
};

/// Dense layers in a row, of which units may begin anew.
mesh::NetworkSpec chain() {
  return mesh::NetworkBuilder("chain", {1, 1, 3, 1})
      .input("x", 6)
      .dense({0, 0, 0, 0}, 9, kernels::Activation::relu)
      .from({"x"})
      .dense({0, 0, 1, 0}, 18, kernels::Activation::tanh)
      .dense({0, 0, 2, 0}, 4)
      .output("y", {0, 0, 2, 0})
      .seed(5)
      .spec();
}

/// A mesh that learns as a case says, and what it learns from: rows of new samples alone.
struct OptionRun : LearningRun {
  OptionRun(const mesh::NetworkSpec& spec, const OptionCase& of, const std::string& where)
      : OptionRun(spec, with_defaults(must(read_learning(of.learning))), of.sessions, where) {}
  OptionRun(const mesh::NetworkSpec& spec, const LearningOptions& options, std::size_t sessions,
            const std::string& where)
      : LearningRun(spec, options, shape_on(where, sessions)),
        data(spec, options, 60, sessions - options.replay.rows()) {}
  void train(std::uint64_t count) {
    data.train(*learner, trained, count);
    trained += count;
  }
  Samples data;
  std::uint64_t trained = 0;
};

class DeviceOptions : public FaultsTest, public ::testing::WithParamInterface<OptionCase> {
 protected:
  static void compare(const mesh::NetworkSpec& spec, bool is_mixed) {
    OptionRun cpu(spec, GetParam(), "cpu"), gpu(spec, GetParam(), device_name());
    for (const std::uint64_t count : {1, 9, 20, 12}) {
      cpu.train(count);
      gpu.train(count);
      EXPECT_EQ(gpu.told(), cpu.told()) << "after " << cpu.trained;
    }
    must(cpu.learner->drain());
    must(gpu.learner->drain());
    EXPECT_EQ(gpu.told(), cpu.told());
    expect_all_on_device(*gpu.mesh->device_statistics());
    EXPECT_EQ(gpu.mesh->device_statistics()->host_cells > 0, is_mixed);
  }
};

TEST_P(DeviceOptions, EndInTheStateOfTheCpu) { compare(chain(), false); }
TEST_P(DeviceOptions, EndInTheStateOfTheCpuBesideTheHost) { compare(checkered(chain(), 1), true); }

INSTANTIATE_TEST_SUITE_P(Of, DeviceOptions, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.name); });

class DeviceOptionsFaults : public FaultsTest, public ::testing::WithParamInterface<OptionCase> {};

TEST_P(DeviceOptionsFaults, LoseNothing) {
  const auto run_on = [&](const std::string& where) {
    OptionRun run(chain(), GetParam(), where);
    run.train(13);
    std::string all = run.told();
    run.train(9);
    must(run.learner->drain());
    all += run.told();
    const Outcome outcome{all,
                          run.mesh->device_statistics() ? *run.mesh->device_statistics() : mesh::DeviceStatistics()};
    plan().clear();
    return outcome;
  };
  EXPECT_GT(expect_nothing_lost(DriverFault::lost_at_submit, run_on, false, is_thorough() ? 7 : 199), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, DeviceOptionsFaults,
                         ::testing::ValuesIn(in_slice(std::vector(std::begin(kCases), std::end(kCases)), 8)),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace weft::learning::device_options_test
