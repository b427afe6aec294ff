// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/mixed_steps.hpp"

#include "mesh/device/recordable_rule.hpp"

#include <cstring>

namespace weft::mesh {

using kernels::MatrixView;

ByteRanges MixedSteps::hosts_alone(std::span<const DeviceRegion> regions) const {
  const Graph& graph = engine_.runner().graph();
  const State& state = engine_.runner().state();
  const std::span<const std::uint8_t> is_host = host_.hosts();
  std::vector<ByteRange> ranges;
  for (const DeviceRegion& region : regions)
    if (region.node != DeviceRegion::kShared && is_host[region.node])
      ranges.push_back(byte_range(region.host, region.bytes));
  std::vector<std::uint8_t> is_read(is_host.size());  // by the device
  for (const Edge& edge : graph.edges()) is_read[edge.from] |= !is_host[edge.to];
  const auto add = [&](const MatrixView& rows) {
    if (rows.data) ranges.push_back(byte_range(rows.data, rows.rows * rows.stride * sizeof(float)));
  };
  for (NodeId node = static_cast<NodeId>(graph.port_count()); node < is_host.size(); ++node)
    for (std::uint64_t tick = 0; tick < state.depth() && is_host[node]; ++tick) {
      for (const MatrixView& rows : {state.input(node, tick), state.preactivation(node, tick), state.cache(node, tick),
                                     state.hidden(node, tick)})
        add(rows);
      if (!is_read[node]) add(state.output(node, tick));
    }
  return set_of(std::move(ranges));
}

void MixedSteps::reset() {
  exchange_ = HostDeviceExchange();
  kept_at_ = 0;
}

void MixedSteps::track_host(const StepRecorder::Recording& recording, std::uint64_t step,
                            std::vector<gpu::MemoryAccess>& accesses) {
  StepRule* const rule = engine_.rule();
  ByteArchive before;
  if (rule) rule->recordable()->take_host_snapshot(before);
  image_.recorder().track_host(&accesses);
  image_.steps().record(recording, step, StepRecorder::Side::host);
  image_.recorder().track_host(nullptr);
  static_cast<void>(image_.recorder().guards().take());  // the host sees for itself
  if (rule) rule->recordable()->restore_host_snapshot(before);
}

Status MixedSteps::open(HostDeviceExchange::Step& step, std::span<const gpu::MemoryAccess> by_host,
                        std::span<const gpu::MemoryAccess> by_device) {
  DeviceBuffers& buffers = image_.buffers();
  buffers.leave_windows(by_host);
  step.host_writes = buffers.to_host(by_host, true);
  step.device_writes = buffers.to_host(by_device, true);
  const HostDeviceExchange::PendingTransfers pending =
      exchange_.meet(buffers.to_host(by_host, false), buffers.to_host(by_device, false));
  upload(pending.in);
  exchange_.keep(pending.out);
  fetches_ = buffers.device_copies(pending.out);
  WEFT_CHECK(begin_fetch());
  return end_fetch();
}

void MixedSteps::begin(std::uint64_t tick, bool is_first) {
  host_.begin(tick, is_first);
  if (kept_at_ == exchange_.epoch()) return;
  kept_at_ = exchange_.epoch();
  keep_nan_marks();
}

// A quantized weight's mark that its codes hold no NaN is the host's alone: no operation writes it.
void MixedSteps::keep_nan_marks() {
  const WeightStore& weights = engine_.runner().weights();
  std::vector<ByteRange> marks;
  for (NodeId node = 0; node < host_.hosts().size(); ++node) {
    const std::size_t first = weights.first(node);
    for (std::size_t i = first; host_.is_host(node) && i < first + weights.of(node).size(); ++i)
      if (const QuantizedWeight* const stored = weights.stored(i))
        marks.push_back(byte_range(stored->block() + stored->bytes() - 1, 1));
  }
  exchange_.keep(set_of(std::move(marks)));
}

// Before a step fires the ports. What is put into the slot that a run's first tick reads needs no keeping: an earlier
// step wrote that slot, or the log puts it there again.
void MixedSteps::keep(HostDeviceExchange::Step& step, std::uint64_t tick) {
  exchange_.refresh(step);
  if (step.kept_at != exchange_.epoch()) {
    std::vector<ByteRange> slots;
    for (NodeId port = 0; port < engine_.runner().graph().port_count(); ++port) {
      const MatrixView slot = engine_.runner().state().output(port, tick + 1);
      if (host_.is_host(port)) slots.push_back(byte_range(slot.data, slot.rows * slot.stride * sizeof(float)));
    }
    exchange_.keep(set_of(std::move(slots)));
  }
  exchange_.keep(step);
}

Status MixedSteps::run(scheduler::Executor& executor, const std::shared_ptr<gpu::CommandGraph>& graph,
                       const HostDeviceExchange::Step& crossing, const RunWindows& windows, std::uint64_t step,
                       std::uint64_t end) {
  WEFT_CHECK(image_.stream().run(graph, 1));
  fetches_ = image_.buffers().device_copies(crossing.out);
  statistics_.exchanged_bytes += size_of(crossing.out) + size_of(crossing.in);
  if (engine_.rule())
    for (const DeviceBuffers::DeviceCopy& window : image_.buffers().written_windows(end)) fetches_.push_back(window);
  const std::uint64_t fired = engine_.ticks_in(step), ticks = engine_.ticks_in(step + 1) - fired;
  for (std::size_t i = 0; i < windows.sinks().size(); ++i) {
    const OutputSink& sink = engine_.buffers().sinks()[i];
    const std::size_t row = engine_.runner().state().sessions() * engine_.runner().graph().nodes()[sink.node].width;
    if (ticks > 0 && !host_.is_host(sink.node))
      fetches_.push_back({reinterpret_cast<std::byte*>(sink.base + fired * row),
                          reinterpret_cast<std::uintptr_t>(windows.sinks()[i].base), row * sizeof(float)});
  }
  WEFT_CHECK(begin_fetch());
  // The device is at work meanwhile.
  static_cast<void>(host_.run(executor, step));
  upload(crossing.in);
  return end_fetch();
}

void MixedSteps::upload(const ByteRanges& ranges) {
  for (const DeviceBuffers::DeviceCopy& copy : image_.buffers().device_copies(ranges))
    image_.stream().upload(copy.host, copy.bytes, reinterpret_cast<void*>(copy.device));
}

Status MixedSteps::begin_fetch() {
  std::size_t bytes = 0;
  for (const DeviceBuffers::DeviceCopy& fetch : fetches_) bytes += fetch.bytes;
  if (fetched_.bytes() < bytes) {
    WEFT_TRY(fetched_, image_.memory().allocate(bytes, "what crosses to the host"));
  }
  fetched_bytes_.resize(bytes);
  std::byte* to = fetched_.data<std::byte>();
  for (const DeviceBuffers::DeviceCopy& fetch : fetches_) {
    image_.stream().transfer(reinterpret_cast<const void*>(fetch.device), fetch.bytes, to);
    to += fetch.bytes;
  }
  WEFT_TRY([[maybe_unused]] const std::uint64_t number, image_.stream().submit());
  return {};
}

Status MixedSteps::end_fetch() {
  if (fetched_bytes_.empty()) return {};
  WEFT_CHECK(image_.stream().download(fetched_.data<void>(), fetched_bytes_.size(), fetched_bytes_.data()));
  const std::byte* from = fetched_bytes_.data();
  for (const DeviceBuffers::DeviceCopy& fetch : fetches_) {
    std::memcpy(fetch.host, from, fetch.bytes);
    from += fetch.bytes;
  }
  return {};
}

}  // namespace weft::mesh
