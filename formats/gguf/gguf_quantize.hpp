// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/tensor_file.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace weft::formats {

/// Types that `quantize` makes: all of gguf_blocks.hpp but q8_K, iq4_nl, iq4_xs and nvfp4.
std::vector<std::string_view> quantized_types();

/// Blocks of `values`, byte for byte those of ggml's reference encoders (docs/formats/gguf.md), save that a scale above
/// the largest binary16 number is that number. The same bytes in every floating-point mode of the thread.
/// @pre as many whole blocks of `type` as values
/// @error not_finite: naming the value; unsupported: a type that is not made
Status quantize(std::string_view type, std::span<const float> values, std::span<std::byte> blocks);

/// A tensor of `type` whose bytes are made of a float32 tensor's while they are produced, some rows at a time. Both
/// share what the original's bytes live in.
/// @error shape_mismatch: not float32, or rows that are no whole blocks; unsupported. Producing: as `quantize`
Result<Tensor> quantized(Tensor tensor, std::string_view type);

}  // namespace weft::formats
