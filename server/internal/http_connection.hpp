// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_server.hpp"
#include "server/internal/connection_exchange.hpp"
#include "server/internal/connection_table.hpp"
#include "server/internal/upload_file.hpp"
#include "server/request_reader.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server::internal {

using Protocol = boost::asio::generic::stream_protocol;
using Executor = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<Protocol, Executor>;
using Timer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                                boost::asio::wait_traits<std::chrono::steady_clock>, Executor>;
/// One connection: reads a request, has it handled, writes its answer, reads the next. All of it on its strand.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  static void begin(Socket socket, ConnectionTable& table);
  Connection(Socket socket, ConnectionTable& table, std::string peer);
  ~Connection();

  const Executor& executor() noexcept { return executor_; }
  const HttpLimits& limits() const noexcept { return table_.limits; }
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
  struct Watch {
    bool is_on = false;
    std::uint64_t number = 0;
  };

  Socket socket_;
  const Executor executor_;
  Timer timer_;
  ConnectionTable& table_;
  const std::string peer_;
  RequestReader reader_;
  Input in_;
  Output out_;
  Answering answering_;
  UploadFile upload_;
  Watch watch_;
  Phase phase_ = Phase::idle;
  Clock::time_point deadline_ = Clock::time_point::max();
  std::weak_ptr<HttpExchange> exchange_;
  std::shared_ptr<StreamOfConnection> stream_;
};

}  // namespace weft::server::internal
