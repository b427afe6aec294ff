// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/graph_recorder.hpp"

namespace weft::mesh {
namespace ops = kernels::ops;

template <class Op>
ops::Answer<Op> GraphRecorder::accept(const Op& op) {
  Op moved = op;
  ops::for_each_operand(moved, [&](ops::Access access, auto& operand, const ops::Extent& extent) {
    using T = std::remove_reference_t<decltype(operand)>;
    if constexpr (std::is_pointer_v<T>)
      if (access == ops::Access::constant)
        return void(operand = reinterpret_cast<T>(buffers_.constant(operand, extent.cols * sizeof *operand)));
    ops::for_each_pointer(operand, [&](auto& pointer) { pointer = to_device(pointer); });
    if constexpr (std::is_same_v<T, kernels::ConstWeight>) operand.nan_free = nullptr;  // a hint to the host's kernels
  });
  if constexpr (!std::is_void_v<ops::Answer<Op>>) {  // is it finite?
    to_.flag_not_finite(moved.x, flags_, kNotFinite);
    return true;
  } else {
    if constexpr (std::is_same_v<Op, ops::OptimizerFactors>) ++*op.updates;  // the host counts along
    return to_.run(moved);
  }
}

GraphRecorder::GraphRecorder(gpu::VulkanStream& to, DeviceBuffers& on, std::uint32_t* flags, StepGuards guards)
    : OpStream(kernels::op_table<GraphRecorder>()), to_(to), buffers_(on), flags_(flags), guards_(std::move(guards)) {}

void GraphRecorder::track_host(std::vector<gpu::MemoryAccess>* to) noexcept {
  to_.track_accesses(to, true);
  buffers_.track_host(to != nullptr);
}

void GraphRecorder::touch(std::initializer_list<kernels::ConstMatrixView> read,
                          std::initializer_list<kernels::MatrixView> written) {
  for (const kernels::ConstMatrixView& rows : read) is_finite({rows});
  for (const kernels::MatrixView& rows : written) fill({0.0f, rows});
}

bool GraphRecorder::any_nonzero(NodeId node, std::span<const float> values, bool may_skip) {
  const float* const copy = to_device(values.data());
  may_skip ? guards_.hold_back_if_zero(node, copy, values.size())
           : to_.flag_all_zero(copy, values.size(), flags_, kAllZero);
  return true;
}

}  // namespace weft::mesh
