// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"

#include "core/printable.hpp"

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
  const std::string line =
      escaped_json(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) + "\n";
  flockfile(stdout);  // one line is one piece, whichever threads print
  std::fwrite(line.data(), 1, line.size(), stdout);
  if (std::fflush(stdout) != 0 && (errno == EPIPE || errno == EBADF)) is_broken.store(true, std::memory_order_relaxed);
  funlockfile(stdout);
}

nlohmann::ordered_json escaped_texts(const nlohmann::ordered_json& value) {
  if (value.is_string()) return escaped(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  nlohmann::ordered_json out = value.is_array() ? nlohmann::ordered_json::array() : nlohmann::ordered_json::object();
  if (value.is_array())
    for (const auto& element : value) out.push_back(escaped_texts(element));
  else
    for (const auto& [key, element] : value.items())  // keys are distinct already: none is looked for
      out.get_ref<nlohmann::ordered_json::object_t&>().nlohmann::ordered_json::object_t::Container::emplace_back(
          key, escaped_texts(element));
  return out;
}

bool stdout_is_broken() noexcept { return is_broken.load(std::memory_order_relaxed); }

}  // namespace weft::cli
