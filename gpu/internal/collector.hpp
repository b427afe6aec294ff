// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/heap.hpp"
#include "gpu/internal/levels.hpp"
#include "gpu/internal/pipelines.hpp"
#include "gpu/internal/range.hpp"

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
};

/// What a dispatch touches. Notes are words that it ors bits into atomically, in any order with other notes.
struct Accesses {
  std::initializer_list<Range> reads, writes, notes;
};

/// What a program is made of, while it is collected.
class Collector {
 public:
  /// One shader of an operation, and where its operands stand in operands().
  struct Dispatch {
    std::uint32_t level, pipeline, x, y, operand_bytes;  // pipeline: in pipelines()
    std::size_t operands;
  };

  explicit Collector(Heap& heap) : heap_(heap) {}

  void add(VkPipeline pipeline, std::uint32_t x, std::uint32_t y, std::span<const std::byte> operands,
           const Accesses& accesses);
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
