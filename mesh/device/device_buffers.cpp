// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_buffers.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace weft::mesh {
namespace {

// Regions are packed into blocks of this size: below the limit of an allocation (4 GiB on NVIDIA's).
constexpr std::size_t kBlock = std::size_t{1} << 30;

// As on the host: so regions of equal cells lie a step apart on the device too.
constexpr std::size_t kLine = 64;
std::size_t aligned(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// First of the addresses that name host memory alone: no device has memory there.
constexpr std::uint64_t kNowhere = std::uint64_t{1} << 63;

/// The parts of `region` that are the host's alone, and those that are not, in order.
template <class Visit>
void cut(const DeviceRegion& region, const ByteRanges& hosts, const Visit& visit) {
  const ByteRange all = byte_range(region.host, region.bytes);
  const bool is_divisible =
      region.use == RegionUse::kept || region.use == RegionUse::constant || region.use == RegionUse::own;
  const ByteRanges theirs = is_divisible ? common({all}, hosts) : ByteRanges();
  std::uintptr_t at = all.begin;
  const auto part = [&](std::uintptr_t end, bool is_hosts) {
    if (end == at) return;
    DeviceRegion some = region;
    some.host = reinterpret_cast<const void*>(at);
    some.bytes = end - at;
    visit(some, is_hosts);
    at = end;
  };
  for (const ByteRange& range : theirs) {
    part(range.begin, false);
    part(range.end, true);
  }
  part(all.end, false);
}

}  // namespace

Result<DeviceBuffers> DeviceBuffers::build(gpu::Device& device, std::vector<DeviceRegion> regions, std::size_t window,
                                           std::size_t copies, const ByteRanges& hosts) {
  DeviceBuffers buffers;
  buffers.device_ = &device;
  buffers.window_ = window;
  buffers.copies_ = std::max<std::size_t>(copies, 1);
  std::erase_if(regions, [](const DeviceRegion& region) { return region.bytes == 0; });

  struct Place {
    std::size_t block, offset;
  };
  std::vector<Place> places;
  std::vector<std::size_t> sizes;
  std::uint64_t nowhere = kNowhere + kLine;
  const auto place = [&](const DeviceRegion& region, bool is_hosts) {
    std::size_t capacity = region.bytes;
    if (is_hosts) {
      places.push_back({kNoBlock, 0});
      buffers.entries_.push_back({region, nowhere, aligned(capacity), capacity, false, kNoBlock});
      nowhere += aligned(capacity);
      return;
    }
    if (region.use == RegionUse::scratch) capacity = aligned(capacity) * buffers.copies_;
    if (region.use == RegionUse::window) capacity = region.slot * window;
    // Two adjacent regions that are both copied stay adjacent and become one.
    if (!buffers.entries_.empty()) {
      Entry& before = buffers.entries_.back();
      if (places.back().block != kNoBlock && is_copied(before) && before.region.use == region.use &&
          before.region.group == region.group && before.begin() + before.region.bytes == region.host &&
          sizes.back() + capacity <= kBlock && places.back().offset + before.region.bytes == sizes.back()) {
        before.region.bytes += capacity;
        before.capacity += capacity;
        sizes.back() += capacity;
        return;
      }
    }
    if (sizes.empty() || aligned(sizes.back()) + capacity > kBlock) sizes.push_back(0);
    const std::size_t offset = aligned(sizes.back());
    places.push_back({sizes.size() - 1, offset});
    sizes.back() = offset + capacity;
    buffers.entries_.push_back({region, 0, aligned(region.bytes), capacity, false});
  };
  for (const DeviceRegion& region : regions) cut(region, hosts, place);
  for (const std::size_t size : sizes) {
    WEFT_TRY(gpu::Buffer block, device.memory().allocate(size, "the mesh's state and weights"));
    buffers.blocks_.push_back(std::move(block));
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].block == kNoBlock) continue;
    buffers.entries_[i].block = places[i].block;
    buffers.entries_[i].device = buffers.blocks_[places[i].block].address() + places[i].offset;
  }
  std::sort(buffers.entries_.begin(), buffers.entries_.end(),
            [](const Entry& a, const Entry& b) { return a.region.host < b.region.host; });
  for (std::size_t i = 0; i < places.size(); ++i) buffers.by_device_.push_back(i);
  std::sort(buffers.by_device_.begin(), buffers.by_device_.end(),
            [&](std::size_t a, std::size_t b) { return buffers.entries_[a].device < buffers.entries_[b].device; });
  return buffers;
}

