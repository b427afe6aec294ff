// SPDX-License-Identifier: Apache-2.0

#include "server/internal/http_connection.hpp"

#include <arpa/inet.h>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace weft::server::internal {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kRead = 16 * 1024;
constexpr std::chrono::milliseconds kLinger{2000};

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

/// An exchange whose answer goes to a connection.
class ExchangeOfConnection final : public HttpExchange {
 public:
  ExchangeOfConnection(std::weak_ptr<Connection> connection, std::uint64_t number)
      : connection_(std::move(connection)), number_(number) {}

  ~ExchangeOfConnection() override {
    if (!request.body_file.empty()) unlink(request.body_file.c_str());
    if (!answered_.load()) respond(error_response(500, "server_error", "this request was given up without an answer"));
  }

  using HttpExchange::respond;
  void respond(HttpResponse response) override {
    hand_over([response = std::move(response)](Connection& to, std::uint64_t number, const std::string& of) mutable {
      to.write(number, of, std::move(response));
    });
  }
  void respond(std::function<HttpResponse()> make) override {
    hand_over([make = std::move(make)](Connection& to, std::uint64_t number, const std::string& of) {
      to.write(number, of, make());
    });
  }

  std::shared_ptr<HttpStream> stream(HttpResponse head) override {
    const auto connection = connection_.lock();
    if (!connection) {
      answered_ = true;
      return nullptr;
    }
    auto made = std::make_shared<StreamOfConnection>(connection_, connection->limits().stream_bytes);
    // Before anything that its sender adds, and before its end: the connection begins it in its own time.
    if (!head.body.empty()) (void)made->send(std::exchange(head.body, {}));
    const bool first =
        hand_over([head = std::move(head), made](Connection& to, std::uint64_t number, const std::string& of) mutable {
          to.begin_stream(number, of, std::move(head), made);
        });
    return first ? made : nullptr;
  }

 private:
  template <class Do>
  bool hand_over(Do&& what) {
    if (answered_.exchange(true)) return false;
    if (const auto connection = connection_.lock())
      asio::dispatch(connection->executor(),
                     [connection, number = number_, route_of = route, act = std::forward<Do>(what)]() mutable {
                       act(*connection, number, route_of);
                     });
    return true;
  }

  const std::weak_ptr<Connection> connection_;
  const std::uint64_t number_;
  std::atomic<bool> answered_{false};
};

}  // namespace

// --- what connections share

