// SPDX-License-Identifier: Apache-2.0

#include "cli/drift_json.hpp"

#include "learning/drift/drift_watch.hpp"

namespace weft::cli {

Json drift_json(const learning::Learner& learner) {
  const learning::DriftWatch& drift = learning::drift_of(learner);
  if (!drift.is_on()) return nullptr;
  const learning::WeightChanges done = learning::weight_changes(learner);
  return {{"detector", name(learner.options().drift.detector.kind)},
          {"scores", drift.scores()},
          {"warnings", drift.warnings()},
          {"changes", drift.changes()},
          {"improvements", drift.improvements()},
          {"swaps", done.swaps},
          {"renewed", done.renewed}};
}

}  // namespace weft::cli
