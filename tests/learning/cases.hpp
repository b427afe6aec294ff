// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "networks.hpp"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Everything that learns, as rows: exactness_test.cpp takes each to every machine shape, through files and back in
/// memory, device_learning_test.cpp to devices.
namespace weft::learning::test {

struct UpdateCase {
  std::string name;
  OptimizerOptions optimizer;
  RateSchedule rates{};

  LearningOptions options(Rule rule, Schedule schedule) const {
    LearningOptions all;
    all.rule = rule;
    all.schedule = schedule;
    all.optimizer = optimizer;
    all.rate_schedule = rates;
    return all;
  }
  bool takes(Schedule schedule) const { return optimizer.clip != Clip::global_norm || schedule == Schedule::settle; }
};
/// Every optimiser, schedule of rates and way of clipping, from their tables: a new row is here by itself.
std::vector<UpdateCase> update_cases();

struct Case {
  std::string name;
  mesh::NetworkSpec spec;
  LearningOptions options{};
  std::uint64_t samples = 60;
  /// The last 200 samples lose less than this share of what the first 200 do, which have the place of their largest
  /// input for a label. 0: labels are drawn.
  double falls_to = 0;
  bool is_whole = false;    // every machine shape, and not a slice of them
  bool ends_alone = false;  // no other such case ends with the same weights
  bool is_mixed = false;    // some cells are on the host beside any device
  bool acts = false;        // cells are sent commands while they learn: on a device the host runs those steps
  bool is_on_cpu = false;   // a device refuses it
};
std::vector<Case> cases();

/// By name, for INSTANTIATE_TEST_SUITE_P.
inline std::string name_of(const Case& row) { return row.name; }

}  // namespace weft::learning::test
