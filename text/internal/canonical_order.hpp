// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <unicode/unorm2.h>

#include <string>
#include <string_view>

namespace weft::text {

/// True when more marks stand in a row than ICU, which puts one after the other in its place, should order: its time
/// goes by the square of their number.
bool has_many_marks(std::u16string_view units, const UNormalizer2& decomposing);

/// `units` decomposed, marks in canonical order, in time n log n.
/// @source Unicode 15, 3.11, D108, D109 (canonical ordering); `decomposing`: ICU's instance of NFD or NFKD
std::u16string decomposed_in_order(std::u16string_view units, const UNormalizer2& decomposing);

}  // namespace weft::text
