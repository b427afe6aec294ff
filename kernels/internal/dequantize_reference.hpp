// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"
#include "kernels/weight.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::kernels::detail {

/// The number that a code of 8 bits or fewer stands for, its scale and zero point aside; the code's bits lie lowest.
float code_number(Dtype dtype, std::uint32_t code) noexcept;
/// binary16's number of these bits. Exact, also where subnormals are flushed.
float half_number(std::uint16_t code) noexcept;

/// The value of element (o, k), one code read at a time as kernels/weight.hpp states it: the reference.
/// @thread any, inside FlushSubnormals
float code_value(const ConstWeight& w, std::size_t o, std::size_t k) noexcept;

/// A rectangle of a weight: `panels` panels from `first_panel`, `count` inputs from `first_k`, a multiple of 32.
struct DequantizedPart {
  std::size_t first_panel, panels, first_k, count;
};
/// The scalar variants of what internal/dequantized.hpp lists.
void dequantize_codes(const ConstWeight& w, const DequantizedPart& part, float* to) noexcept;
void row_of_codes(const ConstWeight& w, const float* bias, const float* x, float* to) noexcept;

}  // namespace weft::kernels::detail
