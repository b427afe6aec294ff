// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

namespace weft::server::internal {

/// The standard alphabet, with padding. @source RFC 4648, section 4
std::string base64(std::string_view bytes);

}  // namespace weft::server::internal
