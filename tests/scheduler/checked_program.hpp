// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/tick_program.hpp"

#include "core/philox.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace weft::scheduler {

/// Regions on a random graph that hold a number each; a step mixes it with the neighbours' committed numbers. Every
/// call checks the rules of TickProgram. The numbers are plain memory, so a missing hand-over is a race that tsan sees.
class CheckedProgram : public TickProgram {
 public:
  CheckedProgram(std::size_t regions, std::uint64_t seed, std::size_t links_per_region = 2)
      : neighbours_(regions), cells_(regions) {
    RandomStream random(seed, regions, RandomPurpose::test);
    std::vector<std::set<std::uint32_t>> sets(regions);
    for (std::uint32_t r = 0; r < regions; ++r) {
      for (std::size_t i = 0; i < links_per_region; ++i) {
        const std::uint32_t other = random.next_below(static_cast<std::uint32_t>(regions));
        if (other == r) continue;
        sets[r].insert(other);
        sets[other].insert(r);
      }
      neighbours_[r].assign(sets[r].begin(), sets[r].end());
    }
    for (std::uint32_t r = 0; r < regions; ++r) {
      neighbours_[r].assign(sets[r].begin(), sets[r].end());
      cells_[r].value[0] = cells_[r].own = mix(seed, r);
    }
  }

  std::size_t region_count() const noexcept override { return cells_.size(); }
  std::span<const std::uint32_t> neighbours(std::size_t r) const noexcept override { return neighbours_[r]; }
  std::uint32_t own_core(std::size_t r) const noexcept override {
    return cores == 0 ? kAnyCore : static_cast<std::uint32_t>(r) % cores;
  }

  void run_interior(std::size_t r, std::uint64_t step) noexcept override {
    Cell& cell = cells_[r];
    if (cell.busy.exchange(true, std::memory_order_relaxed)) broken.fetch_add(1);
    if (cell.steps.load(std::memory_order_relaxed) != step || cell.half) broken.fetch_add(1);
    cell.half = true;
    cell.own = mix(cell.own, step);
    if (work) work(r, step);
    cell.busy.store(false, std::memory_order_relaxed);
  }

  void run_boundary(std::size_t r, std::uint64_t step) noexcept override {
    Cell& cell = cells_[r];
    if (cell.busy.exchange(true, std::memory_order_relaxed)) broken.fetch_add(1);
    if (cell.steps.load(std::memory_order_relaxed) != step || !cell.half) broken.fetch_add(1);
    cell.half = false;
    std::uint64_t value = mix(cell.own, cell.value[step & 1]);
    for (const std::uint32_t neighbour : neighbours_[r]) {
      const std::uint64_t theirs = cells_[neighbour].steps.load(std::memory_order_relaxed);
      if (theirs != step && theirs != step + 1) broken.fetch_add(1);
      value = mix(value, cells_[neighbour].value[step & 1]);
    }
    cell.value[(step + 1) & 1] = value;
    cell.steps.store(step + 1, std::memory_order_relaxed);
    cell.busy.store(false, std::memory_order_relaxed);
  }

  bool should_stop(std::uint64_t steps_done) noexcept override {
    for (const Cell& cell : cells_) {
      if (cell.steps.load(std::memory_order_relaxed) != steps_done) broken.fetch_add(1);
    }
    questions.push_back(steps_done);
    return steps_done >= stop_at;
  }
  std::uint64_t block() const noexcept override { return block_steps; }

  /// A number of all that was computed; plain reads, so only after a run.
  std::uint64_t digest() const {
    std::uint64_t digest = 0;
    for (const Cell& cell : cells_) {
      digest = mix(digest, cell.value[cell.steps.load(std::memory_order_relaxed) & 1]);
      digest = mix(digest, cell.own);
    }
    return digest;
  }
  /// Makes ready for another run, values kept. Steps begin at 0 again.
  void rewind() {
    for (Cell& cell : cells_) {
      cell.value[0] = cell.value[cell.steps.load() & 1];
      cell.steps = 0;
    }
  }

  std::atomic<int> broken{0};
  std::vector<std::uint64_t> questions;
  std::uint64_t stop_at = ~std::uint64_t{0};
  std::uint64_t block_steps = 256;
  std::uint32_t cores = 0;
  std::function<void(std::size_t, std::uint64_t)> work;

 private:
  struct Cell {
    std::uint64_t value[2] = {0, 0};
    std::uint64_t own = 0;
    bool half = false;
    std::atomic<bool> busy{false};
    std::atomic<std::uint64_t> steps{0};
  };
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
    return a * 0xd6e8feb86659fd93u;
  }
  std::vector<std::vector<std::uint32_t>> neighbours_;
  std::vector<Cell> cells_;
};

}  // namespace weft::scheduler
