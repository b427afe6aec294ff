// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_message.hpp"

#include "core/result.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server {

/// Checks of those who ask a server: keys, names of the host, origins of web pages.
/// @thread any
class Access {
 public:
  struct Options {
    std::vector<std::string> keys;
    std::string key_file;              ///< one key a line, `#` begins a comment; read again by `reload`
    std::vector<std::string> origins;  ///< of web pages that may read answers, exactly; "*": any, without keys only
    std::vector<std::string> hosts;    ///< names under which the server is reached, besides loopback's
    bool checks_host = true;           ///< refuse other names: what is on loopback alone is safe from DNS rebinding
  };

  /// @error invalid_argument: "*" beside keys, a key of more than 256 bytes or with spaces; storage: the file
  static Result<std::unique_ptr<Access>> make(Options options);
  /// Reads the file of keys anew. @error as make; then the keys stay as they were
  Status reload();
  bool has_keys() const;

  /// An answer where the request may go no further. `is_keyless`: the route needs no key.
  std::optional<HttpResponse> refusal(const HttpRequest& head, bool is_keyless) const;
  /// The answer to a preflight request (OPTIONS with Origin).
  HttpResponse preflight(const HttpRequest& head) const;
  /// Fields of answers that a page of an allowed origin may read.
  void add_cors(const HttpRequest& request, std::vector<HttpHeader>& headers) const;

 private:
  explicit Access(Options options) : options_(std::move(options)) {}
  bool is_known_host(std::string_view host) const;
  bool is_allowed_origin(std::string_view origin) const;
  bool has_key(const HttpRequest& head) const;

  const Options options_;
  mutable std::mutex mutex_;
  std::vector<std::string> keys_;
};

/// The key that a request shows; empty: none.
std::string_view shown_key(const HttpRequest& head);

/// Equality in a time that depends on neither content nor the place of a difference, up to 256 bytes.
bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept;

}  // namespace weft::server
