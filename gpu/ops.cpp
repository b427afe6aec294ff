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

bool supports(Op op, const Encoding& encoding, Activations activations) noexcept {
  if (!supports(op)) return false;
  if (op == Op::encode) return true;
  switch (encoding.dtype) {
    case Dtype::float32:
      return true;
    // They compute in binary64: no shader yet.
    case Dtype::float64:
    case Dtype::int64:
    case Dtype::int32:
    case Dtype::uint64:
    case Dtype::uint32:
      return false;
    default:
      // Windows are not quantised yet.
      if (op == Op::convolve) return activations == Activations::float32 || !has_integer_kernel(encoding.dtype);
      return op == Op::convolve_transposed || op == Op::linear || op == Op::linear_transposed ||
             op == Op::absolute_column_sums || op == Op::embedding || op == Op::squared_distances ||
             op == Op::squared_distances_backward;
  }
}

Status VulkanStream::finish() {
  WEFT_TRY(const std::uint64_t number, submit());
  return wait(number);
}

}  // namespace weft::gpu
