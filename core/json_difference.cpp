// SPDX-License-Identifier: Apache-2.0

#include "core/json_difference.hpp"

namespace weft {
namespace {

std::string show(const Json& value) {
  const std::string text = value.is_null() ? "nothing" : value.dump();
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

}  // namespace

std::optional<std::string> first_difference(const Json& stored, const Json& given, std::string_view passed_over,
                                            const std::string& path) {
  if ((!path.empty() && path == passed_over) || stored == given) return std::nullopt;
  const auto inner = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  if (stored.is_object() && given.is_object()) {
    for (const auto& [key, value] : given.members())
      if (auto found = first_difference(stored.contains(key) ? stored[key] : Json(), value, passed_over, inner(key)))
        return found;
    for (const auto& [key, value] : stored.members())
      if (!given.contains(key)) return first_difference(value, Json(), passed_over, inner(key));
    return std::nullopt;
  }
  if (stored.is_array() && given.is_array() && stored.size() == given.size()) {
    for (std::size_t i = 0; i < stored.size(); ++i)
      if (auto found = first_difference(stored[i], given[i], passed_over, path + "[" + std::to_string(i) + "]"))
        return found;
    return std::nullopt;
  }
  return path + ": " + show(stored) + " there, " + show(given) + " here";
}

}  // namespace weft
