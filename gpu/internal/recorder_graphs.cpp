// SPDX-License-Identifier: Apache-2.0
// The part of the recorder that makes command graphs and runs them.

#include "gpu/internal/recorder.hpp"

#include <algorithm>

namespace weft::gpu {
namespace {
// Runs of command graphs that wait for one submission, so that the device gets to work on long runs meanwhile, and is
// seen to go on (DeviceOptions::timeout).
constexpr std::uint64_t kMostWaiting = 32;
}  // namespace

Status Recorder::begin_capture() {
  WEFT_CHECK(status());
  if (!is_capturing("begin_capture")) capture_ = std::make_unique<GraphCapture>(heap_);
  return status();
}

Result<std::shared_ptr<CommandGraph>> Recorder::end_capture() {
  const std::unique_ptr<GraphCapture> captured = std::move(capture_);
  if (!captured && !failure_) fail_with(Error(Errc::internal, "vulkan: end_capture without begin_capture"));
  WEFT_CHECK(status());
  captured->drop_unread();
  std::vector<std::byte> table;
  auto made = RecordedGraph::create(context_, heap_, pipelines_, *this, *captured, table);
  if (!made) {
    fail_with(made.error());
    return fail(made.error());
  }
  const std::shared_ptr<RecordedGraph> graph = *made;
  const auto place = [&](std::span<const std::byte> data, std::uint64_t at) {
    upload(data.data(), data.size(), reinterpret_cast<void*>(static_cast<std::uintptr_t>(at)));
  };
  if (!table.empty()) place(table, graph->table_address());
  for (const auto& [data, at] : captured->parameters()) place(std::as_bytes(std::span(data)), at);
  hold(graph);  // its memory is being written
  WEFT_CHECK(status());
  return std::shared_ptr<CommandGraph>(graph);
}

Status Recorder::run(const std::shared_ptr<CommandGraph>& graph, std::uint64_t times) {
  WEFT_CHECK(status());
  if (is_capturing("run")) return status();
  const auto recorded = std::dynamic_pointer_cast<RecordedGraph>(graph);
  if (!recorded || recorded->home() != this) {
    fail_with(Error(Errc::invalid_argument, graph ? "vulkan: run of a command graph that another stream captured"
                                                  : "vulkan: run of no command graph"));
    return status();
  }
  if (recorded->dispatches() == 0) return {};
  has_conditions_ |= recorded->has_conditions();
  close();
  for (std::uint64_t left = times; left > 0;) {
    WEFT_TRY(const auto commands, recorded->commands(left));
    commands_.append(commands.buffer, commands.runs);
    left -= commands.runs;
    if (commands_.waiting_runs() >= kMostWaiting) WEFT_CHECK(flush());
  }
  dispatches_ += times * recorded->dispatches();
  barriers_ += times * recorded->levels();
  hold(recorded);
  return status();
}

void Recorder::hold(std::shared_ptr<RecordedGraph> graph) {
  const std::uint64_t number = commands_.has_more() ? 0 : commands_.last_submission();
  for (Held& each : held_)
    if (each.graph == graph) {
      each.number = number;
      return;
    }
  held_.push_back({std::move(graph), number});
}

void Recorder::forget() {
  const std::uint64_t done = context_->done();
  std::erase_if(held_, [&](const Held& each) { return each.number != 0 && each.number <= done; });
}

std::uint64_t Recorder::scratch(std::size_t bytes) {
  if (failure_) return 0;
  if (capture_) {
    const auto at = capture_->scratch(bytes);
    return at ? *at : (fail_with(at.error()), 0);
  }
  if (scratch_.empty() || scratch_.back().bytes() < bytes) {
    // Twice the last, so that all that were outgrown together are no more than the one in use.
    const std::size_t grown = scratch_.empty() ? bytes : std::max(bytes, 2 * scratch_.back().bytes());
    auto buffer = heap_.allocate(std::max<std::size_t>(grown, 1), "scratch memory of operations");
    if (!buffer) return fail_with(buffer.error()), 0;
    scratch_.push_back(std::move(*buffer));
  }
  return scratch_.back().address();
}

}  // namespace weft::gpu
