// SPDX-License-Identifier: Apache-2.0

#include "server/http_message.hpp"

#include <algorithm>
#include <array>

namespace weft::server {
namespace {

struct Reason {
  int status;
  std::string_view text;
};
constexpr std::array kReasons{Reason{100, "Continue"},
                              Reason{200, "OK"},
                              Reason{201, "Created"},
                              Reason{202, "Accepted"},
                              Reason{204, "No Content"},
                              Reason{304, "Not Modified"},
                              Reason{400, "Bad Request"},
                              Reason{401, "Unauthorized"},
                              Reason{403, "Forbidden"},
                              Reason{404, "Not Found"},
                              Reason{405, "Method Not Allowed"},
                              Reason{408, "Request Timeout"},
                              Reason{409, "Conflict"},
                              Reason{412, "Precondition Failed"},
                              Reason{413, "Content Too Large"},
                              Reason{415, "Unsupported Media Type"},
                              Reason{417, "Expectation Failed"},
                              Reason{422, "Unprocessable Content"},
                              Reason{429, "Too Many Requests"},
                              Reason{431, "Request Header Fields Too Large"},
                              Reason{500, "Internal Server Error"},
                              Reason{501, "Not Implemented"},
                              Reason{503, "Service Unavailable"},
                              Reason{505, "HTTP Version Not Supported"},
                              Reason{507, "Insufficient Storage"}};

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct Answered {
  int status;
  std::string_view type;
};

Answered answered(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
    case Errc::parse_failed:
      return {400, "invalid_request_error"};
    case Errc::shape_mismatch:
    case Errc::out_of_range:
    case Errc::unknown_name:
    case Errc::not_finite:
    case Errc::corrupt:
      return {422, "invalid_request_error"};
    case Errc::not_found:
      return {404, "not_found_error"};
    case Errc::duplicate_name:
    case Errc::differs:
      return {409, "conflict_error"};
    case Errc::too_large:
      return {413, "invalid_request_error"};
    case Errc::unsupported:
      return {501, "not_supported_error"};
    case Errc::full:
      return {429, "rate_limit_error"};
    case Errc::timed_out:
    case Errc::halted:
    case Errc::interrupted:
      return {503, "unavailable_error"};
    case Errc::storage:
      return {507, "storage_error"};
    case Errc::internal:
      break;
  }
  return {500, "server_error"};
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const noexcept {
  for (const HttpHeader& each : headers)
    if (each.name == name) return each.value;
  return {};
}

bool HttpRequest::has_header(std::string_view name) const noexcept {
  return std::any_of(headers.begin(), headers.end(), [&](const HttpHeader& each) { return each.name == name; });
}

std::string_view reason_of(int status) noexcept {
  for (const Reason& each : kReasons)
    if (each.status == status) return each.text;
  return "Unknown";
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? digit_of(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? digit_of(text[i + 2]) : -1;
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

Result<std::map<std::string, std::string, std::less<>>> parse_query(std::string_view query) {
  std::map<std::string, std::string, std::less<>> out;
  for (std::size_t at = 0; at < query.size();) {
    const std::size_t found = query.find('&', at);
    const std::size_t end = found == std::string_view::npos ? query.size() : found;
    const std::string_view pair = query.substr(at, end - at);
    at = end + 1;
    if (pair.empty()) continue;
    const std::size_t sign = std::min(pair.find('='), pair.size());
    auto key = percent_decoded(pair.substr(0, sign));
    auto value = percent_decoded(sign < pair.size() ? pair.substr(sign + 1) : std::string_view());
    if (!key || !value) return fail(Errc::parse_failed, "query: a '%' without two hexadecimal digits after it");
    if (!out.emplace(*key, *std::move(value)).second)
      return fail(Errc::parse_failed, "query: '" + *key + "' is given twice");
  }
  return out;
}

Result<Json> parse_body(std::string_view body) {
  auto json = parse_json(body, "body");
  if (!json && json.error().code() == Errc::too_large) return fail(Errc::parse_failed, json.error().text());
  return json;
}

bool is_plain_name(std::string_view name) noexcept {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 128 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), is_fine);
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

HttpResponse error_response(int status, std::string_view type, std::string_view message, std::string_view code) {
  HttpResponse response;
  response.status = status;
  response.body =
      Json{{"error",
            {{"message", message}, {"type", type}, {"param", nullptr}, {"code", code.empty() ? Json() : Json(code)}}}}
          .dump(Json::Order::as_set);
  if (status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  // Clients of OpenAI's kind repeat these two by themselves unless they are told not to.
  if (status == 409 || status == 500) response.headers.push_back({"x-should-retry", "false"});
  if (status == 429 || status == 503) {
    response.headers.push_back({"Retry-After", "1"});
    response.headers.push_back({"retry-after-ms", "1000"});
  }
  return response;
}

HttpResponse error_response(const Error& error) {
  const Answered as = answered(error.code());
  return error_response(as.status, as.type, error.text(), name(error.code()));
}

HttpResponse unreadable(const Error& error) {
  const bool is_of_keys = error.code() == Errc::not_found || error.code() == Errc::duplicate_name;
  return is_of_keys ? error_response(400, "invalid_request_error", error.text(), name(error.code()))
                    : error_response(error);
}

}  // namespace weft::server
