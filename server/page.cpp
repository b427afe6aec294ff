// SPDX-License-Identifier: Apache-2.0

#include "server/page.hpp"

#include "server/internal/embedded_file.hpp"

#include "formats/csv/gzip.hpp"

#include "core/assert.hpp"
#include "core/bytes.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace weft::server {
namespace {

constexpr std::string_view kAssets = "/assets/", kFirst = "index.html";
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

constexpr std::array<std::pair<std::string_view, const char*>, 4> kTypes{{{".html", "text/html; charset=utf-8"},
                                                                          {".css", "text/css; charset=utf-8"},
                                                                          {".mjs", "text/javascript; charset=utf-8"},
                                                                          {".svg", "image/svg+xml"}}};

const char* type_of_asset(std::string_view name) noexcept {
  for (const auto& [suffix, type] : kTypes)
    if (name.ends_with(suffix)) return type;
  return "application/octet-stream";
}

const internal::EmbeddedFile* find_asset(std::string_view path) noexcept {
  std::string_view name = kFirst;
  if (path != "/") {
    if (!path.starts_with(kAssets)) return nullptr;
    name = path.substr(kAssets.size());
  }
  for (const internal::EmbeddedFile& each : internal::page_files())
    if (each.name == name) return &each;
  return nullptr;
}

/// True where a list such as "gzip, br" names gzip and does not refuse it. @source RFC 9110, section 12.5.3
bool takes_gzip(std::string_view accepted) {
  const std::string list = lowered(accepted);
  const std::size_t at = list.find("gzip");
  if (at == std::string::npos) return false;
  const std::string_view rest = std::string_view(list).substr(at, list.find(',', at) - at);
  const std::size_t weight = rest.find("q=0");
  return weight == std::string_view::npos || rest.find_first_of("123456789", weight) != std::string_view::npos;
}

std::string body_of(const internal::EmbeddedFile& file, bool is_packed) {
  if (is_packed) return {reinterpret_cast<const char*>(file.packed.data()), file.packed.size()};
  auto text = formats::gunzip(std::as_bytes(file.packed), file.size, file.name);
  WEFT_ASSERT(text.has_value(), text ? "" : text.error().text());
  return *std::move(text);
}

}  // namespace

std::optional<HttpResponse> page_asset(const HttpRequest& request) {
  const internal::EmbeddedFile* const file = find_asset(request.path);
  if (!file) return std::nullopt;
  if (request.method != "GET" && request.method != "HEAD") {
    HttpResponse refusal = error_response(405, "invalid_request_error", "this path is asked by GET, HEAD");
    refusal.headers.push_back({"Allow", "GET, HEAD"});
    return refusal;
  }
  HttpResponse response;
  // The packed form is another representation, so it has another tag.
  const bool is_packed = takes_gzip(request.header("accept-encoding"));
  const std::string tag = "\"" + std::string(file->tag) + (is_packed ? "-gzip\"" : "\"");
  response.headers = {{"ETag", tag},
                      {"Cache-Control", "no-cache"},
                      {"Vary", "Accept-Encoding"},
                      {"Content-Security-Policy", kPolicy},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"}};
  if (request.header("if-none-match").find(tag) != std::string_view::npos) {
    response.status = 304;
    response.content_type.clear();
    return response;
  }
  response.content_type = type_of_asset(file->name);
  if (is_packed) response.headers.push_back({"Content-Encoding", "gzip"});
  response.body = body_of(*file, is_packed);
  return response;
}

}  // namespace weft::server
