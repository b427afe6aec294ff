// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/limits.hpp"

#include <charconv>
#include <cstdlib>
#include <string>

namespace weft::gpu {

Result<Limits> parse_limits(std::string_view text) {
  Limits limits;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(part.size() == rest.size() ? part.size() : part.size() + 1);
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view number = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if ((key != "threads" && key != "shared") || number.empty() || error != std::errc() ||
        end != number.data() + number.size())
      return fail(Errc::invalid_argument, "WEFT_GPU_LIMITS='" + std::string(text) + "': '" + std::string(part) +
                                              "' is neither threads=NUMBER nor shared=BYTES");
    (key == "threads" ? limits.threads : limits.shared_bytes) = value;
  }
  return limits;
}

Result<Limits> limits_of_environment() {
  const char* text = std::getenv("WEFT_GPU_LIMITS");
  return parse_limits(text ? text : "");
}

}  // namespace weft::gpu
