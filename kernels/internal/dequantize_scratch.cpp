// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/dequantized.hpp"

#include "core/aligned_buffer.hpp"

namespace weft::kernels::detail {

float* dequantize_scratch(std::size_t floats) noexcept {
  thread_local AlignedBuffer<float> buffer;
  if (buffer.size() < floats) {
    buffer = AlignedBuffer<float>();  // the old one is given back first
    buffer = AlignedBuffer<float>(floats);
  }
  return buffer.data();
}

}  // namespace weft::kernels::detail
