// SPDX-License-Identifier: Apache-2.0

#include "text/internal/metaspace.hpp"

#include <optional>
#include <string_view>

namespace weft::text {

Result<Metaspace> Metaspace::read(JsonReader& reader) {
  const auto parse = [](std::string_view name) -> std::optional<Scheme> {
    if (name == "always") return Scheme::always;
    if (name == "first") return Scheme::first;
    if (name == "never") return Scheme::never;
    return std::nullopt;
  };
  Metaspace options;
  WEFT_TRY(options.replacement, reader.string_or("replacement", options.replacement, 4));
  // Of older files, true: always.
  if (const auto adds = reader.find("add_prefix_space"); adds && !adds->is_null()) {
    WEFT_TRY(const bool value, adds->boolean());
    options.scheme = value ? Scheme::always : Scheme::never;
  }
  WEFT_TRY(options.scheme, reader.one_of_or("prepend_scheme", options.scheme, parse, {"always", "first", "never"}));
  return options;
}

}  // namespace weft::text
