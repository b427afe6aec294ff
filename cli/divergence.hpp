// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"
#include "learning/options.hpp"

#include "mesh/mesh.hpp"

#include "core/result.hpp"

#include <optional>
#include <string>

namespace weft::cli {

/// Statistics of the data that decide if a learning rate suits them.
struct DataStatistics {
  float largest_input = 0;  // absolute, after scaling
  // With one label a sample:
  double commonest_share = 0;  // of the commonest label: what guessing it always would score
  std::size_t classes = 0;     // labels that there are
};
DataStatistics statistics_of(const learning::Dataset& data);

/// A run that a value which was not finite has halted, with what to do about it; other errors as they are.
Error explain_halt(Error error, const mesh::Mesh& mesh, const learning::LearningOptions& learning,
                   const DataStatistics& data);

/// The reason why a run learned nothing: no better than guessing with weights grown beyond use, or of a cross entropy
/// (`loss`) far above that of guessing. Nothing where it is not so.
std::optional<std::string> divergence_note(const mesh::Mesh& mesh, const learning::LearningOptions& learning,
                                           const DataStatistics& data, double accuracy, double loss);

}  // namespace weft::cli
