// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "core/philox.hpp"

#include "networks.hpp"
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Runs in which targets come late, as calls drawn from a seed.
namespace weft::learning::test {

/// Draws what happens to each sample: taught after a while by its labels or a gradient, with weights, forgone, left to
/// expire, or learned at once. The same seed makes the same calls.
class LateScript {
 public:
  LateScript(const mesh::NetworkSpec& spec, const LearningOptions& options, std::uint64_t samples,
             std::size_t sessions = 1)
      : data(spec, options, samples, sessions), options_(options) {
    takes_gradients_ =
        options.rule != Rule::gap && options.rule != Rule::gap_original && options.rule != Rule::local_ce;
  }

  /// Samples [first, first + count).
  void run(Learner& learner, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t s = first; s < first + count; ++s) {
      RandomStream random(3, s, RandomPurpose::test);
      for (std::size_t i = 0; i < waiting_.size();) {
        if (waiting_[i].first > s) {
          ++i;
          continue;
        }
        const Ticket ticket = waiting_[i].second;
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        close(learner, ticket);
      }
      if (random.next_below(6) == 0) {
        mesh::testing_support::must(data.try_to_train(learner, s, 1));
        samples_of_.push_back(s);
        continue;
      }
      const Samples::Batch batch = data.batch(s, 1);
      const Ticket ticket = mesh::testing_support::must(learner.observe(batch.inputs));
      samples_of_.resize(ticket + 1);
      samples_of_[ticket] = s;
      const std::uint32_t delay = random.next_below(7);
      if (delay == 0)
        close(learner, ticket);
      else if (random.next_below(9) != 0)
        waiting_.emplace_back(s + delay, ticket);
    }
  }

  Samples data;

 private:
  void close(Learner& learner, Ticket ticket) {
    RandomStream random(4, ticket, RandomPurpose::test);
    if (random.next_below(10) == 0) return mesh::testing_support::must(learner.forgo(ticket));
    Samples::Batch batch = data.batch(samples_of_[ticket], 1);
    weights_.resize(options_.learners);
    for (float& weight : weights_) weight = 0.5f * static_cast<float>(random.next_below(4));
    gradients_.clear();
    const bool is_gradient = takes_gradients_ && random.next_below(3) == 0;
    for (std::size_t o = 0; o < batch.targets.size(); ++o) {
      batch.targets[o].weights = weights_;
      if (!is_gradient) continue;
      std::vector<float> gradient(data.targets[o].width * options_.learners);
      for (float& value : gradient) value = 0.25f * random.next_normal();
      gradients_.push_back(std::move(gradient));
    }
    for (std::size_t o = 0; o < gradients_.size(); ++o) {
      batch.targets[o].labels = {};
      batch.targets[o].values = {};
      batch.targets[o].gradient = gradients_[o];
    }
    mesh::testing_support::must(learner.teach(ticket, batch.targets));
  }

  LearningOptions options_;
  bool takes_gradients_ = true;
  std::vector<std::pair<std::uint64_t, Ticket>> waiting_;  // and when their targets come
  std::vector<std::uint64_t> samples_of_;                  // by ticket
  std::vector<float> weights_;
  std::vector<std::vector<float>> gradients_;
};

/// Every rule, schedule and lateness that goes together.
struct LateCase {
  Rule rule;
  Schedule schedule;
  Late late;

  LearningOptions options() const {
    LearningOptions all{.rule = rule, .schedule = schedule};
    all.optimizer.lr = 0.01f;
    all.late = late;
    all.patience = 5;
    return all;
  }
  std::string name() const {
    return std::string(learning::name(rule)) + "_" + std::string(learning::name(schedule)) + "_" +
           std::string(learning::name(late));
  }
};
inline std::vector<LateCase> late_cases() {
  std::vector<LateCase> all;
  for (const Rule rule : all_rules())
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
      for (const Late late : {Late::meet, Late::again})
        if (check_options(LateCase{rule, schedule, late}.options())) all.push_back({rule, schedule, late});
  return all;
}

}  // namespace weft::learning::test