std::uint64_t DeviceBuffers::to_device(const void* host) const noexcept {
  if (!host) return 0;
  const auto after = std::upper_bound(entries_.begin(), entries_.end(), host,
                                      [](const void* place, const Entry& entry) { return place < entry.region.host; });
  if (after != entries_.begin()) {
    const Entry& entry = *std::prev(after);
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(host) - entry.begin());
    if (offset < entry.region.bytes && (entry.block != kNoBlock || tracks_host_)) {
      switch (entry.region.use) {
        case RegionUse::kept:
        case RegionUse::constant:
        case RegionUse::own:
          return entry.device + offset;
        case RegionUse::scratch:
          return entry.device + copy_ * entry.stride + offset;
        case RegionUse::window: {
          const std::size_t slots = entry.region.bytes / entry.region.slot;
          const std::size_t at = (offset / entry.region.slot - first_) & (slots - 1);
          if (at < window_) return entry.device + at * entry.region.slot + offset % entry.region.slot;
        }
      }
    }
  }
  if (!failure_)
    failure_ = Error(Errc::internal, "vulkan: an operation reads or writes host memory that has no device copy");
  return 0;
}

std::uint64_t DeviceBuffers::constant(const void* host, std::size_t bytes) const {
  if (!host || bytes == 0) return 0;
  if (tracks_host_) return kNowhere;  // where no region is
  if (const auto found = constants_.find(host); found != constants_.end()) return found->second.address();
  const auto make = [&]() -> Result<gpu::Buffer> {
    WEFT_TRY(gpu::Buffer buffer, device_->memory().allocate(bytes, "a layer's tables"));
    // A stream of its own: the caller's may be capturing a command graph.
    WEFT_TRY(const auto stream, device_->make_stream());
    stream->upload(host, bytes, buffer.data<void>());
    WEFT_CHECK(stream->finish());
    return buffer;
  };
  auto made = make();
  if (!made) {
    if (!failure_) failure_ = made.error();
    return 0;
  }
  return constants_.emplace(host, std::move(*made)).first->second.address();
}

void DeviceBuffers::upload(gpu::VulkanStream& stream) const {
  for (const Entry& entry : entries_)
    if (is_copied(entry)) stream.upload(entry.region.host, entry.region.bytes, reinterpret_cast<void*>(entry.device));
}

Status DeviceBuffers::read_back(gpu::VulkanStream& stream, std::uint32_t groups, const ByteRanges& except,
                                Readback& to) const {
  const auto is_wanted = [&](const Entry& entry) {
    return entry.block != kNoBlock && entry.region.use == RegionUse::kept && entry.region.group < groups;
  };
  std::vector<const Entry*> wanted;
  for (const Entry& entry : entries_)
    if (is_wanted(entry)) wanted.push_back(&entry);
  std::sort(wanted.begin(), wanted.end(), [](const Entry* a, const Entry* b) { return a->device < b->device; });
  // Neighbours come together.
  struct Run {
    std::size_t first, count, place, bytes;
  };
  std::vector<Run> runs;
  std::size_t bytes = 0;
  for (std::size_t first = 0; first < wanted.size();) {
    std::size_t count = 1;
    std::uint64_t end = wanted[first]->device + wanted[first]->region.bytes;
    const auto goes_on = [&](const Entry& next) {
      return next.block == wanted[first]->block && next.device - end < kLine;
    };
    for (; first + count < wanted.size() && goes_on(*wanted[first + count]); ++count)
      end = wanted[first + count]->device + wanted[first + count]->region.bytes;
    runs.push_back({first, count, bytes, static_cast<std::size_t>(end - wanted[first]->device)});
    bytes += runs.back().bytes;
    first += count;
  }
  if (to.bytes.size() < bytes) to.bytes = AlignedBuffer<std::byte>(bytes);
  to.parts.clear();
  for (const Run& run : runs) {
    WEFT_CHECK(stream.download(reinterpret_cast<const void*>(wanted[run.first]->device), run.bytes,
                               to.bytes.data() + run.place));
    for (std::size_t i = run.first; i < run.first + run.count; ++i) {
      const std::size_t place = run.place + (wanted[i]->device - wanted[run.first]->device);
      const ByteRange all_of_it = byte_range(wanted[i]->region.host, wanted[i]->region.bytes);
      for (const ByteRange& range : without({all_of_it}, except))
        to.parts.push_back({reinterpret_cast<std::byte*>(range.begin), place + (range.begin - all_of_it.begin),
                            range.end - range.begin});
    }
  }
  return {};
}

