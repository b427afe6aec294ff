// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>

namespace weft::cli {
namespace {
std::atomic<bool> is_broken{false};
}

void print_json(const Json& object) { end_json_line(object.dump(Json::Order::as_set)); }

void print_json_part(std::string_view text) {
  const std::string part = escaped_json(text);
  std::fwrite(part.data(), 1, part.size(), stdout);
}

void end_json_line(std::string_view text) {
  const std::string line = escaped_json(text) + "\n";
  flockfile(stdout);  // one line is one piece, whichever threads print
  std::fwrite(line.data(), 1, line.size(), stdout);
  if (std::fflush(stdout) != 0 && (errno == EPIPE || errno == EBADF)) is_broken.store(true, std::memory_order_relaxed);
  funlockfile(stdout);
}

Json escaped_texts(const Json& value) {
  if (value.is_string()) return escaped(value.text());
  if (!value.is_array() && !value.is_object()) return value;
  Json out = value.is_array() ? Json::array() : Json::object();
  for (const Json& element : value) out.push_back(escaped_texts(element));
  for (const auto* member : value.members_as_set()) out[member->first] = escaped_texts(member->second);
  return out;
}

bool stdout_is_broken() noexcept { return is_broken.load(std::memory_order_relaxed); }

}  // namespace weft::cli
