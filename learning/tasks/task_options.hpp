// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string_view>

namespace weft::learning {

/// Tasks, one after the other, that are made from one set of labelled samples.
///   split     each task has classes of its own
///   permuted  the places of the inputs are permuted, by another order in each task but the first
///   rotated   pictures are turned, further in each task
///   labels    classes change their labels, in each task but the first
///   turning   one task without bounds: pictures of two classes at a time, which turn further and further
enum class TaskKind : int { none, split, permuted, rotated, labels, turning };
std::string_view name(TaskKind kind) noexcept;

/// Labels of a task. task: classes within the task, in a head for each; domain: classes within the task, which all
/// tasks share; klass: all classes of all tasks.
/// @source van de Ven and Tolias 2019, "Three scenarios for continual learning", arXiv:1904.07734
enum class Scenario : int { task, domain, klass };
/// "task", "domain", "class".
std::string_view name(Scenario scenario) noexcept;

/// The section "tasks" of "stream".
struct TaskOptions {
  TaskKind kind = TaskKind::none;
  std::uint32_t count = 5;
  Scenario scenario = Scenario::klass;
  std::uint64_t samples = 0;   // of each task; 0: as often as `epochs` says
  std::uint64_t measured = 0;  // held-out samples of each task that are measured with; 0: all
  double angle = 18.0;         // degrees between two tasks (rotated)
  bool operator==(const TaskOptions&) const = default;

  bool is_on() const noexcept { return kind != TaskKind::none; }
};

}  // namespace weft::learning
