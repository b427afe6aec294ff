// SPDX-License-Identifier: Apache-2.0

#include "cli/divergence.hpp"

#include "cli/number.hpp"
#include "cli/text_format.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "actors/supervisor.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

namespace weft::cli {
namespace {

// Trained weights are of the order of 1; beyond this, activations saturate and gradients vanish.
constexpr float kExploded = 100;
// Inputs much larger than 1 saturate activations and multiply steps.
constexpr float kLargeInput = 16;
// A cross entropy so many times that of guessing: wrong answers are given with certainty.
constexpr double kHopeless = 10;

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string advice(const learning::LearningOptions& learning, const DataStatistics& data) {
  const double lr = as_written(learning.optimizer.lr);
  std::string text = "the learning rate " + shown(lr) + " is too high for these data: try --lr " + rounded(lr / 10);
  if (data.largest_input > kLargeInput)
    text += "; inputs go up to " + rounded(data.largest_input) + ": set stream.scale to " +
            rounded(1 / static_cast<double>(data.largest_input)) + " times what it is";
  return text;
}

float largest_weight(const mesh::Mesh& mesh) {
  float largest = 0;
  for (const auto& parameter : mesh::MeshAccess::weights(mesh).parameters()) {
    if (!parameter.data) continue;
    for (std::size_t i = 0; i < parameter.spec->stored_size(); ++i) {
      const float size = std::fabs(parameter.data[i]);
      if (!(size <= largest)) largest = std::isfinite(size) ? size : INFINITY;
    }
  }
  return largest;
}

}  // namespace

DataStatistics statistics_of(const learning::Dataset& data) {
  DataStatistics statistics;
  for (const float value : data.inputs) statistics.largest_input = std::max(statistics.largest_input, std::fabs(value));
  if (data.targets != 1 || data.has_values()) return statistics;
  std::map<std::uint32_t, std::size_t> counts;
  for (const std::uint32_t label : data.labels) ++counts[label];
  statistics.classes = counts.size();
  std::size_t commonest = 0;
  for (const auto& [label, count] : counts) commonest = std::max(commonest, count);
  if (!data.labels.empty())
    statistics.commonest_share = static_cast<double>(commonest) / static_cast<double>(data.labels.size());
  return statistics;
}

Error explain_halt(Error error, const mesh::Mesh& mesh, const learning::LearningOptions& learning,
                   const DataStatistics& data) {
  if (error.code() != Errc::halted) return error;
  const auto faults = mesh.supervisor().counters().faults;
  const auto count = [&](actors::FaultKind kind) { return faults[static_cast<std::size_t>(kind)]; };
  if (count(actors::FaultKind::update_not_finite) + count(actors::FaultKind::output_not_finite) == 0) return error;
  return Error(error.code(), error.text() + ". Most likely " + advice(learning, data), error.file(), error.line());
}

std::optional<std::string> divergence_note(const mesh::Mesh& mesh, const learning::LearningOptions& learning,
                                           const DataStatistics& data, double accuracy, double loss) {
  // A little luck is no learning.
  const float largest = largest_weight(mesh);
  if (data.commonest_share > 0 && accuracy <= data.commonest_share + 0.05 && largest >= kExploded)
    return "nothing was learned: " + percent(accuracy) + ", and guessing the commonest label gives " +
           percent(data.commonest_share) + "; weights have grown to " + rounded(largest) + ". Most likely " +
           advice(learning, data);
  const double of_guessing = std::log(static_cast<double>(std::max<std::size_t>(data.classes, 2)));
  if (targets_of(learning.loss) == learning::LossTargets::labels && data.classes && !(loss <= kHopeless * of_guessing))
    return "the loss, " + rounded(loss) + ", is far above " + rounded(of_guessing) +
           ", that of guessing. Most likely " + advice(learning, data);
  return std::nullopt;
}

}  // namespace weft::cli
