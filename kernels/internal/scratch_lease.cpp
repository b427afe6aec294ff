// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/scratch_lease.hpp"

#include "core/aligned_buffer.hpp"

#include <vector>

namespace weft::kernels::detail {
namespace {

struct Leases {
  std::vector<AlignedBuffer<std::byte>> buffers;
  std::size_t held = 0;
};
Leases& leases() noexcept {
  thread_local Leases all;
  return all;
}

}  // namespace

ScratchLease::ScratchLease(std::size_t bytes) noexcept {
  Leases& all = leases();
  if (all.held == all.buffers.size()) all.buffers.emplace_back();
  AlignedBuffer<std::byte>& buffer = all.buffers[all.held++];
  if (buffer.size() < bytes) {
    buffer = AlignedBuffer<std::byte>();  // the old one is given back first
    buffer = AlignedBuffer<std::byte>(bytes);
  }
  data_ = buffer.data();
}

ScratchLease::~ScratchLease() { --leases().held; }

}  // namespace weft::kernels::detail
