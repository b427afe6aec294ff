// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server {

/// One header field; `name` is in lower case in requests.
struct HttpHeader {
  std::string name, value;
};

/// A request as it came, and the parts of its target.
struct HttpRequest {
  std::string method, target;
  int version = 11;  ///< 10 or 11
  std::vector<HttpHeader> headers;
  std::string body;
  std::string body_file;  ///< path of the body where it was streamed to a file; removed with the exchange
  std::string path;       ///< of the target, percent signs undecoded
  std::string query;      ///< without its '?'
  std::string id;         ///< of the answer's x-request-id
  std::string peer;       ///< address without port; "unix" of a Unix socket
  bool keeps_alive = true;

  /// The value of the first such field; empty where there is none. `name` in lower case.
  std::string_view header(std::string_view name) const noexcept;
  bool has_header(std::string_view name) const noexcept;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<HttpHeader> headers;
  bool closes = false;  ///< the connection, after it
};

/// "Not Found" of 404; "Unknown" of a number without a name.
std::string_view reason_of(int status) noexcept;

/// `text` with %XX decoded. Nothing: a percent sign without two hexadecimal digits, or a NUL.
std::optional<std::string> percent_decoded(std::string_view text);
/// Keys and values of "a=1&b=2", decoded; a key given twice is an error. @error parse_failed
Result<std::map<std::string, std::string, std::less<>>> parse_query(std::string_view query);
/// The JSON of a request's body; a limit of JSON that it passes, such as its depth, makes it unreadable, not too large:
/// its bytes were counted before. @error parse_failed, duplicate_name
Result<Json> parse_body(std::string_view body);
/// True of `[A-Za-z0-9._-]{1,128}` that is neither "." nor "..": a name that may be part of a path.
bool is_plain_name(std::string_view name) noexcept;
/// ASCII letters in lower case.
std::string lowered(std::string_view text);

/// The error object of `/v1` and of the native routes, by status.
HttpResponse error_response(int status, std::string_view type, std::string_view message, std::string_view code = {});
/// The answer to a failure of Weft's: status and type by its kind (docs/server.md).
HttpResponse error_response(const Error& error);
/// The answer to a request that cannot be read: as above, but a key that is missing or given twice is 400.
HttpResponse unreadable(const Error& error);

}  // namespace weft::server
