// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_exchange.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server {

/// A request at its route: the exchange, and what stood in the braces of the pattern.
struct Call {
  ExchangePointer exchange;
  std::vector<std::string> parameters;

  const HttpRequest& request() const noexcept { return exchange->request; }
  const std::string& parameter(std::size_t index) const { return parameters[index]; }
};

/// One way to ask for something: method and pattern, and who answers.
struct Route {
  enum class Body { none, json, file };
  std::string method;
  std::string pattern;  ///< "/api/v1/meshes/{mesh}/tick"
  Body body = Body::none;
  bool is_keyless = false;
  /// Changes something, or costs something: refused while the server ends.
  bool is_work = true;
  std::function<void(Call)> handle;
  std::uint64_t max_body = 0;  ///< of a body that is no file; 0: the server's
};

/// Finds the route of a request. @thread any, once all routes are added
class Router {
 public:
  void add(Route route);

  struct Match {
    const Route* route = nullptr;  ///< null: no such path, or no such method
    std::vector<std::string> parameters;
    std::string allowed;  ///< methods of the path, "GET, HEAD"; empty: no such path
  };
  Match find(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const noexcept { return routes_; }

 private:
  static std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view path);
  std::vector<Route> routes_;
};

}  // namespace weft::server
