// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "networks.hpp"
#include <cstddef>
#include <cstdint>
#include <vector>

/// The digits' network, observed and taught sample by sample.
namespace weft::learning::test {

inline LearningOptions meeting(Late late = Late::meet, Schedule schedule = Schedule::settle,
                               std::uint32_t patience = 3) {
  LearningOptions options{.schedule = schedule};
  options.late = late;
  options.patience = patience;
  return options;
}

struct LateDigits {
  explicit LateDigits(const LearningOptions& options) : run(digits_network(1), options), x(64, 0.25f) {}
  Ticket observe() {
    x[seen % 64] += 0.125f;
    ++seen;
    const mesh::RunInput input{"pixels", x};
    return mesh::testing_support::must(run.learner->observe({&input, 1}));
  }
  Status teach(Ticket ticket, std::uint32_t label) {
    const Target target{"digit", {&label, 1}};
    return run.learner->teach(ticket, {&target, 1});
  }
  Status teach(Ticket ticket, const Target& target) { return run.learner->teach(ticket, {&target, 1}); }
  LearningRun run;
  std::vector<float> x;
  std::size_t seen = 0;
};

}  // namespace weft::learning::test
