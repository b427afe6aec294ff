// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_message.hpp"

#include "core/json.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::testing {

/// An answer as a client reads it.
struct Reply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  Json json() const { return parse_json(body, "reply").value(); }
};

/// A socket that says what it is told, byte by byte, and reads answers.
class Client {
 public:
  /// "127.0.0.1:8080" or "unix:PATH".
  explicit Client(const std::string& address);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes);
  /// Closes the sending half.
  void finish();
  /// Resets the connection.
  void abort();
  /// One answer; nothing: the server closed the connection, or said nothing within `time`.
  std::optional<Reply> read(std::chrono::milliseconds time = std::chrono::seconds(20), bool of_head = false);
  /// The body of an answer in chunks, whose head was read; nothing: it was cut off.
  std::optional<std::string> read_chunks(std::chrono::milliseconds time = std::chrono::seconds(60));
  /// Bytes until `text` was seen or the time is over; all that came.
  std::string read_until(std::string_view text, std::chrono::milliseconds time = std::chrono::seconds(20));
  /// True when the server has closed the connection, within `time`.
  bool is_closed(std::chrono::milliseconds time = std::chrono::seconds(20));

  /// A request with a Host and a body's length, and its answer.
  Reply ask(std::string_view method, std::string_view path, std::string_view body = {},
            const std::vector<server::HttpHeader>& headers = {});

 private:
  bool receive(std::chrono::steady_clock::time_point until);
  int socket_ = -1;
  std::string in_;
};

}  // namespace weft::testing
