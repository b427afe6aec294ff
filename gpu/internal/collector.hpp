// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/heap.hpp"
#include "gpu/internal/levels.hpp"
#include "gpu/internal/pipelines.hpp"
#include "gpu/internal/range.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::gpu {

/// Groups of a dispatch. What a device does not allow is cut: shaders go round in loops over gl_NumWorkGroups.
struct Groups {
  std::size_t x = 1, y = 1;
  /// Operations of a program that share a group side by side; of shaders that know of shares, and with x = 1.
  std::uint32_t shares = 1;
};
inline std::size_t groups_of(std::size_t items, std::size_t each) noexcept { return (items + each - 1) / each; }
/// For so many elements, in groups of `threads` that know of shares: a thread has one element, or of few four, which
/// leaves room for other operations.
inline Groups groups_for(std::size_t items, std::size_t threads) noexcept {
  const std::size_t share = std::max<std::size_t>(std::bit_ceil(groups_of(items, 4)), 4);
  if (items == 0 || 2 * share > threads) return {groups_of(items, threads), 1};
  return {1, 1, static_cast<std::uint32_t>(threads / share)};
}

/// What a dispatch touches. Notes are words that it ors bits into atomically, in any order with other notes.
struct Accesses {
  std::initializer_list<Range> reads, writes, notes;
};

/// What a program is made of, while it is collected.
class Collector {
 public:
  /// One shader of an operation, and where its operands stand in operands().
  struct Dispatch {
    std::uint32_t level, pipeline, x, y, shares, operand_bytes;  // pipeline: in pipelines()
    std::size_t operands;
  };

  explicit Collector(Heap& heap) : heap_(heap) {}

  /// `groups` as the device allows them.
  void add(VkPipeline pipeline, const Groups& groups, std::span<const std::byte> operands, const Accesses& accesses);
  /// Memory of its own for each that asks.
  Result<std::uint64_t> scratch(std::size_t bytes);
  /// Room for a copy of `data`, shared with all that ask for the same bytes.
  Result<std::uint64_t> parameters(std::span<const std::byte> data);

  std::vector<Dispatch>& dispatches() noexcept { return dispatches_; }
  std::span<const VkPipeline> pipelines() const noexcept { return pipelines_; }
  std::span<const std::byte> operands() const noexcept { return operands_; }
  const std::map<std::string, std::uint64_t>& parameters() const noexcept { return parameters_; }
  std::vector<Buffer>& memory() noexcept { return memory_; }
  std::uint32_t levels() const noexcept { return levels_.count(); }

 private:
  Heap& heap_;
  Levels levels_;
  std::vector<Dispatch> dispatches_;
  std::vector<VkPipeline> pipelines_;  // in the order of their first use
  std::unordered_map<VkPipeline, std::uint32_t> numbers_;
  std::vector<std::byte> operands_;
  std::map<std::string, std::uint64_t> parameters_;
  std::vector<Buffer> memory_;  // the last has room from used_ on
  std::size_t used_ = 0;
};

}  // namespace weft::gpu
