// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_message.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace weft::server {

/// A request that cannot be read, as it is answered; the connection is closed after it.
struct BadRequest {
  int status = 400;
  std::string message;
};

/// Reads requests of HTTP/1.0 and 1.1 from bytes, without sockets. Strict where servers and proxies may differ: both
/// Transfer-Encoding and Content-Length, folded header lines, bare line feeds in the head, and other than one Host are
/// refused.
/// @thread one at a time
/// @source RFC 9110, RFC 9112
class RequestReader {
 public:
  enum class State {
    head,  ///< the head is not complete
    body,  ///< `request` has the head; `accept_body` comes next, then the body
    done   ///< `request` is complete
  };
  /// Receives parts of a body, in order.
  using Sink = std::function<Status(std::string_view part)>;

  explicit RequestReader(std::size_t max_head = 16 * 1024);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  /// Takes bytes from the front of `bytes` and returns how many. What is not taken is to be given again, with more
  /// behind it. Stops after the head, and after the request. Takes nothing once `bad` is set.
  std::size_t feed(std::string_view bytes);
  State state() const noexcept;
  const std::optional<BadRequest>& bad() const noexcept;
  HttpRequest& request() noexcept;
  /// Body's length by Content-Length. Nothing: chunked, or no body.
  std::optional<std::uint64_t> content_length() const noexcept;
  bool has_body() const noexcept;
  /// Allows a body of `max_body` bytes, which goes to `sink`; empty: to request().body. Sets `bad` (413) at once where
  /// Content-Length is larger.
  void accept_body(std::uint64_t max_body, Sink sink = {});
  /// True after the first byte of a head, until the request is taken.
  bool has_begun() const noexcept;
  /// Begins the next request.
  void reset();

 private:
  class Parser;
  void read_head(std::string_view head);
  void check_head(std::string_view head);
  void refuse(int status, std::string message);

  const std::size_t max_head_;
  std::unique_ptr<Parser> parser_;
  HttpRequest request_;
  std::optional<BadRequest> bad_;
  std::size_t scanned_ = 0;  // bytes of the head without its end
  bool has_begun_ = false;
};

}  // namespace weft::server
