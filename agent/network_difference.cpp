// SPDX-License-Identifier: Apache-2.0

#include "agent/network_difference.hpp"

#include "core/json.hpp"
#include "core/json_difference.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace weft::agent {

using nlohmann::json;

Result<std::optional<std::string>> network_difference(std::string_view stored, std::string_view given) {
  WEFT_TRY(json there, parse_json(stored, "network"));
  WEFT_TRY(json here, parse_json(given, "network"));
  // The device is no part of a network's identity.
  for (json* const network : {&there, &here}) {
    if (!network->is_object()) continue;
    network->erase("device");
    if (const auto layers = network->find("layers"); layers != network->end() && layers->is_array())
      for (json& layer : *layers)
        if (layer.is_object()) layer.erase("device");
  }
  for (const char* path : {"/learning/rule", "/learning/schedule", "/seed"}) {
    const json::json_pointer at(path);
    std::string dotted = std::string(path).substr(1);
    std::replace(dotted.begin(), dotted.end(), '/', '.');
    if (there.contains(at) && here.contains(at))
      if (auto found = first_difference(there[at], here[at], "", dotted)) return found;
  }
  return first_difference(there, here, "stream.csv");
}

}  // namespace weft::agent
