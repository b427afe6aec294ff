// SPDX-License-Identifier: Apache-2.0
// Steps of which the device runs one part and the host the other.

#include "mesh/device/device_executor.hpp"

#include <cstring>

namespace weft::mesh {

using kernels::Rows;

ByteRanges DeviceExecutor::hosts_alone(std::span<const DeviceRegion> pieces) const {
  std::vector<ByteRange> ranges;
  for (const DeviceRegion& piece : pieces)
    if (piece.node != DeviceRegion::kShared && is_host_[piece.node])
      ranges.push_back(byte_range(piece.host, piece.bytes));
  std::vector<std::uint8_t> is_read(is_host_.size());  // there
  for (const Edge& edge : graph_.edges()) is_read[edge.from] |= !is_host_[edge.to];
  const auto add = [&](const Rows& rows) {
    if (rows.data) ranges.push_back(byte_range(rows.data, rows.rows * rows.stride * sizeof(float)));
  };
  for (NodeId node = static_cast<NodeId>(graph_.port_count()); node < is_host_.size(); ++node)
    for (std::uint64_t tick = 0; tick < state_.depth() && is_host_[node]; ++tick) {
      for (const Rows& rows : {state_.input(node, tick), state_.preactivation(node, tick), state_.cache(node, tick),
                               state_.hidden(node, tick)})
        add(rows);
      if (!is_read[node]) add(state_.output(node, tick));
    }
  return set_of(std::move(ranges));
}

void DeviceExecutor::watch_host_parts(const Engine::Recording& recording, std::uint64_t step,
                                      std::vector<gpu::Touched>& touched) {
  StepHook* const hook = engine_.hook();
  ByteArchive before;
  if (hook) hook->save_host(before);
  recorder_->watch_host(&touched);
  engine_.record_step(recording, step, Engine::Side::host);
  recorder_->watch_host(nullptr);
  static_cast<void>(recorder_->guards().take());  // the host sees for itself
  if (hook) hook->load_host(before);
}

Status DeviceExecutor::open_border(HostDeviceExchange::Step& step, std::span<const gpu::Touched> by_host,
                                   std::span<const gpu::Touched> by_device) {
  mirror_->leave_windows(by_host);
  step.host_writes = mirror_->here(by_host, true);
  step.device_writes = mirror_->here(by_device, true);
  const HostDeviceExchange::PendingTransfers arrears =
      border_.meet(mirror_->here(by_host, false), mirror_->here(by_device, false));
  upload(arrears.in);
  border_.keep(arrears.out);
  fetches_ = mirror_->twins(arrears.out);
  WEFT_CHECK(begin_fetch());
  return end_fetch();
}

void DeviceExecutor::begin_mixed(std::uint64_t tick, bool is_first) {
  has_host_failed_ = false;
  engine_.begin_host_parts(tick, is_first);
  if (notes_kept_at_ == border_.era()) return;
  notes_kept_at_ = border_.era();
  // A stored type's note of its codes is the host's alone: no operation writes it.
  std::vector<ByteRange> notes;
  for (NodeId node = 0; node < is_host_.size(); ++node) {
    const std::size_t first = weights_.first(node);
    for (std::size_t i = first; is_host_[node] && i < first + weights_.of(node).size(); ++i)
      if (const QuantizedWeight* const stored = weights_.stored(i))
        notes.push_back(byte_range(stored->block() + stored->bytes() - 1, 1));
  }
  border_.keep(set_of(std::move(notes)));
}

// Before a step fires them. What is put into the slot that a run's first tick reads needs no keeping: an earlier step
// wrote that slot, or the log puts it there again.
void DeviceExecutor::keep_ports(std::uint64_t tick) {
  std::vector<ByteRange> slots;
  for (NodeId port = 0; port < graph_.port_count(); ++port) {
    const Rows slot = state_.output(port, tick);
    if (is_host_[port]) slots.push_back(byte_range(slot.data, slot.rows * slot.stride * sizeof(float)));
  }
  border_.keep(set_of(std::move(slots)));
}

Status DeviceExecutor::run_mixed_step(std::uint64_t tick, std::uint64_t step) {
  StepHook* const hook = engine_.hook();
  const std::uint64_t now = tick + engine_.ticks_in(step);
  const auto [first, end] = hook ? hook->samples_of(step, now, 1) : std::pair<std::uint64_t, std::uint64_t>{0, 0};
  mirror_->move_window(first);
  WEFT_CHECK(push_feeds({step, 1, step, first}));
  WEFT_TRY(const auto recorded, program_of(tick, {step, 1, step, first}));
  border_.refresh(recorded->border);
  if (recorded->border.kept_at != border_.era()) keep_ports(now + 1);
  border_.keep(recorded->border);
  if (hook) mirror_->push_window(*stream_, end);
  return run_both(*recorded, step, end);
}

Status DeviceExecutor::run_both(const Recorded& recorded, std::uint64_t step, std::uint64_t end) {
  WEFT_CHECK(stream_->run(recorded.program, 1));
  fetches_ = mirror_->twins(recorded.border.out);
  figures_.exchanged_bytes += size_of(recorded.border.out) + size_of(recorded.border.in);
  if (engine_.hook())
    for (const DeviceBuffers::DeviceCopy& window : mirror_->written_windows(end)) fetches_.push_back(window);
  const std::uint64_t fired = engine_.ticks_in(step), ticks = engine_.ticks_in(step + 1) - fired;
  for (std::size_t i = 0; i < sink_places_.size(); ++i) {
    const OutputSink& sink = engine_.sinks()[i];
    const std::size_t row = state_.sessions() * graph_.nodes()[sink.node].width;
    if (ticks > 0 && !is_host_[sink.node])
      fetches_.push_back({reinterpret_cast<std::byte*>(sink.base + fired * row),
                          reinterpret_cast<std::uintptr_t>(sink_places_[i].base), row * sizeof(float)});
  }
  WEFT_CHECK(begin_fetch());
  // The device is at work meanwhile.
  has_host_failed_ = !engine_.run_host_parts(*executor_, step);
  upload(recorded.border.in);
  return end_fetch();
}

void DeviceExecutor::upload(const ByteRanges& ranges) {
  for (const DeviceBuffers::DeviceCopy& twin : mirror_->twins(ranges))
    stream_->upload(twin.host, twin.bytes, reinterpret_cast<void*>(twin.device));
}

Status DeviceExecutor::begin_fetch() {
  std::size_t bytes = 0;
  for (const DeviceBuffers::DeviceCopy& fetch : fetches_) bytes += fetch.bytes;
  if (fetched_.bytes() < bytes) {
    WEFT_TRY(fetched_, hold_.device().memory().allocate(bytes, "what crosses to the host"));
  }
  landing_.resize(bytes);
  std::byte* to = fetched_.data<std::byte>();
  for (const DeviceBuffers::DeviceCopy& fetch : fetches_) {
    stream_->transfer(reinterpret_cast<const void*>(fetch.device), fetch.bytes, to);
    to += fetch.bytes;
  }
  WEFT_TRY([[maybe_unused]] const std::uint64_t number, stream_->submit());
  return {};
}

Status DeviceExecutor::end_fetch() {
  if (landing_.empty()) return {};
  WEFT_CHECK(stream_->download(fetched_.data<void>(), landing_.size(), landing_.data()));
  const std::byte* from = landing_.data();
  for (const DeviceBuffers::DeviceCopy& fetch : fetches_) {
    std::memcpy(fetch.host, from, fetch.bytes);
    from += fetch.bytes;
  }
  return {};
}

}  // namespace weft::mesh
