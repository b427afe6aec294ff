// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_region.hpp"
#include "mesh/device/readback.hpp"
#include "mesh/memory/byte_ranges.hpp"

#include "gpu/device.hpp"
#include "gpu/memory.hpp"
#include "gpu/vulkan_stream.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace weft::mesh {

/// Device memory that stands for regions of the host's: a pointer into one of these has an address on the device.
/// @thread one thread at a time
class DeviceBuffers {
 public:
  /// Regions are on the device in the order given: what equal cells touch one after the other should be given so.
  /// `window`: samples of a ring on the device. `copies`: of scratch, so that cells need not wait for each other.
  /// `hosts`: what of them no operation of the device touches. It gets addresses by which accesses can be tracked,
  /// and no memory.
  /// @error too_large: naming the memory, both sizes
  static Result<DeviceBuffers> build(gpu::Device& device, std::vector<DeviceRegion> regions, std::size_t window,
                                     std::size_t copies, const ByteRanges& hosts = {});

  /// Device address of the copy of `host`; 0 for null, and with an error in `status` for memory without a device copy.
  std::uint64_t to_device(const void* host) const noexcept;
  /// The address of a copy of `bytes` at `host`, made when it is first asked for.
  std::uint64_t constant(const void* host, std::size_t bytes) const;
  Status status() const { return failure_ ? Status(fail(*failure_)) : Status(); }

  /// While accesses of operations are tracked that the device does not run, what is the host's has an address too.
  void track_host(bool does) noexcept { tracks_host_ = does; }
  /// Selects the copy of scratch memory that pointers mean.
  void select(std::size_t copy) noexcept { copy_ = copy % copies_; }
  /// From now on pointers into windows mean samples [first, first + window).
  void move_window(std::uint64_t first) noexcept { first_ = first; }
  std::size_t window() const noexcept { return window_; }
  /// Memory on both sides.
  struct DeviceCopy {
    std::byte* host = nullptr;
    std::uint64_t device = 0;
    std::size_t bytes = 0;
  };
  /// Copies the windows' samples [first, end) in, or those of windows that are no inputs out. @error as of the stream
  void upload_window(gpu::VulkanStream& stream, std::uint64_t end) const;
  Status download_window(gpu::VulkanStream& stream, std::uint64_t end) const;
  /// Ranges that `download_window` would copy.
  std::vector<DeviceCopy> written_windows(std::uint64_t end) const;

  /// Host ranges of the kept memory that operations touch; `only_written`: that they write.
  ByteRanges to_host(std::span<const gpu::MemoryAccess> accesses, bool only_written) const;
  /// Windows that these write are the host's from now on: they are no longer downloaded.
  void leave_windows(std::span<const gpu::MemoryAccess> accesses);
  /// Kept memory among `ranges`.
  std::vector<DeviceCopy> device_copies(const ByteRanges& ranges) const;

  /// Copies everything to the device that is copied at all.
  void upload(gpu::VulkanStream& stream) const;
  /// Brings what is `kept`, of the groups below `groups`, but for what the host has itself. After a failure `to` is of
  /// no use.
  Status read_back(gpu::VulkanStream& stream, std::uint32_t groups, const ByteRanges& except, Readback& to) const;
  /// Device memory that it holds.
  std::uint64_t bytes() const noexcept;

 private:
  struct Entry {
    DeviceRegion region;
    std::uint64_t device = 0;
    std::size_t stride = 0;    // from one copy of scratch to the next
    std::size_t capacity = 0;  // on the device
    bool is_hosts = false;     // a window that the host writes
    std::size_t block = 0;     // of blocks_; kNoBlock: the host's alone
    const std::byte* begin() const noexcept { return static_cast<const std::byte*>(region.host); }
  };
  DeviceBuffers() = default;
  static constexpr std::size_t kNoBlock = SIZE_MAX;
  static bool is_copied(const Entry& entry) noexcept {
    return entry.block != kNoBlock && (entry.region.use == RegionUse::kept || entry.region.use == RegionUse::constant);
  }
  template <class Visit>
  void each_window_part(const Entry& entry, std::uint64_t end, Visit&& visit) const;

  gpu::Device* device_ = nullptr;
  /// The entry that holds a device's address; null: none.
  const Entry* find(std::uint64_t device) const noexcept;

  std::vector<Entry> entries_;          // by host address
  std::vector<std::size_t> by_device_;  // entries
  std::vector<gpu::Buffer> blocks_;
  std::size_t window_ = 0, copies_ = 1, copy_ = 0;
  std::uint64_t first_ = 0;
  bool tracks_host_ = false;
  mutable std::map<const void*, gpu::Buffer> constants_;
  mutable std::optional<Error> failure_;
};

}  // namespace weft::mesh
