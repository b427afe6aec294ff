// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/plasticity.hpp"
#include "learning/sample_stream.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::learning {

/// Several tasks in a stream: what they need of the network, and the measuring after each.
class StreamTasks {
 public:
  /// @error invalid_argument, unsupported, shape_mismatch: naming the key of stream.tasks
  static Status make(SampleStream& stream);
  /// Measures the row of the matrix that is due, where a task has just ended or the first is to begin.
  static Status measure_due(SampleStream& stream);
  /// True where the task changes with this score, as the stream knows: by `drift`, `change_every` or `tasks`.
  static bool changes_at(const SampleStream& stream, std::uint64_t score) noexcept;
  /// Labels of a sample, and classes of each.
  static std::size_t labels(const SampleStream& stream) noexcept;
  static std::vector<std::uint32_t> classes(const SampleStream& stream);
  /// Samples to measure with: these rows, or the held-out ones of the tasks.
  static std::vector<TaskSequence::Place> places(const SampleStream& stream, const std::vector<std::uint32_t>& rows);
  /// Of the samples to measure with, the first `rows`.
  static Result<std::vector<LayerPlasticity>> measure_plasticity(const SampleStream& stream, std::size_t rows,
                                                                 bool with_ranks);

 private:
  static Status check_targets(const SampleStream& stream);
};

}  // namespace weft::learning
