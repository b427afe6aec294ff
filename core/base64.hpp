// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <string>
#include <string_view>

namespace weft {

/// The standard alphabet, with padding. @source RFC 4648, section 4
std::string base64(std::string_view bytes);
/// The bytes that a text stands for. @error parse_failed: another character, a length that is no multiple of 4, or
/// bits behind the last byte that are not 0
Result<std::string> from_base64(std::string_view text);

}  // namespace weft
