// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/context.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace weft::gpu {

/// The command buffers of a recorder: one is open at a time; those that are closed wait, with those of command graphs
/// and in order, to be handed over to the queue.
/// @thread one thread at a time
class CommandBuffers {
 public:
  explicit CommandBuffers(Context& context) noexcept : context_(context) {}
  CommandBuffers(const CommandBuffers&) = delete;
  CommandBuffers& operator=(const CommandBuffers&) = delete;
  Status initialise();
  /// Waits for what was handed over; false where the device hangs.
  bool settle() noexcept { return context_.settle(last_); }
  /// Gives all back, once they have settled.
  void release() noexcept;

  bool is_open() const noexcept { return is_open_; }
  VkCommandBuffer current() const noexcept { return open_.buffer; }
  /// Opens one: a new one, or one that the device is done with.
  Status begin();
  /// Ends the open one, if any: it waits from now on.
  Status close();
  /// Lets commands of a command graph wait, which run it `runs` times.
  void append(VkCommandBuffer commands, std::uint64_t runs);
  /// Hands over what waits, and returns the number of the last submission.
  Result<std::uint64_t> submit();

  std::uint64_t last_submission() const noexcept { return last_; }
  bool has_more() const noexcept { return is_open_ || !waiting_.empty(); }
  std::uint64_t waiting_runs() const noexcept { return waiting_runs_; }

 private:
  struct Commands {
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    std::uint64_t number = 0;  // of its last submission
  };
  Context& context_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::deque<Commands> submitted_;
  Commands open_;
  bool is_open_ = false;
  std::uint64_t last_ = 0;                // submission
  std::vector<Commands> closed_;          // and not handed over
  std::vector<VkCommandBuffer> waiting_;  // in order: what is closed, and command graphs
  std::uint64_t waiting_runs_ = 0;        // of command graphs
};

}  // namespace weft::gpu
