// SPDX-License-Identifier: Apache-2.0

#include "server/access.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <utility>

namespace weft::server {
namespace {

constexpr std::size_t kLongestKey = 256;
constexpr std::array<std::string_view, 7> kAllowedHeaders{"authorization", "content-type",  "x-api-key", "x-request-id",
                                                          "if-match",      "last-event-id", "accept"};

Status check_key(std::string_view key) {
  const bool is_fine = !key.empty() && key.size() <= kLongestKey &&
                       std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (is_fine) return {};
  return fail(Errc::invalid_argument, "a key of " + std::to_string(key.size()) +
                                          " bytes: it needs 1 to 256 printable characters without spaces");
}

Result<std::vector<std::string>> read_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(Errc::storage, path + ": the file of keys cannot be read");
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\t')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    if (auto fine = check_key(line); !fine) return fail(std::move(fine).error().within(path));
    keys.push_back(std::move(line));
  }
  if (keys.empty()) return fail(Errc::invalid_argument, path + ": holds no key");
  return keys;
}

/// "example.org" of "example.org:8080", "[::1]" of "[::1]:8080".
std::string_view without_port(std::string_view host) noexcept {
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket)) return host;
  return host.substr(0, colon);
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept {
  volatile unsigned difference = a.size() != b.size();
  for (std::size_t i = 0; i < kLongestKey; ++i) {
    const unsigned char left = i < a.size() ? static_cast<unsigned char>(a[i]) : 0;
    const unsigned char right = i < b.size() ? static_cast<unsigned char>(b[i]) : 0;
    difference = difference | static_cast<unsigned>(left ^ right);
  }
  return difference == 0 && a.size() <= kLongestKey;
}

Result<std::unique_ptr<Access>> Access::make(Options options) {
  for (const std::string& key : options.keys) WEFT_CHECK(check_key(key));
  std::unique_ptr<Access> made(new Access(std::move(options)));
  WEFT_CHECK(made->reload());
  const auto& origins = made->options_.origins;
  if (made->has_keys() && std::find(origins.begin(), origins.end(), "*") != origins.end())
    return fail(Errc::invalid_argument, "cors-origin '*': beside keys each origin must be named");
  return made;
}

Status Access::reload() {
  std::vector<std::string> keys = options_.keys;
  if (!options_.key_file.empty()) {
    WEFT_TRY(const auto read, read_keys(options_.key_file));
    keys.insert(keys.end(), read.begin(), read.end());
  }
  const std::lock_guard hold(mutex_);
  keys_ = std::move(keys);
  return {};
}

bool Access::has_keys() const {
  const std::lock_guard hold(mutex_);
  return !keys_.empty();
}

std::string_view shown_key(const HttpRequest& head) {
  const std::string_view authorization = head.header("authorization");
  return lowered(authorization.substr(0, 7)) == "bearer " ? authorization.substr(7) : head.header("x-api-key");
}

bool Access::has_key(const HttpRequest& head) const {
  const std::string_view given = shown_key(head);
  bool found = false;
  const std::lock_guard hold(mutex_);
  for (const std::string& key : keys_) found |= equal_in_constant_time(given, key);
  return found;
}

bool Access::is_known_host(std::string_view host) const {
  const std::string name = lowered(without_port(host));
  if (name == "localhost" || name == "127.0.0.1" || name == "[::1]") return true;
  return std::find(options_.hosts.begin(), options_.hosts.end(), name) != options_.hosts.end();
}

bool Access::is_allowed_origin(std::string_view origin) const {
  return std::any_of(options_.origins.begin(), options_.origins.end(),
                     [&](const std::string& each) { return each == "*" || each == origin; });
}

std::optional<HttpResponse> Access::refusal(const HttpRequest& head, bool is_keyless) const {
  // Only HTTP/1.0 may come without a name, and no browser does.
  if (options_.checks_host && head.peer != "unix" && head.has_header("host") && !is_known_host(head.header("host")))
    return error_response(403, "permission_error",
                          "Host '" + std::string(head.header("host").substr(0, 256)) +
                              "' is none of this server's names; name it with --host-name");
  if (is_keyless || !has_keys() || has_key(head)) return std::nullopt;
  const bool is_given = head.has_header("authorization") || head.has_header("x-api-key");
  return error_response(401, "authentication_error",
                        is_given ? "the key is wrong" : "a key is needed: Authorization: Bearer KEY, or X-Api-Key: KEY",
                        "invalid_api_key");
}

HttpResponse Access::preflight(const HttpRequest& head) const {
  if (!is_allowed_origin(head.header("origin")))
    return error_response(403, "permission_error", "this origin is not allowed; name it with --cors-origin");
  HttpResponse response{.status = 204, .content_type = {}, .body = {}, .headers = {}};
  const std::string_view wanted = head.header("access-control-request-headers");
  std::istringstream names(lowered(wanted));
  bool all_known = true;
  for (std::string name; std::getline(names, name, ',');) {
    name.erase(0, name.find_first_not_of(' '));
    while (!name.empty() && name.back() == ' ') name.pop_back();
    all_known &= name.starts_with("x-stainless-") ||
                 std::find(kAllowedHeaders.begin(), kAllowedHeaders.end(), name) != kAllowedHeaders.end();
  }
  if (!wanted.empty() && all_known) response.headers.push_back({"Access-Control-Allow-Headers", std::string(wanted)});
  response.headers.push_back({"Access-Control-Allow-Methods", "GET, POST, PUT, DELETE"});
  response.headers.push_back({"Access-Control-Max-Age", "600"});
  return response;
}

void Access::add_cors(const HttpRequest& request, std::vector<HttpHeader>& headers) const {
  if (options_.origins.empty()) return;
  headers.push_back({"Vary", "Origin"});
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !is_allowed_origin(origin)) return;
  headers.push_back({"Access-Control-Allow-Origin", std::string(origin)});
  headers.push_back({"Access-Control-Expose-Headers",
                     "x-request-id, retry-after, retry-after-ms, x-weft-tick, x-weft-weight-version, x-weft-shape"});
}

}  // namespace weft::server
