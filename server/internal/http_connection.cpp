// SPDX-License-Identifier: Apache-2.0

#include "server/internal/http_connection.hpp"

#include <arpa/inet.h>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace weft::server::internal {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kRead = 16 * 1024;

std::string peer_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "?";
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  else if (address.ss_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  else
    return "unix";
  return text;
}

}  // namespace

Connection::Connection(Socket socket, ConnectionTable& table, std::string peer)
    : socket_(std::move(socket)),
      executor_(socket_.get_executor()),
      timer_(executor_),
      table_(table),
      peer_(std::move(peer)),
      reader_(table.limits.head_bytes) {}

Connection::~Connection() {
  if (answering_.is_counted) table_.request_ends();
  table_.remove(*this, peer_);
}

void Connection::begin(Socket socket, ConnectionTable& table) {
  std::string peer = peer_of(socket.native_handle());
  if (peer != "unix") {
    const int yes = 1;
    setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  const auto made = std::make_shared<Connection>(std::move(socket), table, peer);
  if (!table.add(*made, peer)) {
    table.refused.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  error_code ignored;
  made->socket_.non_blocking(true, ignored);
  asio::dispatch(made->executor_, [made] {
    made->expect(Phase::idle, made->limits().keep_alive);
    made->tick();
    made->read();
  });
}

void Connection::expect(Phase phase, std::chrono::milliseconds time) {
  phase_ = phase;
  deadline_ = Clock::now() + time;
}

/// Looks at the deadline now and then: setting one for each step costs no more than an assignment. Holds the
/// connection, which nothing else may do while its request is handled.
void Connection::tick() {
  const HttpLimits& all = limits();
  const auto shortest = std::min({all.head, all.body, all.keep_alive, all.write});
  timer_.expires_after(std::clamp(shortest / 4, std::chrono::milliseconds(5), std::chrono::milliseconds(1000)));
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error || self->phase_ == Phase::closed) return;
    if (Clock::now() >= self->deadline_) self->expired();
    if (self->phase_ != Phase::closed) self->tick();
  });
}

void Connection::expired() {
  deadline_ = Clock::time_point::max();
  if (phase_ == Phase::head || phase_ == Phase::body) {
    table_.timed_out.fetch_add(1, std::memory_order_relaxed);
    const bool is_head = phase_ == Phase::head;
    error_code ignored;
    socket_.cancel(ignored);
    return refuse({408, is_head ? "head: not complete in time" : "body: nothing came for too long"});
  }
  if (phase_ == Phase::writing || phase_ == Phase::streaming) {
    table_.timed_out.fetch_add(1, std::memory_order_relaxed);
    finish(499);
  }
  close();
}

void Connection::close() {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  if (stream_) stream_->close();
  stream_.reset();
  if (const auto handled = exchange_.lock()) handled->cancel();
  if (answering_.is_counted) finish(499);
  error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
}

void Connection::drain() {
  if (phase_ == Phase::idle) close();
}

void Connection::read() {
  if (phase_ == Phase::closed) return;
  if (in_.first > 0) {
    std::memmove(in_.bytes.data(), in_.bytes.data() + in_.first, in_.last - in_.first);
    in_.last -= std::exchange(in_.first, 0);
  }
  if (in_.bytes.size() < in_.last + kRead) in_.bytes.resize(in_.last + kRead);
  socket_.async_read_some(asio::buffer(in_.bytes.data() + in_.last, in_.bytes.size() - in_.last),
                          [self = shared_from_this()](error_code error, std::size_t count) {
                            if (error == asio::error::operation_aborted) return;
                            if (error) return self->close();
                            self->in_.last += count;
                            if (self->phase_ == Phase::body) self->expect(Phase::body, self->limits().body);
                            self->process();
                          });
}

/// Takes what was read, up to the end of a request.
void Connection::process() {
  while (phase_ == Phase::idle || phase_ == Phase::head || phase_ == Phase::body) {
    const auto before = reader_.state();
    if (before == RequestReader::State::done) return dispatch();
    const std::size_t taken = reader_.feed(in_.view());
    in_.first += taken;
    if (reader_.bad()) return refuse(*reader_.bad());
    if (before == RequestReader::State::head && reader_.state() == RequestReader::State::body) {
      admit();
      continue;
    }
    if (phase_ == Phase::idle && reader_.has_begun()) expect(Phase::head, limits().head);
    if (taken == 0 && reader_.state() != RequestReader::State::done) return read();
  }
}

