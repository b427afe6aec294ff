// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/dependency_levels.hpp"
#include "gpu/internal/hazards.hpp"
#include "gpu/internal/heap.hpp"
#include "gpu/internal/pipelines.hpp"
#include "gpu/internal/range.hpp"
#include "gpu/vulkan_stream.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::gpu {

/// Groups of a dispatch. What a device does not allow is cut: shaders go round in loops over gl_NumWorkGroups.
struct Groups {
  std::size_t x = 1, y = 1;
  /// Operations of a command graph that share a group side by side; of shaders that know of shares, and with x = 1.
  std::uint32_t shares = 1;
  /// True when operands of a command graph may be push constants. Compilers make other machine code when all threads
  /// are known to share them: shaders that wait for memory gain, those that keep all registers busy lose up to a fifth
  /// (measured).
  bool pushes = true;
  /// Threads of a group that x and shares are meant for; 0: as the shader has them.
  std::uint32_t threads = 0;

  /// The same work for a device whose groups have at most `most` threads, 256 / n of them.
  Groups of_threads(std::uint32_t most) const noexcept {
    if (threads <= most) return *this;
    const std::uint32_t times = threads / most;
    return {x * (shares == 1 ? times : 1), y, std::max(shares / times, 1u), pushes, most};
  }
};
inline std::size_t groups_of(std::size_t items, std::size_t each) noexcept { return (items + each - 1) / each; }
/// For so many elements, in groups of `threads` that know of shares: a thread has one element, or of few four, which
/// leaves threads for other operations.
inline Groups groups_for(std::size_t items, std::size_t threads) noexcept {
  const std::size_t share = std::max<std::size_t>(std::bit_ceil(groups_of(items, 4)), 4);
  if (items == 0 || 2 * share > threads)
    return {groups_of(items, threads), 1, 1, true, static_cast<std::uint32_t>(threads)};
  return {1, 1, static_cast<std::uint32_t>(threads / share), true, static_cast<std::uint32_t>(threads)};
}
/// The same of shaders whose threads take several elements at once: of many elements, eight a thread.
inline Groups groups_for_long(std::size_t items, std::size_t threads) noexcept {
  constexpr std::size_t kEach = 8, kMany = std::size_t{1} << 18;
  return groups_for(items < kMany ? items : groups_of(items, kEach), threads);
}

/// Dispatches of a command graph while it is captured.
class GraphCapture {
 public:
  /// A shader, the values it is made for, and the address of the word that leaves it out where it is 0; 0: none.
  struct Kernel {
    const Shader* shader;
    Constants constants;
    std::uint64_t condition = 0;
    auto operator<=>(const Kernel&) const = default;
  };
  /// One shader of an operation, and where its operands stand in operands().
  struct Dispatch {
    std::uint32_t level, kernel, x, y, shares, operand_bytes;  // kernel: in kernels()
    bool pushes;
    std::size_t operands;
  };

  explicit GraphCapture(Heap& heap) : heap_(heap) {}

  /// `groups` as the device allows them.
  void add(const Kernel& kernel, const Groups& groups, std::span<const std::byte> operands, const Accesses& accesses);
  /// Gives the last dispatch, whose operands have places for them, a word to or bits into; false where it must not yet.
  bool flag_in_last(std::size_t place_of_word, std::size_t place_of_bits, const Range& word, std::uint32_t bits);
  /// Makes the last dispatch another one, of the same operands but for those that `change` sets, and of `more`
  /// accesses; false where these must come later.
  template <class Push, class Change>
  bool change_last(const Kernel& kernel, const Accesses& more, const Change& change) {
    Dispatch& last = dispatches_.back();
    Push push;
    if (last.operand_bytes != sizeof push || !levels_.join(last.level, more.reads, more.writes)) return false;
    if (!accessed_.empty()) accessed_.back().add(more);
    last.kernel = number_of(kernel);
    std::memcpy(&push, operands_.data() + last.operands, sizeof push);
    change(push);
    std::memcpy(operands_.data() + last.operands, &push, sizeof push);
    return true;
  }
  std::uint32_t last_level() const noexcept { return dispatches_.empty() ? 0 : dispatches_.back().level; }
  std::uint32_t written(const Range& range) { return levels_.written(range); }
  /// Memory of its own for each that asks.
  Result<std::uint64_t> scratch(std::size_t bytes);
  /// Memory for a copy of `data`, shared with all that ask for the same bytes.
  Result<std::uint64_t> parameters(std::span<const std::byte> data);

  /// As VulkanStream::leave_out_unread; before anything is captured.
  void leave_out_unread(std::vector<MemoryAccess> memory) { unread_ = std::move(memory); }
  /// Leaves out what nobody reads, when all is captured.
  void drop_unread();

  std::vector<Dispatch>& dispatches() noexcept { return dispatches_; }
  std::span<const Kernel> kernels() const noexcept { return kernels_; }
  std::span<const std::byte> operands() const noexcept { return operands_; }
  const std::map<std::string, std::uint64_t>& parameters() const noexcept { return parameters_; }
  std::vector<Buffer>& memory() noexcept { return memory_; }
  std::uint32_t levels() const noexcept { return levels_.count(); }

 private:
  /// Memory of a dispatch, kept where some may be left out.
  struct AccessedMemory {
    void add(const Accesses& accesses);
    std::vector<Range> reads{}, writes{};
    bool has_flags = false;
  };
  std::uint32_t number_of(const Kernel& kernel);
  /// True of memory that nobody reads after a run, scratch memory too.
  bool is_unread(const Range& range) const;

  Heap& heap_;
  DependencyLevels levels_;
  std::vector<Dispatch> dispatches_;
  std::vector<Kernel> kernels_;  // in the order of their first use
  std::map<Kernel, std::uint32_t> numbers_;
  std::vector<std::byte> operands_;
  std::map<std::string, std::uint64_t> parameters_;
  std::vector<Buffer> memory_;  // the last is free from used_ on
  std::size_t used_ = 0;
  std::vector<MemoryAccess> unread_;
  std::vector<AccessedMemory> accessed_;  // by dispatch, where unread_ is not empty
};

}  // namespace weft::gpu
