// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/team.hpp"

#include "kernels/cpu_stream.hpp"

#include "core/aligned_buffer.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace weft::mesh {

/// Threads that the operations of one region may take, and the work from which on it is worth it.
struct Width {
  std::size_t threads = 1;
  double grain_size = kernels::ParallelOptions::kGrainSize;
};

/// Streams of operations and memory for intermediate results, one for each region.
class RegionStreams {
 public:
  RegionStreams(std::size_t regions, std::size_t workspace, const Width& width)
      : streams_(regions), width_(regions == 1 ? width : Width{}), stride_((workspace + kLine - 1) / kLine * kLine) {
    for (std::size_t r = 0; r < regions; ++r) workspaces_.emplace_back(stride_ * width_.threads);
  }

  kernels::CpuStream& stream(std::size_t region) noexcept { return streams_[region]; }
  /// Layer::workspace_size() floats of any layer, for the thread that runs the region.
  float* workspace(std::size_t region) noexcept { return workspaces_[region].data(); }
  std::span<const AlignedBuffer<float>> workspaces() const noexcept { return workspaces_; }
  std::size_t threads() const noexcept { return width_.threads; }
  /// Threads that help the only region from now on; null: none.
  void use_team(scheduler::Team* team) noexcept {
    kernels::CpuStream& stream = streams_.front();
    if (!team) return stream.set_parallel(nullptr);
    const kernels::ParallelOptions parallel{kernels::ParallelFor(*team), std::min(team->size(), width_.threads),
                                            stride_, width_.grain_size};
    stream.set_parallel(&parallel);
  }
  /// Operations and layers that were cut up among threads so far.
  std::uint64_t parallel_operations() const noexcept {
    std::uint64_t all = 0;
    for (const kernels::CpuStream& stream : streams_) all += stream.parallel_operations();
    return all;
  }

 private:
  static constexpr std::size_t kLine = 16;  // floats

  std::vector<kernels::CpuStream> streams_;
  Width width_;
  std::size_t stride_;
  std::vector<AlignedBuffer<float>> workspaces_;  // of a wide region, one for each thread
};

}  // namespace weft::mesh
