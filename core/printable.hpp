// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

namespace weft {

/// `text` made fit for an error message: control characters and bytes that are not UTF-8 become "\xNN", and what is
/// longer than `max_size` bytes is cut, with "..." in its place.
std::string printable(std::string_view text, std::size_t max_size = 80);
/// The same between double quotes.
std::string in_quotes(std::string_view text);

}  // namespace weft
