// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_server.hpp"
#include "server/request_reader.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::server::internal {

using Protocol = boost::asio::generic::stream_protocol;
using Executor = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<Protocol, Executor>;
using Timer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                                boost::asio::wait_traits<std::chrono::steady_clock>, Executor>;
class Connection;

/// State that all connections of a server share. @thread any
class ConnectionShared {
 public:
  ConnectionShared(const HttpLimits& of, HttpHandler& to, std::string uploads)
      : limits(of), handler(to), upload_directory(std::move(uploads)) {}

  const HttpLimits limits;
  HttpHandler& handler;
  const std::string upload_directory;

  /// False: there are too many, of that address or altogether.
  bool add(Connection& connection, const std::string& peer);
  void remove(Connection& connection, const std::string& peer) noexcept;
  void request_begins() noexcept;
  void request_ends() noexcept;
  bool is_draining() const noexcept { return draining_.load(std::memory_order_relaxed); }
  void drain();
  void close_all();
  bool wait_idle(std::chrono::milliseconds time);
  HttpStatistics statistics() const noexcept;
  std::string next_id();

  std::atomic<std::uint64_t> accepted{0}, refused{0}, cancelled{0}, timed_out{0};

 private:
  std::vector<std::shared_ptr<Connection>> all();

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> open_;
  std::map<std::string, std::size_t> by_address_;
  std::size_t handled_ = 0;  // requests
  std::atomic<bool> draining_{false};
  std::atomic<std::uint64_t> ids_{0};
};

/// An answer in pieces: what waits to be written.
class StreamOfConnection final : public HttpStream {
 public:
  StreamOfConnection(std::weak_ptr<Connection> connection, std::size_t capacity)
      : connection_(std::move(connection)), capacity_(capacity) {}
  bool send(std::string text) override;
  void end() override;
  bool is_open() const noexcept override { return open_.load(std::memory_order_relaxed); }
  /// Text that waits, and whether it is the end. @thread the connection's
  std::string take(bool& is_end);
  void close() noexcept { open_.store(false, std::memory_order_relaxed); }

 private:
  void wake();

  const std::weak_ptr<Connection> connection_;
  const std::size_t capacity_;
  std::mutex mutex_;
  std::string waiting_;
  bool ended_ = false, woken_ = false;
  std::atomic<bool> open_{true};
};

/// One connection: reads a request, has it handled, writes its answer, reads the next. All of it on its strand.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  static void begin(Socket socket, ConnectionShared& shared);
  Connection(Socket socket, ConnectionShared& shared, std::string peer);
  ~Connection();

  const Executor& executor() noexcept { return executor_; }
  const HttpLimits& limits() const noexcept { return shared_.limits; }
  /// Answers the request of that number, unless it was answered before or its client has gone. @thread its strand
  void write(std::uint64_t number, const std::string& route, HttpResponse response);
  void begin_stream(std::uint64_t number, const std::string& route, HttpResponse head,
                    std::shared_ptr<StreamOfConnection> stream);
  void flush_stream();
  /// The server ends: an idle connection goes.
  void drain();
  void close();

 private:
  enum class Phase { idle, head, body, handling, writing, streaming, lingering, closed };
  using Clock = std::chrono::steady_clock;

  void process();
  bool has_head();
  void read();
  void admit();
  bool make_upload();
  Status take_upload(std::string_view part);
  void drop_upload() noexcept;
  void dispatch();
  void remember(const HttpRequest& request);
  void refuse(const BadRequest& bad);
  void send(HttpResponse response);
  void written(bool closes);
  void watch();
  void unwatch();
  void client_gone();
  void linger();
  void expect(Phase phase, std::chrono::milliseconds time);
  void tick();
  void expired();
  std::string head_of(const HttpResponse& response, bool closes, bool is_chunked) const;
  void finish(int status);

  /// Bytes that were read and not taken yet.
  struct Input {
    std::vector<char> bytes;
    std::size_t first = 0, last = 0;
    std::string_view view() const noexcept { return {bytes.data() + first, last - first}; }
  };
  struct Output {
    std::string head, body;
    bool is_writing = false;
    int status = 0;
  };
  /// Facts of a request that its answer needs.
  struct Answering {
    std::uint64_t number = 0;
    bool is_head = false, keeps_alive = false, is_counted = false;
    int version = 11;
    std::string headers, route;
    Clock::time_point begun{};
  };
  struct Upload {
    int file = -1;
    std::string path;
  };
  struct Watch {
    bool is_on = false;
    std::uint64_t number = 0;
  };

  Socket socket_;
  const Executor executor_;
  Timer timer_;
  ConnectionShared& shared_;
  const std::string peer_;
  RequestReader reader_;
  Input in_;
  Output out_;
  Answering answering_;
  Upload upload_;
  Watch watch_;
  Phase phase_ = Phase::idle;
  Clock::time_point deadline_ = Clock::time_point::max();
  std::weak_ptr<HttpExchange> exchange_;
  std::shared_ptr<StreamOfConnection> stream_;
};

}  // namespace weft::server::internal
