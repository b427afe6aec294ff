// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"
#include "learning/tasks/task_options.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::learning {

/// A sequence of tasks over the rows of a data set. Its order and its permutations are functions of the seed alone.
/// @thread one at a time
/// @exact  draws by Philox; pictures are turned in binary64 with sines of our own
class TaskSequence {
 public:
  /// A sample, by its row: of which task it is, and how far its picture is turned.
  struct Place {
    std::uint32_t task = 0, row = 0;
    float angle = 0;  // radians
  };

  TaskSequence() = default;
  /// `train` and `held_out`: rows of `data`. Of each task `epochs` times its rows where `options.samples` is 0, in
  /// whole updates of `at_once` samples.
  /// @error invalid_argument: naming the key and both values: more tasks than classes, classes that do not divide
  ///        among the tasks, pictures that are not square, a task without samples
  static Result<TaskSequence> build(const Dataset& data, std::span<const std::uint32_t> train,
                                    std::span<const std::uint32_t> held_out, const TaskOptions& options,
                                    std::uint64_t seed, std::uint64_t epochs, std::uint64_t at_once);

  const TaskOptions& options() const noexcept { return options_; }
  std::uint32_t tasks() const noexcept { return static_cast<std::uint32_t>(tests_.size()); }
  std::uint64_t total() const noexcept { return ends_.back(); }
  /// The sample after the last of the task that `sample` is of.
  std::uint64_t end_of(std::uint64_t sample) const noexcept { return ends_[task_of(sample)]; }
  /// Tasks that have ended before `sample`, and true where one ends, or the first begins, just there.
  std::uint32_t ended(std::uint64_t sample) const noexcept;
  bool is_bound(std::uint64_t sample) const noexcept {
    const std::uint32_t before = ended(sample);
    return sample == (before == 0 ? 0 : ends_[before - 1]);
  }

  /// The task of the sample before, or the first.
  std::uint32_t task_before(std::uint64_t sample) const noexcept { return task_of(sample == 0 ? 0 : sample - 1); }
  Place place(std::uint64_t sample);
  /// Held-out samples of a task.
  std::span<const Place> tests(std::uint32_t task) const noexcept { return tests_[task]; }
  /// All held-out rows, each once: of its own task, or as task `task` has it.
  std::vector<Place> held_out(std::uint32_t task) const;
  void put_inputs(const Dataset& data, const Place& place, float* to) const;
  /// [labels()]: with heads kNoLabel in those of other tasks.
  void put_labels(const Dataset& data, const Place& place, std::uint32_t* to) const;
  /// Labels of a sample, and classes of each.
  std::size_t labels() const noexcept { return options_.scenario == Scenario::task ? tasks() : 1; }
  std::uint32_t classes() const noexcept;

 private:
  std::uint32_t task_of(std::uint64_t sample) const noexcept;
  Status check(const Dataset& data) const;
  void make_tasks(const Dataset& data, std::span<const std::uint32_t> train, std::span<const std::uint32_t> held_out);
  void make_turning(const Dataset& data, std::span<const std::uint32_t> train, std::span<const std::uint32_t> held_out);
  void make_maps(const Dataset& data);
  std::vector<Place> turned(const Dataset& data, std::vector<std::uint32_t> rows) const;

  TaskOptions options_{};
  std::uint64_t seed_ = 0;
  std::uint32_t all_classes_ = 0;
  std::size_t side_ = 0;                                                      // of square pictures
  std::vector<std::vector<std::uint32_t>> rows_;                              // of each task, or one for all
  std::vector<std::vector<Place>> tests_;                                     // by task
  std::vector<Place> stream_;                                                 // turning: the samples of one pass
  std::vector<std::uint64_t> ends_;                                           // by task
  std::vector<std::vector<std::uint32_t>> maps_;                              // by task: of places, or of labels
  std::vector<std::uint32_t> order_;                                          // of the pass under way
  std::pair<std::uint64_t, std::uint64_t> order_of_{UINT64_MAX, UINT64_MAX};  // its task and number
};

}  // namespace weft::learning
