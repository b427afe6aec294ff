// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string_view>

namespace weft {

/// The numeric type of stored weights; rows in core/dtypes.def.
enum class Dtype : int {
#define WEFT_DTYPE(name, bits) name,
#include "core/dtypes.def"
#undef WEFT_DTYPE
};

inline constexpr int kDtypeCount = 0
#define WEFT_DTYPE(name, bits) +1
#include "core/dtypes.def"
#undef WEFT_DTYPE
    ;

std::string_view name(Dtype dtype) noexcept;
/// Bits of one stored element, scales not counted.
int bits(Dtype dtype) noexcept;
/// The type spelled `text`, or nothing.
std::optional<Dtype> parse_dtype(std::string_view text) noexcept;

}  // namespace weft
