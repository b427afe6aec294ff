// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/command_buffers.hpp"
#include "gpu/internal/context.hpp"
#include "gpu/internal/graph_capture.hpp"
#include "gpu/internal/hazards.hpp"
#include "gpu/internal/heap.hpp"
#include "gpu/internal/pipelines.hpp"
#include "gpu/internal/range.hpp"
#include "gpu/internal/recorded_graph.hpp"
#include "gpu/internal/staging.hpp"
#include "gpu/vulkan_stream.hpp"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weft::gpu {

/// A size as shaders count it.
inline std::uint32_t word(std::size_t value) noexcept { return static_cast<std::uint32_t>(value); }

/// Rows of a group of gpu/shaders/lanes.glsl.
inline constexpr std::size_t kLaneGroupRows = 4;

/// Commands for the device: shaders and copies, with a barrier before each that touches what an earlier one wrote (or
/// writes what an earlier one read). Knows nothing of operations. Between begin_capture and end_capture shaders are
/// captured instead.
///
/// A failure stays: nothing is recorded after it.
/// @thread one thread at a time
class Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> create(std::shared_ptr<Context> context, Heap& heap, Pipelines& pipelines);
  /// Waits for what was submitted, unless the device hangs.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Records a shader over its operands, which are `push` as its push constant block declares them.
  template <class Push>
  void dispatch(const Shader& shader, const Constants& constants, const Push& push, Groups groups,
                std::initializer_list<Range> reads, std::initializer_list<Range> writes,
                std::initializer_list<Range> flags = {}) {
    static_assert(std::is_trivially_copyable_v<Push> && sizeof(Push) <= sizeof(Pipelines::Push::operands) &&
                  sizeof(Push) % 8 == 0);
    record(shader, constants, {reinterpret_cast<const std::byte*>(&push), sizeof push}, groups, {reads, writes, flags});
  }
  /// Dispatches that follow are left out where the word at this address is 0 when their turn comes; 0: none is.
  void run_only_if(std::uint64_t word) noexcept { condition_ = word; }
  bool captures() const noexcept { return capture_ != nullptr; }
  /// Dispatches of the command graph that is being captured; 0 where none is.
  std::size_t captured() const noexcept { return capture_ ? capture_->dispatches().size() : 0; }
  /// As GraphCapture::flag_in_last, of a command graph with dispatches.
  bool flag_in_last(std::size_t place_of_word, std::size_t place_of_bits, std::uint32_t* word, std::uint32_t bits) {
    return capture_->flag_in_last(place_of_word, place_of_bits, range(word, sizeof bits), bits);
  }
  /// As GraphCapture::change_last, of a command graph with dispatches.
  template <class Push, class Change>
  bool change_last(GraphCapture::Kernel kernel, std::initializer_list<Range> reads, std::initializer_list<Range> writes,
                   const Change& change) {
    kernel.condition = condition_;
    return capture_->change_last<Push>(kernel, {reads, writes, {}}, change);
  }
  /// Level of the last captured dispatch, and of the last one that wrote to a range; 0: none, or nothing is captured.
  std::uint32_t last_level() const noexcept { return capture_ ? capture_->last_level() : 0; }
  std::uint32_t written(const Range& range) { return capture_ ? capture_->written(range) : 0; }
  /// Operands that exceed push constants: a copy of them that the next dispatch may read, by its device address.
  std::uint64_t parameters(const void* data, std::size_t bytes);
  /// Memory of one operation: its dispatches write it first, and the next operation's come after a barrier. 0 after a
  /// failure.
  std::uint64_t scratch(std::size_t bytes);
  void upload(const void* from, std::size_t bytes, void* to);
  Status download(const void* from, std::size_t bytes, void* to);
  void transfer(const void* from, std::size_t bytes, void* to);

  Status begin_capture();
  void leave_out_unread(std::vector<MemoryAccess> memory) {
    if (capture_) capture_->leave_out_unread(std::move(memory));
  }
  Result<std::shared_ptr<CommandGraph>> end_capture();
  Status run(const std::shared_ptr<CommandGraph>& graph, std::uint64_t times);

  Result<std::uint64_t> submit();
  Status wait(std::uint64_t number);
  Status status() const;
  /// Keeps the first failure, and waits for what is under way: nothing more is waited for after it.
  void fail_with(Error error);

  Heap& heap() noexcept { return heap_; }
  const Context& context() const noexcept { return *context_; }
  std::uint64_t dispatches() const noexcept { return dispatches_; }
  std::uint64_t barriers() const noexcept { return barriers_; }

 private:
  struct Held {
    std::shared_ptr<RecordedGraph> graph;
    std::uint64_t number = 0;  // of the submission that is its last; 0: not handed over
  };

  Recorder(std::shared_ptr<Context> context, Heap& heap, Pipelines& pipelines)
      : context_(std::move(context)),
        heap_(heap),
        pipelines_(pipelines),
        commands_(*context_),
        validation_errors_(context_->instance->error_count()) {}
  Status initialise();
  void record(const Shader& shader, const Constants& constants, std::span<const std::byte> operands, Groups groups,
              const Accesses& accesses);
  /// Opens a command buffer if none is open; false after a failure.
  bool open();
  /// Closes it, to be handed over with what else waits.
  void close();
  /// Hands over what waits, and returns its number.
  Result<std::uint64_t> flush();
  /// True, and a failure, while a command graph is captured.
  bool is_capturing(const char* what);
  /// Keeps a command graph until what was recorded so far is done; forgets those that are done.
  void hold(std::shared_ptr<RecordedGraph> graph);
  void forget();
  /// A failure where the validation layers found an error since the stream was made.
  void check_validation_errors();
  void order(const Accesses& accesses);
  void barrier(VkPipelineStageFlags to_stages, VkAccessFlags to_access);
  /// Room for so many bytes of an upload; submits and waits for the other half of staging memory when this one is full.
  Result<std::size_t> reserve(std::size_t bytes);
  Status stage(const std::byte* from, std::size_t bytes, std::uint64_t to);
  /// Copies to `place` of the memory that downloads pass through, and returns the submission's number.
  Result<std::uint64_t> fetch(std::uint64_t from, std::size_t bytes, std::size_t place);

  std::shared_ptr<Context> context_;
  Heap& heap_;
  Pipelines& pipelines_;
  CommandBuffers commands_;
  Hazards hazards_;
  Staging staging_;
  std::unique_ptr<GraphCapture> capture_;  // while a command graph is captured
  std::vector<Held> held_;
  VkPipeline bound_ = VK_NULL_HANDLE;
  std::vector<Buffer> scratch_;  // the last is in use; commands under way may still read the others
  std::optional<Error> failure_;
  std::size_t validation_errors_;  // of the validation layers, before it was made
  std::uint64_t dispatches_ = 0, barriers_ = 0;
  std::uint64_t condition_ = 0;  // address of the word that leaves dispatches out; 0: none
  bool has_conditions_ = false;  // some dispatch had one
};

}  // namespace weft::gpu
