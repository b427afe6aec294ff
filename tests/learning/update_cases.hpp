// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include <string>
#include <string_view>
#include <vector>

/// Every optimiser, schedule of rates and way of clipping, from their tables: a new row is in every test that asks
/// here.
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

inline std::vector<UpdateCase> update_cases() {
  std::vector<UpdateCase> cases;
  for (std::size_t i = 0; i < kernels::optimizer_names().size(); ++i) {
    OptimizerOptions o = kernels::default_options(static_cast<OptimizerKind>(i));
    o.lr = 0.01f;
    o.weight_decay = 0.001f;
    cases.push_back({std::string(kernels::optimizer_names()[i]), o});
  }
  OptimizerOptions o = kernels::default_options(OptimizerKind::rmsprop);
  o.lr = 0.003f;
  o.momentum = 0.5f;
  cases.push_back({"rmsprop_momentum", o});
  o.centered = true;
  cases.push_back({"rmsprop_centered_momentum", o});
  o = kernels::default_options(OptimizerKind::momentum);
  o.lr = 0.01f;
  o.nesterov = true;
  cases.push_back({"nesterov", o});
  for (std::size_t i = 0; i < kernels::rate_schedule_names().size(); ++i) {
    const RateSchedule rates{static_cast<RateScheduleKind>(i), 5, 9, 2, 0.125f, 0.875f, 1.5f};
    cases.push_back({"rate_" + std::string(kernels::rate_schedule_names()[i]), o, rates});
  }
  cases.push_back({"adamw_cosine", kernels::default_options(OptimizerKind::adamw), {RateScheduleKind::cosine, 3, 40}});
  cases.back().optimizer.lr = 0.01f;
  for (const Clip clip : {Clip::value, Clip::norm, Clip::global_norm}) {
    o.clip = clip;
    o.clip_limit = clip == Clip::value ? 0.01f : 0.2f;
    cases.push_back({"clip_" + std::string(learning::name(clip)), o});
  }
  return cases;
}

}  // namespace weft::learning::test
