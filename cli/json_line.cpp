// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>

namespace weft::cli {

void print_json(const nlohmann::ordered_json& object) {
  const std::string line = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace weft::cli
