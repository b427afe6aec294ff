// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_program.hpp"

#include "mesh/device/device_buffers.hpp"
#include "mesh/device/graph_recorder.hpp"
#include "mesh/device/run_counts.hpp"

#include "gpu/device.hpp"

#include <map>
#include <utility>

namespace weft::mesh {
namespace {

constexpr std::size_t kMostRecorded = 64;

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
    record(*p.recorder);
    WEFT_TRY(std::shared_ptr<gpu::CommandGraph> graph, p.stream->end_capture());
    WEFT_CHECK(p.recorder->status());
    if (p.graphs.size() >= kMostRecorded) p.graphs.clear();
    found = p.graphs.emplace(key, std::move(graph)).first;
  }
  return p.stream->run(found->second);
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

std::uint64_t DeviceProgram::bytes() const noexcept {
  std::uint64_t bytes = parts_->buffers.bytes();
  for (const auto& [key, graph] : parts_->graphs) bytes += graph->bytes();
  return bytes;
}

}  // namespace weft::mesh
