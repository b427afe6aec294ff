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
  return supports(op) && encoding.dtype == Dtype::float32;
}

Status VulkanStream::finish() {
  WEFT_TRY(const std::uint64_t number, submit());
  return wait(number);
}

}  // namespace weft::gpu
