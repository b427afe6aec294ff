// SPDX-License-Identifier: Apache-2.0

#include "server/router.hpp"

#include <utility>

namespace weft::server {

void Router::add(Route route) { routes_.push_back(std::move(route)); }

/// Segment by segment: "{x}" takes one that is not empty. A path is split before it is decoded, so that %2F stays
/// within its segment.
std::optional<std::vector<std::string>> Router::match(std::string_view pattern, std::string_view path) {
  std::vector<std::string> parameters;
  while (true) {
    const std::size_t a = std::min(pattern.find('/', 1), pattern.size());
    const std::size_t b = std::min(path.find('/', 1), path.size());
    const std::string_view wanted = pattern.substr(0, a), given = path.substr(0, b);
    if (wanted.starts_with("/{")) {
      auto value = given.size() > 1 ? percent_decoded(given.substr(1)) : std::nullopt;
      if (!value) return std::nullopt;
      parameters.push_back(*std::move(value));
    } else if (wanted != given) {
      return std::nullopt;
    }
    pattern.remove_prefix(a);
    path.remove_prefix(b);
    if (pattern.empty() || path.empty()) break;
  }
  if (!pattern.empty() || !path.empty()) return std::nullopt;
  return parameters;
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  Match found;
  for (const Route& route : routes_) {
    auto parameters = match(route.pattern, path);
    if (!parameters) continue;
    if (route.method == method || (method == "HEAD" && route.method == "GET")) {
      found.route = &route;
      found.parameters = *std::move(parameters);
      return found;
    }
    found.allowed += (found.allowed.empty() ? "" : ", ") + route.method + (route.method == "GET" ? ", HEAD" : "");
  }
  return found;
}

}  // namespace weft::server