/// The head is there: decides whether its body may come.
void Connection::admit() {
  HttpRequest& request = reader_.request();
  request.peer = peer_;
  const std::string_view given = request.header("x-request-id");
  request.id =
      is_plain_name(given) && given.find('.') == std::string_view::npos ? std::string(given) : table_.next_id();
  remember(request);
  auto admission = table_.handler.admit(request);
  const bool expects = request.has_header("expect");
  if (!admission.refusal && expects && lowered(request.header("expect")) != "100-continue")
    admission.refusal = error_response(417, "invalid_request_error", "expect: only 100-continue is known");
  if (admission.refusal) {
    // The body is not read, so the connection cannot be used again.
    admission.refusal->closes |= reader_.has_body();
    return send(*std::move(admission.refusal));
  }
  expect(Phase::body, limits().body);
  const bool to_file = admission.to_file && reader_.has_body();
  if (to_file)
    if (const Status made = upload_.make(table_.upload_directory); !made) return refuse({507, made.error().text()});
  reader_.accept_body(admission.max_body,
                      to_file ? RequestReader::Sink([this](std::string_view part) { return upload_.take(part); })
                              : RequestReader::Sink());
  if (reader_.bad()) return refuse(*reader_.bad());
  if (expects && request.version == 11 && reader_.has_body()) {
    // The socket's buffer is empty here, so that these few bytes do not wait.
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    error_code ignored;
    socket_.write_some(asio::buffer(kContinue.data(), kContinue.size()), ignored);
  }
}

void Connection::remember(const HttpRequest& request) {
  answering_.is_head = request.method == "HEAD";
  answering_.keeps_alive = request.keeps_alive;
  answering_.version = request.version;
  answering_.begun = Clock::now();
  answering_.route.clear();
  answering_.headers = "x-request-id: " + request.id + "\r\n";
  for (const HttpHeader& each : table_.handler.headers(request))
    answering_.headers += each.name + ": " + each.value + "\r\n";
}

void Connection::dispatch() {
  auto exchange = std::make_shared<ExchangeOfConnection>(weak_from_this(), ++answering_.number);
  exchange->request = std::move(reader_.request());
  if (upload_.is_open()) exchange->request.body_file = upload_.release();
  reader_.reset();
  phase_ = Phase::handling;
  deadline_ = Clock::time_point::max();
  exchange_ = exchange;
  answering_.is_counted = true;
  table_.request_begins();
  table_.handler.handle(std::move(exchange));
  if (phase_ == Phase::handling) watch();
}

void Connection::refuse(const BadRequest& bad) {
  upload_.drop();
  if (reader_.state() == RequestReader::State::head) {
    HttpRequest unread;
    unread.id = table_.next_id();
    unread.peer = peer_;
    remember(unread);
  }
  const char* const type = bad.status == 507 ? "storage_error" : "invalid_request_error";
  HttpResponse response = error_response(bad.status, type, bad.message);
  response.closes = true;
  send(std::move(response));
}

/// While a request is handled: sees a client that goes. One that has sent the next request already is seen only when
/// its answer is written.
void Connection::watch() {
  watch_.is_on = true;
  socket_.async_wait(Socket::wait_read, [weak = weak_from_this(), number = ++watch_.number](error_code error) {
    const auto self = weak.lock();
    if (!self || error || !self->watch_.is_on || number != self->watch_.number) return;
    self->watch_.is_on = false;
    char byte = 0;
    const ssize_t count = recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count > 0) return;
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return self->watch();
    self->client_gone();
  });
}

void Connection::unwatch() {
  if (!std::exchange(watch_.is_on, false)) return;
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::client_gone() {
  table_.cancelled.fetch_add(1, std::memory_order_relaxed);
  close();
}

}  // namespace weft::server::internal
