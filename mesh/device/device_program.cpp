// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_program.hpp"

#include "mesh/device/device_buffers.hpp"
#include "mesh/device/graph_recorder.hpp"
#include "mesh/device/run_counts.hpp"

#include "gpu/device.hpp"
#include "gpu/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace weft::mesh {
namespace {

constexpr std::size_t kMostRecorded = 256;

void* place(std::uint64_t device) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(device)); }

}  // namespace

struct DeviceProgram::Parts {
  Parts(std::shared_ptr<gpu::Device> on, DeviceBuffers memory, std::unique_ptr<gpu::VulkanStream> to)
      : device(std::move(on)), buffers(std::move(memory)), stream(std::move(to)) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    if (stream) static_cast<void>(stream->finish());  // memory goes once nothing works on it
  }

  std::shared_ptr<gpu::Device> device;
  DeviceBuffers buffers;
  std::unique_ptr<gpu::VulkanStream> stream;
  RunCounts counts{};
  std::unique_ptr<GraphRecorder> recorder{};
  std::map<std::uint64_t, std::shared_ptr<gpu::CommandGraph>> graphs{};
  gpu::Buffer gathered{};  // parts side by side on their way to the host
  Work work{};
  std::vector<gpu::MemoryAccess> unread{};
};

DeviceProgram::DeviceProgram(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DeviceProgram::DeviceProgram(DeviceProgram&&) noexcept = default;
DeviceProgram& DeviceProgram::operator=(DeviceProgram&&) noexcept = default;
DeviceProgram::~DeviceProgram() = default;

Result<DeviceProgram> DeviceProgram::make(std::shared_ptr<gpu::Device> device, std::vector<DeviceRegion> regions) {
  WEFT_TRY(DeviceBuffers buffers, DeviceBuffers::build(*device, std::move(regions), 1, 1));
  auto stream = device->make_stream();
  if (!stream) return fail(std::move(stream).error());
  auto parts = std::make_unique<Parts>(std::move(device), std::move(buffers), std::move(*stream));
  WEFT_CHECK(parts->counts.allocate_flags(parts->device->memory()));
  WEFT_CHECK(parts->counts.allocate_counts(parts->device->memory(), 1));
  parts->recorder = std::make_unique<GraphRecorder>(*parts->stream, parts->buffers, parts->counts.flags(),
                                                    StepGuards(*parts->stream, parts->counts.guards(), 1));
  WEFT_CHECK(parts->counts.reset(*parts->stream, true));
  parts->buffers.upload(*parts->stream);
  WEFT_CHECK(parts->stream->finish());
  return DeviceProgram(std::move(parts));
}

Status DeviceProgram::run(std::uint64_t key, const Record& record) {
  Parts& p = *parts_;
  auto found = p.graphs.find(key);
  if (found == p.graphs.end()) {
    WEFT_CHECK(p.stream->begin_capture());
    if (!p.unread.empty()) p.stream->leave_out_unread(p.unread);
    record(*p.recorder);
    WEFT_TRY(std::shared_ptr<gpu::CommandGraph> graph, p.stream->end_capture());
    WEFT_CHECK(p.recorder->status());
    if (p.graphs.size() >= kMostRecorded) p.graphs.clear();
    found = p.graphs.emplace(key, std::move(graph)).first;
  }
  p.work.levels += found->second->levels();
  p.work.dispatches += found->second->dispatches();
  return p.stream->run(found->second);
}

void DeviceProgram::leave_out_unread(std::vector<std::span<const float>> memory) {
  for (const std::span<const float> each : memory) {
    if (each.empty()) continue;
    const std::uint64_t begin = parts_->buffers.to_device(each.data());
    parts_->unread.push_back({begin, begin + each.size_bytes(), true});
  }
}

Status DeviceProgram::run_once(const Record& record) {
  record(*parts_->recorder);
  WEFT_CHECK(parts_->recorder->status());
  return parts_->stream->status();
}

Status DeviceProgram::upload(const void* host, std::size_t bytes) {
  parts_->stream->upload(host, bytes, place(parts_->buffers.to_device(host)));
  WEFT_CHECK(parts_->buffers.status());
  return parts_->stream->status();
}

Status DeviceProgram::download(void* host, std::size_t bytes) {
  const std::uint64_t from = parts_->buffers.to_device(host);
  WEFT_CHECK(parts_->buffers.status());
  return parts_->stream->download(place(from), bytes, host);
}

Status DeviceProgram::download(std::span<const std::span<float>> host) {
  Parts& p = *parts_;
  std::size_t bytes = 0;
  for (const std::span<float> each : host) bytes += each.size_bytes();
  if (bytes == 0) return p.stream->status();
  if (p.gathered.bytes() < bytes) {
    WEFT_CHECK(p.stream->finish());
    WEFT_TRY(p.gathered, p.device->memory().allocate(bytes, "parts on their way to the host"));
  }
  std::size_t at = 0;
  for (const std::span<float> each : host) {
    p.stream->transfer(place(p.buffers.to_device(each.data())), each.size_bytes(), p.gathered.data<std::byte>() + at);
    at += each.size_bytes();
  }
  WEFT_CHECK(p.buffers.status());
  std::vector<float> values(bytes / sizeof(float));
  WEFT_CHECK(p.stream->download(p.gathered.data(), bytes, values.data()));
  const float* from = values.data();
  for (const std::span<float> each : host) {
    std::copy_n(from, each.size(), each.data());
    from += each.size();
  }
  return {};
}

DeviceProgram::Work DeviceProgram::take_work() noexcept { return std::exchange(parts_->work, {}); }

std::uint64_t DeviceProgram::bytes() const noexcept {
  std::uint64_t bytes = parts_->buffers.bytes();
  for (const auto& [key, graph] : parts_->graphs) bytes += graph->bytes();
  return bytes;
}

}  // namespace weft::mesh