bool ConnectionShared::add(Connection& connection, const std::string& peer) {
  const std::lock_guard hold(mutex_);
  if (open_.size() >= limits.connections || draining_.load(std::memory_order_relaxed)) return false;
  if (peer != "unix") {
    std::size_t& of_address = by_address_[peer];
    if (of_address >= limits.per_address) return false;
    ++of_address;
  }
  open_.emplace(&connection, connection.weak_from_this());
  accepted.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ConnectionShared::remove(Connection& connection, const std::string& peer) noexcept {
  const std::lock_guard hold(mutex_);
  if (open_.erase(&connection) == 0 || peer == "unix") return;
  const auto found = by_address_.find(peer);
  if (found != by_address_.end() && --found->second == 0) by_address_.erase(found);
}

void ConnectionShared::request_begins() noexcept {
  const std::lock_guard hold(mutex_);
  ++handled_;
}

void ConnectionShared::request_ends() noexcept {
  const std::lock_guard hold(mutex_);
  if (--handled_ == 0) idle_.notify_all();
}

std::vector<std::shared_ptr<Connection>> ConnectionShared::all() {
  std::vector<std::shared_ptr<Connection>> found;
  const std::lock_guard hold(mutex_);
  for (const auto& [_, each] : open_)
    if (auto connection = each.lock()) found.push_back(std::move(connection));
  return found;
}

void ConnectionShared::drain() {
  draining_.store(true, std::memory_order_relaxed);
  for (const auto& each : all()) asio::post(each->executor(), [each] { each->drain(); });
}

void ConnectionShared::close_all() {
  draining_.store(true, std::memory_order_relaxed);
  for (const auto& each : all()) asio::post(each->executor(), [each] { each->close(); });
}

bool ConnectionShared::wait_idle(std::chrono::milliseconds time) {
  std::unique_lock hold(mutex_);
  return idle_.wait_for(hold, time, [this] { return handled_ == 0; });
}

HttpStatistics ConnectionShared::statistics() const noexcept {
  const std::lock_guard hold(mutex_);
  return {accepted.load(), refused.load(), open_.size(), cancelled.load(), timed_out.load()};
}

std::string ConnectionShared::next_id() {
  char text[32] = "req-";
  const auto end = std::to_chars(text + 4, text + sizeof text, ++ids_, 16).ptr;
  return std::string(text, end);
}

// --- answers in pieces

bool StreamOfConnection::send(std::string text) {
  {
    const std::lock_guard hold(mutex_);
    if (!is_open() || ended_ || text.size() > capacity_ - std::min(capacity_, waiting_.size())) return false;
    waiting_ += text;
    if (std::exchange(woken_, true)) return true;
  }
  wake();
  return true;
}

void StreamOfConnection::end() {
  {
    const std::lock_guard hold(mutex_);
    ended_ = true;
    if (std::exchange(woken_, true)) return;
  }
  wake();
}

void StreamOfConnection::wake() {
  if (const auto connection = connection_.lock())
    asio::post(connection->executor(), [connection] { connection->flush_stream(); });
}

std::string StreamOfConnection::take(bool& is_end) {
  const std::lock_guard hold(mutex_);
  is_end = ended_;
  if (waiting_.empty()) woken_ = false;
  return std::exchange(waiting_, {});
}

// --- a connection

Connection::Connection(Socket socket, ConnectionShared& shared, std::string peer)
    : socket_(std::move(socket)),
      executor_(socket_.get_executor()),
      timer_(executor_),
      shared_(shared),
      peer_(std::move(peer)),
      reader_(shared.limits.head_bytes) {}

Connection::~Connection() {
  drop_upload();
  if (answering_.is_counted) shared_.request_ends();
  shared_.remove(*this, peer_);
}

void Connection::begin(Socket socket, ConnectionShared& shared) {
  std::string peer = peer_of(socket.native_handle());
  if (peer != "unix") {
    const int yes = 1;
    setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  const auto made = std::make_shared<Connection>(std::move(socket), shared, peer);
  if (!shared.add(*made, peer)) {
    shared.refused.fetch_add(1, std::memory_order_relaxed);
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
    shared_.timed_out.fetch_add(1, std::memory_order_relaxed);
    const bool is_head = phase_ == Phase::head;
    error_code ignored;
    socket_.cancel(ignored);
    return refuse({408, is_head ? "head: not complete in time" : "body: nothing came for too long"});
  }
  if (phase_ == Phase::writing || phase_ == Phase::streaming) {
    shared_.timed_out.fetch_add(1, std::memory_order_relaxed);
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
      is_plain_name(given) && given.find('.') == std::string_view::npos ? std::string(given) : shared_.next_id();
  remember(request);
  auto admission = shared_.handler.admit(request);
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
  if (to_file && !make_upload())
    return refuse({507, std::string("upload: no file can be made: ") + std::strerror(errno)});
  reader_.accept_body(admission.max_body,
                      to_file ? RequestReader::Sink([this](std::string_view part) { return take_upload(part); })
                              : RequestReader::Sink());
  if (reader_.bad()) return refuse(*reader_.bad());
  if (expects && request.version == 11 && reader_.has_body()) {
    // The socket's buffer is empty here, so that these few bytes do not wait.
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    error_code ignored;
    socket_.write_some(asio::buffer(kContinue.data(), kContinue.size()), ignored);
  }
}

bool Connection::make_upload() {
  if (shared_.upload_directory.empty()) {
    errno = EROFS;
    return false;
  }
  std::string path = shared_.upload_directory + "/.upload-XXXXXX";
  upload_.file = mkostemp(path.data(), O_CLOEXEC);
  if (upload_.file >= 0) upload_.path = std::move(path);
  return upload_.file >= 0;
}

Status Connection::take_upload(std::string_view part) {
  while (!part.empty()) {
    const ssize_t count = ::write(upload_.file, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(Errc::storage, std::string("upload: cannot be written: ") + std::strerror(errno));
    part.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

void Connection::drop_upload() noexcept {
  if (upload_.file >= 0) ::close(std::exchange(upload_.file, -1));
  if (!upload_.path.empty()) unlink(upload_.path.c_str());
  upload_.path.clear();
}

void Connection::remember(const HttpRequest& request) {
  answering_.is_head = request.method == "HEAD";
  answering_.keeps_alive = request.keeps_alive;
  answering_.version = request.version;
  answering_.begun = Clock::now();
  answering_.route.clear();
  answering_.headers = "x-request-id: " + request.id + "\r\n";
  for (const HttpHeader& each : shared_.handler.headers(request))
    answering_.headers += each.name + ": " + each.value + "\r\n";
}

void Connection::dispatch() {
  auto exchange = std::make_shared<ExchangeOfConnection>(weak_from_this(), ++answering_.number);
  exchange->request = std::move(reader_.request());
  if (upload_.file >= 0) {
    ::close(std::exchange(upload_.file, -1));
    exchange->request.body_file = std::exchange(upload_.path, {});
  }
  reader_.reset();
  phase_ = Phase::handling;
  deadline_ = Clock::time_point::max();
  exchange_ = exchange;
  answering_.is_counted = true;
  shared_.request_begins();
  shared_.handler.handle(std::move(exchange));
  if (phase_ == Phase::handling) watch();
}

void Connection::refuse(const BadRequest& bad) {
  drop_upload();
  if (reader_.state() == RequestReader::State::head) {
    HttpRequest unread;
    unread.id = shared_.next_id();
    unread.peer = peer_;
    remember(unread);
  }
  const char* const type = bad.status == 507 ? "storage_error" : "invalid_request_error";
  HttpResponse response = error_response(bad.status, type, bad.message);
  response.closes = true;
  send(std::move(response));
}

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
  const bool closes = response.closes || !answering_.keeps_alive || shared_.is_draining();
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
  if (closes || shared_.is_draining()) return linger();
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
  in_.bytes.resize(kRead);
  socket_.async_read_some(asio::buffer(in_.bytes), [self = shared_from_this()](error_code error, std::size_t) {
    if (error == asio::error::operation_aborted) return;
    if (error || self->phase_ != Phase::lingering) return self->close();
    self->linger();
  });
}

void Connection::finish(int status) {
  shared_.handler.finished(answering_.route, status, Clock::now() - answering_.begun);
  if (std::exchange(answering_.is_counted, false)) shared_.request_ends();
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
  shared_.cancelled.fetch_add(1, std::memory_order_relaxed);
  close();
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
    self->written(!self->answering_.keeps_alive || self->shared_.is_draining());
  });
}

}  // namespace weft::server::internal
