// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/model.hpp"
#include "cli/report.hpp"
#include "cli/run_state.hpp"

#include "learning/dataset.hpp"
#include "learning/evaluation.hpp"
#include "learning/learner.hpp"
#include "learning/stream_options.hpp"
#include "learning/taught_outputs.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::cli {

/// A model that predicts and does not learn. Every row is shown, until settled, to a copy of session 0 as the file has
/// it, so that rows know nothing of one another, and a batch gives the bits of its rows alone.
/// @thread one at a time
class AskedModel {
 public:
  /// `table`: what the command line says of the table. @error as read_model; a network of several inputs or outputs
  ///                                                            whose section "stream" names none of them
  static Result<std::unique_ptr<AskedModel>> open(const std::string& path, mesh::MeshOptions options);

  /// Values of the outputs, side by side, [rows][width()], of inputs [rows][features()].
  Status answer(std::span<const float> inputs, std::size_t rows, std::span<float> outputs) const;

  const mesh::Graph& graph() const noexcept { return loaded_.mesh->graph(); }
  /// Name of the input that rows are shown to.
  const std::string& input() const noexcept { return options_.input; }
  std::size_t features() const noexcept { return features_; }
  std::size_t width() const noexcept { return outputs_.width(); }
  /// Outputs that it answers with.
  const learning::TaughtOutputs& outputs() const noexcept { return outputs_; }
  /// True when the largest value of the output, or of each of its parts, is the class.
  bool is_classifier() const noexcept { return !has_values(); }
  /// First columns of the parts of the output that have a class each, and the end of the last.
  const std::vector<std::size_t>& parts() const noexcept { return outputs_.parts(); }
  /// Nothing is measured yet.
  learning::Evaluation evaluation() const;
  const learning::TargetUnits& units() const noexcept { return units_; }
  /// Names of classes and targets.
  AnswerNames names() const;
  bool has_weights() const noexcept { return model_.entity.has_value(); }
  /// Options of its tables; the names of its classes.
  const learning::TableOptions& table() const noexcept { return options_.table; }
  /// Of a part of the output.
  std::string class_name(std::size_t part, std::uint32_t answer) const;
  /// Labels or values that it answers a row with.
  std::size_t answers() const noexcept { return outputs_.targets(); }

 private:
  bool has_values() const noexcept { return targets_of(learning_.loss) == learning::LossTargets::values; }
  bool names_columns() const;
  std::size_t class_sets() const noexcept { return std::max<std::size_t>(outputs_.own_classes().size(), 1); }
  Model model_;
  Loaded loaded_;
  std::unique_ptr<learning::Learner> learner_;  // of a model without live state
  learning::LearningOptions learning_;
  learning::StreamOptions options_;
  learning::TargetUnits units_;
  learning::TaughtOutputs outputs_;
  std::size_t features_ = 0;
  std::uint32_t hold_ = 0;
};

}  // namespace weft::cli
