// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/arenas.hpp"

#include "core/log.hpp"

#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace weft::scheduler::internal {

// Keeps the workers of one arena on cores: a worker sits where the worker whose place it has belongs. TBB lends workers
// to other arenas of the process, so each gets its old mask back when it leaves.
class PinningObserver final : public tbb::task_scheduler_observer {
 public:
  PinningObserver(NodeArena& node, topology::Machine machine, std::span<const topology::CoreAssignment> cores)
      : tbb::task_scheduler_observer(node.arena),
        node_(node),
        machine_(std::move(machine)),
        cores_(cores.begin(), cores.end()) {
    observe(true);
  }
  ~PinningObserver() override {
    // Workers inside would keep their pin: give them a moment to leave.
    for (int i = 0; i < 2000 && inside_.load(std::memory_order_acquire) != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    observe(false);
  }

  void on_scheduler_entry(bool is_worker) override {
    if (!is_worker) return;
    inside_.fetch_add(1, std::memory_order_relaxed);
    const auto worker = node_.workers.worker_here();
    if (!worker) return;
    auto binding = topology::ThreadBinding::pin(machine_, cores_[*worker].core);
    if (binding) {
      binding_ = std::move(*binding);
    } else if (!told_.exchange(true, std::memory_order_relaxed)) {
      log_info("workers are not pinned: " + binding.error().text());
    }
  }
  void on_scheduler_exit(bool is_worker) override {
    if (!is_worker) return;
    binding_.reset();
    inside_.fetch_sub(1, std::memory_order_release);
  }

 private:
  const NodeArena& node_;
  topology::Machine machine_;
  std::vector<topology::CoreAssignment> cores_;
  std::atomic<int> inside_{0};
  std::atomic<bool> told_{false};
  // A worker is in one arena at a time.
  static thread_local std::optional<topology::ThreadBinding> binding_;
};
thread_local std::optional<topology::ThreadBinding> PinningObserver::binding_;

NodeArena::NodeArena(const WorkerRange& workers_here)
    : workers(workers_here), arena(static_cast<int>(workers.threads()), workers.has_caller ? 1 : 0) {
  arena.initialize();
}
NodeArena::~NodeArena() = default;

std::optional<std::size_t> WorkerRange::worker_here() const noexcept {
  std::size_t slot = static_cast<std::size_t>(std::max(0, tbb::this_task_arena::current_thread_index()));
  if (has_caller && slot-- == 0) return 0;
  if (count == 0) return std::nullopt;
  return first + slot % count;
}

Arenas::Arenas(const topology::Machine& machine, std::vector<topology::CoreAssignment> cores, bool pin)
    : cores_(std::move(cores)) {
  // By default TBB has a worker for each other CPU; asked for more, it must be allowed to make them.
  if (cores_.size() > tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism)) {
    more_workers_.emplace(tbb::global_control::max_allowed_parallelism, cores_.size());
  }
  for (std::size_t m = 1; m < cores_.size() || nodes_.empty();) {
    std::size_t end = m;
    const std::uint32_t node = nodes_.empty() ? cores_[0].node : cores_[m].node;
    while (end < cores_.size() && cores_[end].node == node) ++end;
    nodes_.push_back(std::make_unique<NodeArena>(WorkerRange{m, end - m, nodes_.empty()}));
    NodeArena& made = *nodes_.back();
    if (pin && !machine.info().synthetic) made.observer = std::make_unique<PinningObserver>(made, machine, cores_);
    m = end;
  }
}
Arenas::~Arenas() = default;

NodeArena& Arenas::of(std::size_t worker) const noexcept {
  for (const auto& node : nodes_)
    if (worker < node->workers.first + node->workers.count || (worker == 0 && node->workers.has_caller)) return *node;
  return *nodes_.front();
}

}  // namespace weft::scheduler::internal
