// SPDX-License-Identifier: Apache-2.0

#include "server/request_reader.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include <algorithm>
#include <utility>

namespace weft::server {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::string_view kHeadEnds = "\r\n\r\n";
// Of lines between chunks: sizes, extensions, trailers.
constexpr std::size_t kMaxChunkLine = 16 * 1024;

std::string_view plain(beast::string_view text) noexcept { return {text.data(), text.size()}; }

}  // namespace

/// Beast's parser, which hands lines and parts of the body to a reader.
class RequestReader::Parser final : public http::basic_parser<true> {
 public:
  explicit Parser(RequestReader& reader) : reader_(reader) {
    body_limit(boost::none);  // the reader counts
    eager(false);
  }

  State state = State::head;
  std::uint64_t max_body = 0, received = 0;
  Sink sink;
  std::size_t hosts = 0;

 private:
  void on_request_impl(http::verb, beast::string_view method, beast::string_view target, int version,
                       beast::error_code&) override {
    reader_.request_.method = plain(method);
    reader_.request_.target = plain(target);
    reader_.request_.version = version;
  }
  void on_response_impl(int, beast::string_view, int, beast::error_code&) override {}
  void on_field_impl(http::field, beast::string_view name, beast::string_view value, beast::error_code&) override {
    if (state != State::head) return;  // trailers say nothing that counts
    reader_.request_.headers.push_back({lowered(plain(name)), std::string(plain(value))});
    hosts += reader_.request_.headers.back().name == "host";
  }
  void on_header_impl(beast::error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, beast::error_code&) override {}
  std::size_t on_body_impl(beast::string_view body, beast::error_code& error) override {
    take(plain(body), error);
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t size, beast::string_view, beast::error_code& error) override {
    if (size <= max_body && received <= max_body - size) return;
    too_large(error);
  }
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, beast::error_code& error) override {
    take(plain(body), error);
    return body.size();
  }
  void on_finish_impl(beast::error_code&) override {}

  void take(std::string_view part, beast::error_code& error) {
    received += part.size();
    if (received > max_body) return too_large(error);
    if (!sink) {
      reader_.request_.body += part;
      return;
    }
    if (const Status taken = sink(part); !taken) {
      reader_.refuse(507, taken.error().text());
      error = http::error::buffer_overflow;
    }
  }
  void too_large(beast::error_code& error) {
    reader_.refuse(413, "body: more than " + std::to_string(max_body) + " bytes, the limit of this route");
    error = http::error::body_limit;
  }

  RequestReader& reader_;
};

RequestReader::RequestReader(std::size_t max_head) : max_head_(max_head) { reset(); }
RequestReader::~RequestReader() = default;

RequestReader::State RequestReader::state() const noexcept { return parser_->state; }
const std::optional<BadRequest>& RequestReader::bad() const noexcept { return bad_; }
HttpRequest& RequestReader::request() noexcept { return request_; }
bool RequestReader::has_begun() const noexcept { return has_begun_; }

std::optional<std::uint64_t> RequestReader::content_length() const noexcept {
  const auto length = parser_->content_length();
  return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}

bool RequestReader::has_body() const noexcept {
  return parser_->chunked() || parser_->content_length().value_or(0) > 0;
}

void RequestReader::reset() {
  parser_ = std::make_unique<Parser>(*this);
  request_ = {};
  bad_.reset();
  scanned_ = 0;
  has_begun_ = false;
}

void RequestReader::refuse(int status, std::string message) {
  if (!bad_) bad_ = BadRequest{status, std::move(message)};
}

