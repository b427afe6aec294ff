// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"
#include "learning/options.hpp"
#include "learning/stream_options.hpp"

#include "mesh/mesh.hpp"
#include "mesh/network/graph.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace weft::learning {

/// Outputs that the columns of one table teach. Their values stand side by side in one row, and so do their targets:
/// the first output has as many of the columns as its loss takes, the next one those behind them.
class TaughtOutputs {
 public:
  struct One {
    std::string name;
    std::size_t first_value = 0, values = 0;    // columns of a joined row
    std::size_t first_target = 0, targets = 0;  // labels or values to learn
  };

  TaughtOutputs() = default;
  /// One output.
  TaughtOutputs(const mesh::Node& output, const LearningOptions& learning);
  /// Those of `stream.outputs`, that of `stream.output`, or the network's only one.
  /// @error invalid_argument: several, and none is named, or both keys are given; unknown_name; duplicate_name;
  ///        unsupported: one of several is a sequence with a label a place
  static Result<TaughtOutputs> of(const mesh::Graph& graph, const StreamOptions& stream,
                                  const LearningOptions& learning);

  const std::vector<One>& all() const noexcept { return all_; }
  bool has_several() const noexcept { return all_.size() > 1; }
  /// Values of a joined row.
  std::size_t width() const noexcept { return parts_.back(); }
  /// Labels or values of a sample.
  std::size_t targets() const noexcept { return all_.empty() ? 0 : all_.back().first_target + all_.back().targets; }
  /// First columns of the parts of a joined row that have a label each, or of the outputs where values are learned, and
  /// the end of the last.
  const std::vector<std::size_t>& parts() const noexcept { return parts_; }
  /// Classes at most of each label, where each has classes of its own; empty: all have the same.
  const std::vector<std::uint32_t>& own_classes() const noexcept { return own_classes_; }
  /// "output 'y'", "outputs 'a', 'b'".
  std::string text() const;
  /// The output that label or value `target` is of.
  const One& of_target(std::size_t target) const noexcept;

  /// Lets `call` write the outputs' answers to some rows, and joins them. joined [rows][width()]
  Status ask(std::size_t rows, std::span<float> joined,
             const std::function<Status(std::span<const mesh::RunOutput>)>& call) const;
  /// Hands the targets of some samples to `call`, output by output. [samples][targets()], of one of the two; `weights`
  /// [samples][learners], the same at each output; empty: all are 1
  Status teach(std::span<const std::uint32_t> labels, std::span<const float> values, std::span<const float> weights,
               const std::function<Status(std::span<const Target>)>& call) const;

 private:
  void add(const std::string& name, const mesh::Node& output, const LearningOptions& learning);

  std::vector<One> all_;
  std::vector<std::size_t> parts_{0};
  std::vector<std::uint32_t> own_classes_;
};

}  // namespace weft::learning
