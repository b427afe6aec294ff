// SPDX-License-Identifier: Apache-2.0

#include "agent/network_difference.hpp"

#include "core/json.hpp"
#include "core/json_difference.hpp"

#include <utility>

namespace weft::agent {

Result<std::optional<std::string>> network_difference(std::string_view stored, std::string_view given) {
  WEFT_TRY(Json there, parse_json(stored, "network"));
  WEFT_TRY(Json here, parse_json(given, "network"));
  // The device is no part of a network's identity.
  for (Json* const network : {&there, &here}) {
    if (!network->is_object()) continue;
    network->erase("device");
    if (Json* const layers = network->find("layers"))
      for (Json& layer : *layers)
        if (layer.is_object()) layer.erase("device");
  }
  const auto differ = [](const Json* a, const Json* b, const char* path) {
    return a && b ? first_difference(*a, *b, "", path) : std::nullopt;
  };
  const Json &learns_there = std::as_const(there)["learning"], &learns_here = std::as_const(here)["learning"];
  for (const char* key : {"rule", "schedule"})
    if (auto found = differ(learns_there.find(key), learns_here.find(key), (std::string("learning.") + key).c_str()))
      return found;
  if (auto found = differ(there.find("seed"), here.find("seed"), "seed")) return found;
  return first_difference(there, here, "stream.csv");
}

}  // namespace weft::agent
