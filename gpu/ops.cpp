// SPDX-License-Identifier: Apache-2.0

#include "gpu/vulkan_stream.hpp"

namespace weft::gpu {

std::string_view name(Op op) noexcept {
  constexpr std::string_view kNames[] = {
#define WEFT_GPU_OP(name, recorded) #name,
#include "gpu/ops.def"
#undef WEFT_GPU_OP
  };
  return kNames[static_cast<int>(op)];
}

bool supports(Op op, const Encoding& encoding, Activations) noexcept {
  if (!supports(op)) return false;
  // All 21 types, with the activations that the CPU has for them.
  switch (op) {
    case Op::linear:
    case Op::linear_transposed:
    case Op::gated_linear:
    case Op::absolute_column_sums:
    case Op::embedding:
    case Op::squared_distances:
    case Op::squared_distances_backward:
    case Op::convolve:
    case Op::convolve_transposed:
    case Op::encode:
      return true;
    default:
      return encoding.dtype == Dtype::float32;
  }
}

Status VulkanStream::finish() {
  WEFT_TRY(const std::uint64_t number, submit());
  return wait(number);
}

}  // namespace weft::gpu
