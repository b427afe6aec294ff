// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/linear_scratch.hpp"

#include "kernels/internal/dequantized.hpp"

#include "core/aligned_buffer.hpp"

namespace weft::kernels::detail {
namespace {

float* grown(AlignedBuffer<float>& buffer, std::size_t floats) noexcept {
  if (buffer.size() < floats) {
    buffer = AlignedBuffer<float>();  // the old one is given back first
    buffer = AlignedBuffer<float>(floats);
  }
  return buffer.data();
}

}  // namespace

// Two: what is dequantized is read while a product fills its own.
float* linear_scratch(std::size_t floats) noexcept {
  thread_local AlignedBuffer<float> buffer;
  return grown(buffer, floats);
}

float* dequantize_scratch(std::size_t floats) noexcept {
  thread_local AlignedBuffer<float> buffer;
  return grown(buffer, floats);
}

}  // namespace weft::kernels::detail
