// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/op_stream.hpp"
#include "kernels/parallel_parts.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft::kernels {

/// Runs each operation at once with the active instruction set: on the calling thread, or, with ParallelOptions,
/// parts of its outputs on several. Parts are never parts of a sum, so the bits are the same.
/// @thread one thread at a time, inside FlushSubnormals
class alignas(64) CpuStream final : public OpStream {
 public:
  CpuStream() noexcept;

  /// Sets the threads for parts of operations; null: none. With them each workspace is followed by the other parts'.
  void set_parallel(const ParallelOptions* parallel) noexcept { parts_.set_parallel(parallel); }
  /// The weights that will be read after the next `linear` or `gated_linear`, which forgets them again; data null:
  /// unknown. For speed alone.
  void expect(const ConstPanels& ahead) noexcept { ahead_ = ahead; }
  ConstPanels take_expected() noexcept { return std::exchange(ahead_, {}); }
  /// Operations that were cut up so far.
  std::uint64_t parallel_operations() const noexcept { return parts_.count(); }
  /// For operations that cut themselves.
  ParallelParts& parts() noexcept { return parts_; }

  /// Runs one operation.
  template <class Op>
  ops::Answer<Op> accept(const Op& op);
  bool computes_at_once() const noexcept override { return true; }
  float* workspace_of(float* workspace) const noexcept override { return workspace + workspace_shift_; }

 private:
  void split_units(std::size_t units, double work, Body body, void* context) override;

  ParallelParts parts_;
  ConstPanels ahead_{};  // written for each cell: hence a cache line of its own for each region's stream
  std::size_t workspace_shift_ = 0;
};

}  // namespace weft::kernels
