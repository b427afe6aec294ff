// SPDX-License-Identifier: Apache-2.0

#include "server/internal/base64.hpp"

#include <cstddef>

namespace weft::server::internal {

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t of) {
      return of < bytes.size() ? static_cast<unsigned>(static_cast<unsigned char>(bytes[of])) : 0u;
    };
    const unsigned all = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    out += kDigits[all >> 18];
    out += kDigits[all >> 12 & 63];
    out += i + 1 < bytes.size() ? kDigits[all >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kDigits[all & 63] : '=';
  }
  return out;
}

}  // namespace weft::server::internal
