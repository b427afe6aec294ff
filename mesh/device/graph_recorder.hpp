// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_buffers.hpp"
#include "mesh/device/step_guards.hpp"

namespace weft::mesh {

/// Records operations on the host's memory for the device that has a copy of it: cells and learning rules run
/// unchanged. A question about a value (is a result finite?) is answered as hoped; `kNotFinite`, `kAllZero` in the
/// device's word `flags` say later that the hope was wrong. Operands without a copy stay as an error in `status`.
/// @thread one thread at a time
class GraphRecorder final : public kernels::OpStream {
 public:
  static constexpr std::uint32_t kNotFinite = 1, kAllZero = 2;
  GraphRecorder(gpu::VulkanStream& to, DeviceBuffers& buffers, std::uint32_t* flags, StepGuards guards);

  /// The device's own stream, for operands that have no place on the host.
  gpu::VulkanStream& device() noexcept { return to_; }
  DeviceBuffers& buffers() noexcept { return buffers_; }
  StepGuards& guards() noexcept { return guards_; }
  kernels::MatrixView to_device(const kernels::MatrixView& rows) const {
    return {to_device(rows.data), rows.rows, rows.cols, rows.stride};
  }
  Status status() const { return buffers_.status(); }

  /// Answers yes. Where all are 0, a flag is set, or with `may_skip` holds back what the node moves in this step.
  bool any_nonzero(NodeId node, std::span<const float> values, bool may_skip);
  /// From here on operations, which the device does not run, only say what they touch; null: they are recorded again.
  void track_host(std::vector<gpu::MemoryAccess>* to) noexcept;
  /// Says what a layer whose accesses cannot be tracked might touch. @pre track_host
  void touch(std::initializer_list<kernels::ConstMatrixView> read, std::initializer_list<kernels::MatrixView> written);
  bool run_only_if(const float* word) override { return to_.run_only_if(word ? to_device(word) : nullptr); }
  /// Records one operation with its operands on the device.
  template <class Op>
  kernels::ops::Answer<Op> accept(const Op& op);

 private:
  template <class T>
  T* to_device(T* host) const {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(buffers_.to_device(host)));
  }

  gpu::VulkanStream& to_;
  DeviceBuffers& buffers_;
  std::uint32_t* flags_;
  StepGuards guards_;
};

}  // namespace weft::mesh
