// SPDX-License-Identifier: Apache-2.0
// Answers of a connection, whole or in pieces, and its end.

#include "server/internal/http_connection.hpp"

#include <boost/asio/write.hpp>

#include <array>
#include <charconv>
#include <utility>

namespace weft::server::internal {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kLingerRead = 16 * 1024;
constexpr std::chrono::milliseconds kLinger{2000};

}  // namespace

std::string Connection::head_of(const HttpResponse& response, bool closes, bool is_chunked) const {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " ";
  head += reason_of(response.status);
  head += "\r\n";
  head += answering_.headers;
  if (!response.content_type.empty() && response.status != 204)
    head += "Content-Type: " + response.content_type + "\r\n";
  for (const HttpHeader& each : response.headers) head += each.name + ": " + each.value + "\r\n";
  if (is_chunked)
    head += answering_.version == 11 ? "Transfer-Encoding: chunked\r\n" : "";
  else if (response.status != 204 && response.status != 304)
    head += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  if (closes)
    head += "Connection: close\r\n";
  else if (answering_.version == 10)
    head += "Connection: keep-alive\r\n";
  return head + "\r\n";
}

void Connection::write(std::uint64_t number, const std::string& route, HttpResponse response) {
  if (phase_ != Phase::handling || number != answering_.number) return;
  unwatch();
  answering_.route = route;
  send(std::move(response));
}

void Connection::send(HttpResponse response) {
  const bool closes = response.closes || !answering_.keeps_alive || table_.is_draining();
  out_.status = response.status;
  out_.head = head_of(response, closes, false);
  out_.body = answering_.is_head ? std::string() : std::move(response.body);
  expect(Phase::writing, limits().write);
  const std::array<asio::const_buffer, 2> parts{asio::buffer(out_.head), asio::buffer(out_.body)};
  asio::async_write(socket_, parts, [self = shared_from_this(), closes](error_code error, std::size_t) {
    if (self->phase_ != Phase::writing) return;
    if (error) return self->close();
    self->finish(self->out_.status);
    self->written(closes);
  });
}

void Connection::written(bool closes) {
  // A drain that came while the answer was being written did not find the connection idle.
  if (closes || table_.is_draining()) return linger();
  if (reader_.state() != RequestReader::State::head) reader_.reset();
  expect(Phase::idle, limits().keep_alive);
  process();
}

/// Says no more, and reads for a while what the client still sends: a close with unread bytes would reset the
/// connection, and the client might never see the answer.
void Connection::linger() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  if (phase_ != Phase::lingering) expect(Phase::lingering, kLinger);
  in_.first = in_.last = 0;
  in_.bytes.resize(kLingerRead);
  socket_.async_read_some(asio::buffer(in_.bytes), [self = shared_from_this()](error_code error, std::size_t) {
    if (error == asio::error::operation_aborted) return;
    if (error || self->phase_ != Phase::lingering) return self->close();
    self->linger();
  });
}

void Connection::finish(int status) {
  table_.handler.finished(answering_.route, status, Clock::now() - answering_.begun);
  if (std::exchange(answering_.is_counted, false)) table_.request_ends();
}

void Connection::begin_stream(std::uint64_t number, const std::string& route, HttpResponse head,
                              std::shared_ptr<StreamOfConnection> stream) {
  if (phase_ != Phase::handling || number != answering_.number) return stream->close();
  unwatch();
  answering_.route = route;
  answering_.keeps_alive = answering_.keeps_alive && answering_.version == 11 && !head.closes;
  out_.status = head.status;
  out_.head = head_of(head, !answering_.keeps_alive, true);
  stream_ = std::move(stream);
  if (answering_.is_head) stream_->end();
  expect(Phase::streaming, limits().write);
  out_.is_writing = true;
  asio::async_write(socket_, asio::buffer(out_.head), [self = shared_from_this()](error_code error, std::size_t) {
    self->out_.is_writing = false;
    if (self->phase_ != Phase::streaming) return;
    if (error) return self->close();
    self->watch();
    self->flush_stream();
  });
}

void Connection::flush_stream() {
  if (phase_ != Phase::streaming || out_.is_writing || !stream_) return;
  bool is_end = false;
  out_.body = stream_->take(is_end);
  if (out_.body.empty() && !is_end) {
    deadline_ = Clock::time_point::max();
    return;
  }
  const bool is_last = out_.body.empty();
  if (answering_.version == 11 && !answering_.is_head) {
    char size[24];
    const auto end = std::to_chars(size, size + sizeof size, out_.body.size(), 16).ptr;
    out_.head = std::string(size, end) + "\r\n";
    out_.body += "\r\n";
  } else {
    out_.head.clear();
    if (answering_.is_head) out_.body.clear();
  }
  expect(Phase::streaming, limits().write);
  out_.is_writing = true;
  const std::array<asio::const_buffer, 2> parts{asio::buffer(out_.head), asio::buffer(out_.body)};
  asio::async_write(socket_, parts, [self = shared_from_this(), is_last](error_code error, std::size_t) {
    self->out_.is_writing = false;
    if (self->phase_ != Phase::streaming) return;
    if (error) return self->close();
    if (!is_last) return self->flush_stream();
    self->stream_.reset();
    self->unwatch();
    self->finish(self->out_.status);
    self->written(!self->answering_.keeps_alive || self->table_.is_draining());
  });
}

}  // namespace weft::server::internal