std::size_t RequestReader::feed(std::string_view bytes) {
  if (bad_ || state() == State::done || bytes.empty()) return 0;
  if (state() == State::head) {
    // An empty line before a request is passed over (RFC 9112, 2.2).
    if (!has_begun_ && bytes.starts_with("\r\n")) return 2;
    if (!has_begun_ && bytes == "\r") return 0;
    has_begun_ = true;
    const std::size_t from = scanned_ - std::min(scanned_, kHeadEnds.size() - 1);
    const std::size_t end = bytes.find(kHeadEnds, from);
    if (end == std::string_view::npos || end + kHeadEnds.size() > max_head_) {
      if (bytes.size() > max_head_ || end != std::string_view::npos)
        refuse(431, "head: more than " + std::to_string(max_head_) + " bytes of request line and headers");
      scanned_ = bytes.size();
      return 0;
    }
    read_head(bytes.substr(0, end + kHeadEnds.size()));
    return bad_ ? 0 : end + kHeadEnds.size();
  }
  beast::error_code error;
  std::size_t taken = 0;
  while (!error && !parser_->is_done() && taken < bytes.size()) {
    const std::size_t now = parser_->put(boost::asio::buffer(bytes.data() + taken, bytes.size() - taken), error);
    taken += now;
    if (now == 0) break;
  }
  if (error && error != http::error::need_more) refuse(400, "body: " + error.message());
  if (bad_) return 0;
  if (parser_->is_done())
    parser_->state = State::done;
  else if (bytes.size() - taken > kMaxChunkLine)
    refuse(400, "body: a chunk's size or trailer of more than " + std::to_string(kMaxChunkLine) + " bytes");
  return taken;
}

void RequestReader::read_head(std::string_view head) {
  check_head(head);
  if (bad_) return;
  parser_->header_limit(static_cast<std::uint32_t>(head.size() + 1));
  beast::error_code error;
  std::size_t taken = 0;
  while (!error && !parser_->is_header_done() && taken < head.size()) {
    const std::size_t now = parser_->put(boost::asio::buffer(head.data() + taken, head.size() - taken), error);
    taken += now;
    if (now == 0) break;
  }
  if (error == http::error::bad_version) return refuse(505, "head: only HTTP/1.0 and HTTP/1.1 are spoken here");
  if (error && error != http::error::need_more) return refuse(400, "head: " + error.message());
  if (!parser_->is_header_done() || taken != head.size()) return refuse(400, "head: not a request");
  HttpRequest& request = request_;
  if (parser_->hosts > 1 || (parser_->hosts == 0 && request.version == 11))
    return refuse(400, "head: exactly one Host is needed, found " + std::to_string(parser_->hosts));
  if (request.version == 10 && parser_->chunked()) return refuse(400, "head: Transfer-Encoding in HTTP/1.0");
  if (request.has_header("transfer-encoding") && !parser_->chunked())
    return refuse(400, "head: Transfer-Encoding must be chunked");
  if (!request.target.starts_with('/') && request.target != "*") return refuse(400, "head: a target must begin with /");
  request.keeps_alive = parser_->keep_alive();
  const std::size_t mark = std::min(request.target.find('?'), request.target.size());
  request.path = request.target.substr(0, mark);
  request.query = mark < request.target.size() ? request.target.substr(mark + 1) : std::string();
  parser_->state = State::body;
}

/// Refuses what one parser forgives and another reads otherwise.
void RequestReader::check_head(std::string_view head) {
  for (std::size_t i = 0; i < head.size(); ++i) {
    const char c = head[i];
    if (c == '\0') return refuse(400, "head: a NUL");
    if (c == '\n' && (i == 0 || head[i - 1] != '\r')) return refuse(400, "head: a line that ends without CR");
    if (c == '\r' && (i + 1 == head.size() || head[i + 1] != '\n')) return refuse(400, "head: a CR within a line");
    if (c == '\n' && i + 1 < head.size() && (head[i + 1] == ' ' || head[i + 1] == '\t'))
      return refuse(400, "head: a folded header line");
  }
}

void RequestReader::accept_body(std::uint64_t max_body, Sink sink) {
  if (state() != State::body) return;
  parser_->max_body = max_body;
  parser_->sink = std::move(sink);
  if (content_length().value_or(0) > max_body)
    return refuse(413, "body: " + std::to_string(*content_length()) + " bytes, the limit of this route is " +
                           std::to_string(max_body));
  if (!parser_->sink) request_.body.reserve(std::min<std::uint64_t>(content_length().value_or(0), 1 << 20));
  if (!has_body()) parser_->state = State::done;
}

}  // namespace weft::server