template <class Visit>
void DeviceBuffers::each_window_part(const Entry& entry, std::uint64_t end, Visit&& visit) const {
  if (entry.region.use != RegionUse::window || end <= first_) return;
  const std::size_t slot = entry.region.slot, slots = entry.region.bytes / slot;
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(end - first_, window_));
  // The ring's end may lie within.
  for (std::size_t at = 0; at < count;) {
    const std::size_t from = (first_ + at) & (slots - 1), run = std::min(count - at, slots - from);
    visit(DeviceCopy{const_cast<std::byte*>(entry.begin()) + from * slot, entry.device + at * slot, run * slot});
    at += run;
  }
}

void DeviceBuffers::upload_window(gpu::VulkanStream& stream, std::uint64_t end) const {
  for (const Entry& entry : entries_)
    each_window_part(entry, end, [&](const DeviceCopy& copy) {
      stream.upload(copy.host, copy.bytes, reinterpret_cast<void*>(copy.device));
    });
}

Status DeviceBuffers::download_window(gpu::VulkanStream& stream, std::uint64_t end) const {
  for (const DeviceCopy& copy : written_windows(end))
    WEFT_CHECK(stream.download(reinterpret_cast<const void*>(copy.device), copy.bytes, copy.host));
  return {};
}

std::vector<DeviceBuffers::DeviceCopy> DeviceBuffers::written_windows(std::uint64_t end) const {
  std::vector<DeviceCopy> copies;
  for (const Entry& entry : entries_)
    if (!entry.is_hosts && !entry.region.is_input)
      each_window_part(entry, end, [&](const DeviceCopy& copy) { copies.push_back(copy); });
  return copies;
}

const DeviceBuffers::Entry* DeviceBuffers::find(std::uint64_t device) const noexcept {
  const auto after = std::upper_bound(by_device_.begin(), by_device_.end(), device,
                                      [&](std::uint64_t place, std::size_t i) { return place < entries_[i].device; });
  if (after == by_device_.begin()) return nullptr;
  const Entry& entry = entries_[*std::prev(after)];
  return device - entry.device < entry.capacity ? &entry : nullptr;
}

ByteRanges DeviceBuffers::to_host(std::span<const gpu::MemoryAccess> accesses, bool only_written) const {
  std::vector<ByteRange> ranges;
  for (const gpu::MemoryAccess& each : accesses) {
    if (only_written && !each.is_written) continue;
    const Entry* const entry = find(each.begin);
    if (entry && entry->region.use == RegionUse::kept)
      ranges.push_back(byte_range(entry->begin() + (each.begin - entry->device), each.end - each.begin));
  }
  return set_of(std::move(ranges));
}

void DeviceBuffers::leave_windows(std::span<const gpu::MemoryAccess> accesses) {
  for (const gpu::MemoryAccess& each : accesses)
    if (const Entry* const entry = find(each.begin); each.is_written && entry && entry->region.use == RegionUse::window)
      entries_[static_cast<std::size_t>(entry - entries_.data())].is_hosts = true;
}

std::vector<DeviceBuffers::DeviceCopy> DeviceBuffers::device_copies(const ByteRanges& ranges) const {
  std::vector<DeviceCopy> copies;
  for (const ByteRange& range : ranges) {
    auto entry = std::upper_bound(entries_.begin(), entries_.end(), range.begin, [](std::uintptr_t at, const Entry& e) {
      return at < reinterpret_cast<std::uintptr_t>(e.region.host);
    });
    if (entry != entries_.begin()) --entry;
    for (; entry != entries_.end(); ++entry) {
      const ByteRange all = byte_range(entry->region.host, entry->region.bytes);
      if (all.begin >= range.end) break;
      const std::uintptr_t begin = std::max(range.begin, all.begin), end = std::min(range.end, all.end);
      if (begin < end && entry->region.use == RegionUse::kept && entry->block != kNoBlock)
        copies.push_back({reinterpret_cast<std::byte*>(begin), entry->device + (begin - all.begin), end - begin});
    }
  }
  return copies;
}

std::uint64_t DeviceBuffers::bytes() const noexcept {
  std::uint64_t total = 0;
  for (const gpu::Buffer& block : blocks_) total += block.bytes();
  for (const auto& [host, buffer] : constants_) total += buffer.bytes();
  return total;
}

}  // namespace weft::mesh
