// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/context.hpp"
#include "gpu/internal/heap.hpp"
#include "gpu/internal/pipelines.hpp"

#include "kernels/views.hpp"
#include "kernels/weight.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weft::gpu {

/// Bytes of device memory that a command touches: [begin, end).
struct Range {
  std::uint64_t begin = 0, end = 0;
};
/// The address of an operand as shaders get it; 0 for null.
inline std::uint64_t address(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }
inline Range range(const void* data, std::size_t bytes) noexcept {
  return {address(data), data ? address(data) + bytes : 0};
}
/// What a matrix touches, gaps between its rows included.
inline Range range(const kernels::ConstRows& m) noexcept {
  return range(m.data, m.rows == 0 || m.cols == 0 ? 0 : ((m.rows - 1) * m.stride + m.cols) * sizeof(float));
}
inline Range range(const kernels::ConstPanels& w) noexcept {
  return range(w.data, kernels::panels_size(w.out, w.in) * sizeof(float));
}
/// The arrays of a stored weight.
struct WeightRanges {
  explicit WeightRanges(const kernels::ConstWeight& w) noexcept {
    const kernels::WeightBytes bytes = kernels::weight_bytes(w.encoding(), w.out, w.in);
    codes = range(w.codes, bytes.codes);
    scales = range(w.scales, bytes.scales);
    zeros = range(w.zeros, bytes.zeros);
  }
  Range codes, scales, zeros;
};
/// A size as shaders count it.
inline std::uint32_t word(std::size_t value) noexcept { return static_cast<std::uint32_t>(value); }
inline std::size_t groups_of(std::size_t items, std::size_t each) noexcept { return (items + each - 1) / each; }

/// Rows of a group of gpu/shaders/lanes.glsl.
inline constexpr std::size_t kLaneGroupRows = 4;

/// Groups of a dispatch. What a device does not allow is cut: shaders go round in loops over gl_NumWorkGroups.
struct Groups {
  std::size_t x = 1, y = 1;
};

/// Commands for the device: shaders and copies, with a barrier before each that touches what an earlier one wrote (or
/// writes what an earlier one read). Knows nothing of operations.
///
/// A failure stays: nothing is recorded after it.
/// @thread one thread at a time
class Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> create(std::shared_ptr<Context> context, Heap& heap, Pipelines& pipelines);
  /// Waits for what was submitted.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Records a shader over its operands, which are `push` as its push constant block declares them.
  template <class Push>
  void dispatch(const Shader& shader, const Constants& constants, const Push& push, Groups groups,
                std::initializer_list<Range> reads, std::initializer_list<Range> writes) {
    static_assert(std::is_trivially_copyable_v<Push> && sizeof(Push) <= Pipelines::kPushBytes);
    record(shader, constants, &push, sizeof push, groups, reads, writes);
  }
  /// Operands that exceed push constants: a copy of them that the next dispatch may read, by its device address.
  std::uint64_t parameters(const void* data, std::size_t bytes);
  void upload(const void* from, std::size_t bytes, void* to);
  Status download(const void* from, std::size_t bytes, void* to);

  Result<std::uint64_t> submit();
  Status wait(std::uint64_t number);
  Status status() const;
  /// Keeps the first failure.
  void fail_with(Error error);

  Heap& heap() noexcept { return heap_; }
  const Context& context() const noexcept { return *context_; }
  std::uint64_t dispatches() const noexcept { return dispatches_; }
  std::uint64_t barriers() const noexcept { return barriers_; }

 private:
  struct Commands {
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    std::uint64_t number = 0;  // of its last submission
  };
  /// Half of the memory that uploads pass through; the other half may be in use meanwhile.
  struct Half {
    Piece piece;
    std::size_t used = 0;
    std::uint64_t number = 0;  // of the last submission that reads it
  };

  Recorder(std::shared_ptr<Context> context, Heap& heap, Pipelines& pipelines)
      : context_(std::move(context)), heap_(heap), pipelines_(pipelines) {}
  Status initialise();
  void record(const Shader& shader, const Constants& constants, const void* push, std::size_t push_bytes, Groups groups,
              std::initializer_list<Range> reads, std::initializer_list<Range> writes);
  /// Opens a command buffer if none is open; false after a failure.
  bool open();
  Status begin();
  void order(std::initializer_list<Range> reads, std::initializer_list<Range> writes);
  void barrier(VkPipelineStageFlags to_stages, VkAccessFlags to_access);
  /// Room in a half for so many bytes; submits and waits for the other half when this one is full.
  Result<std::size_t> room(std::size_t bytes);
  Status stage(const std::byte* from, std::size_t bytes, std::uint64_t to);
  Status fetch(std::uint64_t from, std::size_t bytes, std::byte* to);

  std::shared_ptr<Context> context_;
  Heap& heap_;
  Pipelines& pipelines_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::deque<Commands> submitted_;
  Commands open_;
  bool is_open_ = false;
  std::uint64_t last_ = 0;             // submission
  std::vector<Range> reads_, writes_;  // since the last barrier
  VkPipeline bound_ = VK_NULL_HANDLE;
  std::array<Half, 2> halves_;
  std::size_t half_ = 0;
  Piece fetched_;
  std::optional<Error> failure_;
  std::uint64_t dispatches_ = 0, barriers_ = 0;
};

}  // namespace weft::gpu
