// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"

#include <nlohmann/json.hpp>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>

namespace weft::cli {
namespace {
std::atomic<bool> is_broken{false};
}

void print_json(const nlohmann::ordered_json& object) {
  const std::string line = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  flockfile(stdout);  // one line is one piece, whichever threads print
  std::fwrite(line.data(), 1, line.size(), stdout);
  if (std::fflush(stdout) != 0 && errno == EPIPE) is_broken.store(true, std::memory_order_relaxed);
  funlockfile(stdout);
}

bool stdout_is_broken() noexcept { return is_broken.load(std::memory_order_relaxed); }

}  // namespace weft::cli
