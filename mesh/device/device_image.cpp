// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_image.hpp"

#include "mesh/device/recordable_rule.hpp"

#include <algorithm>

namespace weft::mesh {

namespace {
constexpr std::uint64_t kScratchBytes = std::uint64_t{256} << 20;
}  // namespace

Status DeviceImage::open() {
  if (stream_) return {};
  WEFT_TRY(stream_, recovery_.device().make_stream());
  return counts_.allocate_flags(memory());
}

void DeviceImage::reset() {
  steps_.reset();
  recorder_.reset();
  buffers_.reset();
  weights_seen_ = engine_.runner().weights().changes();
}

std::vector<DeviceRegion> DeviceImage::regions() const {
  std::vector<DeviceRegion> regions;
  engine_.runner().state().each_slot([&](const float* data, std::size_t bytes) {
    regions.push_back({data, bytes, RegionUse::kept, 0, kState});
  });
  // Steps without a rule leave the weights as they are.
  const WeightStore& weights = engine_.runner().weights();
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    weights.visit_memory(i, [&](const Field&, std::span<const std::byte> memory) {
      regions.push_back({memory.data(), memory.size(), RegionUse::kept, 0, kWeights, weights.parameters()[i].node});
    });
  for (const AlignedBuffer<float>& workspace : engine_.runner().streams().workspaces())
    regions.push_back({workspace.data(), workspace.size() * sizeof(float), RegionUse::scratch});
  if (StepRule* const rule = engine_.rule())
    rule->recordable()->each_region([&](DeviceRegion region) {
      region.group = kRule;
      regions.push_back(region);
    });
  return regions;
}

Status DeviceImage::make(std::size_t window, const HostRanges& hosts) {
  std::vector<DeviceRegion> all = regions();
  std::uint64_t scratch = 0;
  for (const DeviceRegion& region : all)
    if (region.use == RegionUse::scratch) scratch += region.bytes;
  const auto firing = static_cast<std::uint64_t>(std::count(is_host_.begin(), is_host_.end(), 0));
  const std::uint64_t copies = scratch ? std::clamp<std::uint64_t>(kScratchBytes / scratch, 1, firing) : 1;
  const ByteRanges never_touched = hosts(all);
  WEFT_TRY(buffers_, DeviceBuffers::build(recovery_.device(), std::move(all), window, copies, never_touched));
  const std::size_t nodes = engine_.runner().graph().nodes().size();
  WEFT_CHECK(counts_.allocate_counts(memory(), nodes));
  recorder_ = std::make_unique<GraphRecorder>(*stream_, *buffers_, counts_.flags(),
                                              StepGuards(*stream_, counts_.guards(), nodes));
  steps_.emplace(*recorder_, engine_.runner(), is_host_, is_custom_);
  return {};
}

void DeviceImage::finish() noexcept {
  if (stream_) static_cast<void>(stream_->finish());
}

void DeviceImage::drop() noexcept {
  steps_.reset();
  recorder_.reset();
  buffers_.reset();
  counts_.drop();
  stream_.reset();
}

}  // namespace weft::mesh
