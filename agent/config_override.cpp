// SPDX-License-Identifier: Apache-2.0
// "layers[3].dtype=int8": a network changed at one place.

#include "agent/replay.hpp"

#include "core/json.hpp"

#include <charconv>
#include <variant>

namespace weft::agent {
namespace {

using Step = std::variant<std::string, std::size_t>;

/// "a.b[2].c" as keys and indices; nothing when it is no path.
std::optional<std::vector<Step>> parse_path(std::string_view text) {
  std::vector<Step> steps;
  while (!text.empty()) {
    if (text.front() == '[') {
      const std::size_t end = text.find(']');
      std::size_t index = 0;
      if (end == std::string_view::npos) return std::nullopt;
      const auto [stop, error] = std::from_chars(text.data() + 1, text.data() + end, index);
      if (error != std::errc() || stop != text.data() + end) return std::nullopt;
      steps.emplace_back(index);
      text.remove_prefix(end + 1);
    } else {
      if (!steps.empty()) {
        if (text.front() != '.') return std::nullopt;
        text.remove_prefix(1);
      }
      const std::size_t end = std::min(text.find_first_of(".["), text.size());
      if (end == 0) return std::nullopt;
      steps.emplace_back(std::string(text.substr(0, end)));
      text.remove_prefix(end);
    }
  }
  return steps;
}

/// The value itself where it is JSON, else a string: int8 needs no quotes.
Json parse_value(std::string_view text) {
  if (auto value = parse_json(text, "value")) return *std::move(value);
  return std::string(text);
}

}  // namespace

Result<std::string> with_change(std::string_view network, std::string_view change) {
  const std::string quoted = "'" + std::string(change) + "'";
  const std::size_t equals = change.find('=');
  const auto path = equals == std::string_view::npos ? std::nullopt : parse_path(change.substr(0, equals));
  if (!path || path->empty())
    return fail(Errc::invalid_argument, quoted + ": a change is PATH=VALUE, such as layers[3].dtype=int8 or seed=7");
  WEFT_TRY(Json document, parse_json(network, "network"));
  Json* place = &document;
  for (std::size_t i = 0; i < path->size(); ++i) {
    const bool is_last = i + 1 == path->size();
    if (const auto* const key = std::get_if<std::string>(&(*path)[i])) {
      const bool is_missing = place->is_object() && !place->contains(*key);
      if (!place->is_object() || (is_missing && i == 0 && !is_last))
        return fail(Errc::invalid_argument, quoted + ": the network has no '" + *key + "' there");
      place = &(*place)[*key];
      // A section that the network leaves to its defaults; what may be there is the reader's matter.
      if (is_missing && !is_last) *place = Json::object();
    } else {
      const std::size_t index = std::get<std::size_t>((*path)[i]);
      if (!place->is_array() || index >= place->size())
        return fail(Errc::invalid_argument,
                    quoted + ": no element [" + std::to_string(index) + "] there" +
                        (place->is_array() ? ", there are " + std::to_string(place->size()) : std::string()));
      place = &(*place)[index];
    }
  }
  *place = parse_value(change.substr(equals + 1));
  return write_json(document);
}

}  // namespace weft::agent
