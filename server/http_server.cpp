// SPDX-License-Identifier: Apache-2.0

#include "server/http_server.hpp"

#include "server/internal/http_connection.hpp"

#include "core/log.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace weft::server {
namespace {

namespace asio = boost::asio;
using internal::Connection;
using internal::ConnectionTable;
using internal::Protocol;
using Acceptor = asio::basic_socket_acceptor<Protocol>;
using Socket = internal::Socket;

constexpr std::string_view kUnix = "unix:";

Error system_error(const std::string& address, const char* what) {
  return Error(Errc::storage, "listen " + address + ": " + what + ": " + std::strerror(errno));
}

/// Removes a socket that a killed process left behind.
Status clear_stale(const std::string& path, const sockaddr_un& address) {
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0) return {};
  if (!S_ISSOCK(there.st_mode))
    return fail(Errc::storage, "listen unix:" + path + ": what stands there is no socket; give another path");
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return fail(system_error(path, "no socket"));
  const bool listens = ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
                       (errno != ECONNREFUSED && errno != ENOENT);
  ::close(probe);
  if (listens) return fail(Errc::storage, "listen unix:" + path + ": another process listens there");
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return fail(system_error(path, "cannot be replaced"));
  return {};
}

Result<int> listen_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return fail(Errc::invalid_argument, "listen unix:" + path + ": a path has 1 to " +
                                            std::to_string(sizeof address.sun_path - 1) + " bytes, not " +
                                            std::to_string(path.size()));
  std::memcpy(address.sun_path, path.data(), path.size());
  WEFT_CHECK(clear_stale(path, address));
  const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return fail(system_error("unix:" + path, "no socket"));
  const mode_t before = umask(0177);  // there is no moment in which others may connect
  const int bound = bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  umask(before);
  if (bound != 0 || ::listen(made, 256) != 0) {
    const Error error = system_error("unix:" + path, "cannot be listened on");
    ::close(made);
    return fail(error);
  }
  return made;
}

struct Endpoint {
  asio::ip::tcp::endpoint at;
};

/// "127.0.0.1:80", "[::1]:80", "localhost:80".
Result<Endpoint> read_endpoint(const std::string& text) {
  const auto wrong = [&] {
    return fail(Errc::invalid_argument, "listen '" + text +
                                            "': give ADDRESS:PORT with an IP address or localhost, "
                                            "[ADDRESS]:PORT of IPv6, or unix:PATH");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong();
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || at != end) return wrong();
  boost::system::error_code failed;
  const auto address = asio::ip::make_address(host, failed);
  if (failed) return wrong();
  return Endpoint{{address, port}};
}

Result<int> listen_tcp(const std::string& text) {
  WEFT_TRY(const Endpoint endpoint, read_endpoint(text));
  const int made = ::socket(endpoint.at.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return fail(system_error(text, "no socket"));
  const int yes = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(made, endpoint.at.data(), static_cast<socklen_t>(endpoint.at.size())) != 0 || ::listen(made, 1024) != 0) {
    const Error error = system_error(text, "cannot be listened on");
    ::close(made);
    return fail(error);
  }
  return made;
}

std::string name_of(int listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "?";
  if (address.ss_family == AF_UNIX) {
    const auto& local = reinterpret_cast<const sockaddr_un&>(address);
    return std::string(kUnix) + std::string(local.sun_path, strnlen(local.sun_path, sizeof local.sun_path));
  }
  asio::ip::tcp::endpoint endpoint;
  std::memcpy(endpoint.data(), &address, std::min<std::size_t>(size, endpoint.capacity()));
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(endpoint.port());
}

/// Lets the calling thread run before those that compute, as soon as something comes. False: the system does not allow
/// it (RLIMIT_RTPRIO).
bool become_urgent() noexcept {
  sched_param first{};
  first.sched_priority = 1;
  return sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &first) == 0;
}

}  // namespace

class HttpServer::Parts {
 public:
  Parts(Options options, HttpHandler& handler)
      : options_(std::move(options)), shared_(options_.limits, handler, options_.upload_directory) {}

  ~Parts() {
    shared_.close_all();
    io_.stop();
    for (std::thread& each : threads_) each.join();
    shared_.close_all();
    // Connections that pending operations hold go with the context; exchanges that others hold answer into nothing.
    for (const std::string& each : made_) unlink(each.c_str());
  }

  Status open() {
    for (const int each : options_.inherited) WEFT_CHECK(accept_on(each));
    for (const std::string& each : options_.listen) {
      const bool is_unix = each.starts_with(kUnix);
      WEFT_TRY(const int listening, is_unix ? listen_unix(each.substr(kUnix.size())) : listen_tcp(each));
      if (is_unix) made_.push_back(each.substr(kUnix.size()));
      WEFT_CHECK(accept_on(listening));
    }
    if (acceptors_.empty()) return fail(Errc::invalid_argument, "listen: no address is given");
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the program's
    for (std::size_t i = 0; i < std::max<std::size_t>(options_.threads, 1); ++i)
      threads_.emplace_back([this] {
        if (options_.urgent && become_urgent()) shared_.urgent_threads.fetch_add(1, std::memory_order_relaxed);
        io_.run();
      });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return {};
  }

  const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  ConnectionTable& shared() noexcept { return shared_; }

 private:
  Status accept_on(int listening) {
    addresses_.push_back(name_of(listening));
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size);
    auto& made = acceptors_.emplace_back(std::make_unique<Acceptor>(io_));
    boost::system::error_code failed;
    made->assign(Protocol(address.ss_family, address.ss_family == AF_UNIX ? 0 : IPPROTO_TCP), listening, failed);
    if (failed) return fail(Errc::storage, "listen " + addresses_.back() + ": " + failed.message());
    accept(*made);
    return {};
  }

  void accept(Acceptor& acceptor) {
    acceptor.async_accept(asio::make_strand(io_), [this, &acceptor](boost::system::error_code error, Socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error) Connection::begin(std::move(socket), shared_);
      if (error == asio::error::no_descriptors || error == asio::error::no_buffer_space) {
        // Nothing can be accepted for a while: an accept that fails at once would keep a core busy.
        auto pause = std::make_shared<asio::steady_timer>(io_, std::chrono::milliseconds(50));
        pause->async_wait([this, &acceptor, pause](boost::system::error_code) { accept(acceptor); });
        return;
      }
      accept(acceptor);
    });
  }

  const Options options_;
  ConnectionTable shared_;
  asio::io_context io_;  // after what connections use, so that they go first
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::vector<std::string> addresses_, made_;
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::open(Options options, HttpHandler& handler) {
  auto parts = std::make_unique<Parts>(std::move(options), handler);
  WEFT_CHECK(parts->open());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(parts)));
}

const std::vector<std::string>& HttpServer::addresses() const noexcept { return parts_->addresses(); }
void HttpServer::drain() { parts_->shared().drain(); }
bool HttpServer::wait_idle(std::chrono::milliseconds time) { return parts_->shared().wait_idle(time); }
HttpStatistics HttpServer::statistics() const noexcept { return parts_->shared().statistics(); }

}  // namespace weft::server
