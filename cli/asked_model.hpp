// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/model.hpp"
#include "cli/session.hpp"

#include "learning/learner.hpp"
#include "learning/stream_options.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace weft::cli {

/// A model that predicts and does not learn. Every row is shown, until settled, to a copy of session 0 as the file has
/// it, so that rows know nothing of one another, and a batch gives the bits of its rows alone.
/// @thread one at a time
class AskedModel {
 public:
  /// `table`: what the command line says of the table. @error as read_model; a network of several inputs or outputs
  ///                                                            whose section "stream" names none of them
  static Result<std::unique_ptr<AskedModel>> open(const std::string& path, mesh::MeshOptions options);

  /// Values of the output, [rows][width()], of inputs [rows][features()].
  Status answer(std::span<const float> inputs, std::size_t rows, std::span<float> outputs) const;

  const mesh::Graph& graph() const noexcept { return loaded_.mesh->graph(); }
  /// Name of the input that rows are shown to.
  const std::string& input() const noexcept { return options_.input; }
  std::size_t features() const noexcept { return features_; }
  std::size_t width() const noexcept { return width_; }
  /// True when the largest value of the output is the class.
  bool is_classifier() const noexcept { return is_classifier_; }
  bool has_weights() const noexcept { return model_.entity.has_value(); }
  /// Options of its tables; the names of its classes.
  const learning::TableOptions& table() const noexcept { return options_.table; }
  std::string class_name(std::uint32_t answer) const;

 private:
  Model model_;
  Loaded loaded_;
  std::unique_ptr<learning::Learner> learner_;  // of a model without live state
  learning::StreamOptions options_;
  std::size_t features_ = 0, width_ = 0;
  std::uint32_t hold_ = 0;
  bool is_classifier_ = true;
};

}  // namespace weft::cli
