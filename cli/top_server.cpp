// SPDX-License-Identifier: Apache-2.0

#include "cli/top_server.hpp"

#include "core/json.hpp"
#include "core/out_of_memory.hpp"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLookAfter{1};    // between two looks at the socket's name
constexpr std::chrono::seconds kBusy{2};         // that a full queue of connections is waited for
constexpr std::chrono::milliseconds kIdle{200};  // a client that asked nothing for so long may give way

/// An open descriptor, closed at last.
class SocketDescriptor {
 public:
  explicit SocketDescriptor(int value = -1) noexcept : value_(value) {}
  SocketDescriptor(SocketDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  SocketDescriptor& operator=(SocketDescriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~SocketDescriptor() {
    if (value_ >= 0) close(value_);
  }
  int get() const noexcept { return value_; }
  int release() noexcept { return std::exchange(value_, -1); }

 private:
  int value_;
};

Error system_error(const std::string& path, const char* what) {
  return Error(Errc::storage, "socket " + path + ": " + what + ": " + std::strerror(errno));
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(Errc::invalid_argument, "socket " + path + ": " + std::to_string(path.size()) +
                                            " bytes, a socket's path may have " +
                                            std::to_string(sizeof address.sun_path - 1) + "; give a shorter --socket");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) noexcept { return reinterpret_cast<const sockaddr*>(&address); }

/// Removes a socket that a killed process left behind.
Status clear_stale(const std::string& path) {
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0) {
    if (errno == ENOENT) return {};
    return fail(system_error(path, "cannot be looked at"));
  }
  if (!S_ISSOCK(there.st_mode))
    return fail(Errc::storage, "socket " + path + ": what stands there is no socket; give another --socket");
  const auto listening = connect_to_top(path);
  if (listening) {
    close(*listening);
    return fail(Errc::storage, "socket " + path + ": another process listens there; give another --socket");
  }
  if (listening.error().code() != Errc::not_found) return fail(listening.error());
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return fail(system_error(path, "the stale one cannot be removed"));
  return {};
}

struct Client {
  SocketDescriptor socket;
  std::string in, out;
  std::optional<Clock::duration> interval;  // subscribed
  Clock::time_point next{}, last_heard = Clock::now();
  bool has_asked = false;
  bool is_ending = false;               // to be closed once `out` is written
  std::optional<std::uint64_t> awaits;  // ticket of a command that is being executed
};

constexpr std::string_view kCommandBegins = "{\"send\":";

}  // namespace

Result<int> connect_to_top(const std::string& path) {
  WEFT_TRY(const sockaddr_un address, address_of(path));
  SocketDescriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.get() < 0) return fail(system_error(path, "cannot be made"));
  // Its queue may be full for a moment: of connections that close at once, or because the machine is busy.
  const auto until = Clock::now() + kBusy;
  int connected = connect(made.get(), generic(address), sizeof address);
  for (; connected != 0 && errno == EAGAIN && Clock::now() < until; poll(nullptr, 0, 20))
    connected = connect(made.get(), generic(address), sizeof address);
  if (connected == 0) return made.release();
  if (errno == ENOENT) return fail(Errc::not_found, "socket " + path + ": there is none");
  if (errno == ECONNREFUSED) return fail(Errc::not_found, "socket " + path + ": nobody listens there");
  if (errno == EAGAIN)
    return fail(Errc::storage, "socket " + path + ": takes no connections; its process is stopped or overloaded");
  return fail(system_error(path, "cannot be connected to"));
}

class TopServer::Thread {
 public:
  Thread(std::string path, std::function<std::string()> answer, TakeCommand take_command)
      : path_(std::move(path)), answer_(std::move(answer)), take_command_(std::move(take_command)) {}

  Status open() {
    WEFT_CHECK(clear_stale(path_));
    wake_ = SocketDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake_.get() < 0) return fail(system_error(path_, "cannot be made"));
    WEFT_CHECK(listen_there());
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the run loop's
    thread_ = std::thread([this] { serve(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return {};
  }

  ~Thread() {
    if (!thread_.joinable()) return;
    ends_.store(true, std::memory_order_release);
    wake();
    thread_.join();
    struct stat there {};
    if (lstat(path_.c_str(), &there) == 0 && there.st_ino == made_.st_ino && there.st_dev == made_.st_dev)
      unlink(path_.c_str());
  }

  const std::string& path() const noexcept { return path_; }

  void reply(std::uint64_t ticket, std::string line) {
    {
      const std::lock_guard hold(mutex_);
      replies_.emplace_back(ticket, std::move(line));
    }
    wake();
  }

 private:
  void wake() noexcept {
    const std::uint64_t one = 1;
    while (write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  /// Says what was replied since, to the clients that wait for it.
  void say_replies() {
    std::uint64_t count = 0;
    (void)!read(wake_.get(), &count, sizeof count);
    std::vector<std::pair<std::uint64_t, std::string>> replies;
    {
      const std::lock_guard hold(mutex_);
      replies.swap(replies_);
    }
    for (const auto& [ticket, line] : replies)
      for (Client& client : clients_) {
        if (client.awaits != ticket) continue;
        client.awaits.reset();
        client.last_heard = Clock::now();
        say(client, line);
        transmit(client);
        if (client.socket.get() >= 0) heed_all(client, client.last_heard);
      }
  }

  /// Makes the socket, where nothing has its name.
  Status listen_there() {
    WEFT_TRY(const sockaddr_un address, address_of(path_));
    SocketDescriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (made.get() < 0) return fail(system_error(path_, "cannot be made"));
    // Before it has a name: on Linux bind gives the name this mode, so it is never open to others.
    if (fchmod(made.get(), 0600) != 0) return fail(system_error(path_, "cannot be made private"));
    if (bind(made.get(), generic(address), sizeof address) != 0) return fail(system_error(path_, "cannot be made"));
    if (lstat(path_.c_str(), &made_) != 0 || chmod(path_.c_str(), 0600) != 0 || listen(made.get(), 128) != 0) {
      const Error error = system_error(path_, "cannot be listened on");
      unlink(path_.c_str());
      return fail(error);
    }
    listener_ = std::move(made);
    return {};
  }

  /// A socket that somebody has deleted is made anew; what has been put in its place stays.
  void look_after_name(Clock::time_point now) {
    if (now - looked_at_ < kLookAfter) return;
    looked_at_ = now;
    struct stat there {};
    if (lstat(path_.c_str(), &there) == 0 || errno != ENOENT) return;
    if (const Status made = listen_there(); !made) return;  // its directory may be gone; tried again
  }

  void serve() {
    for (bool ends = false; !ends;) {
      const Status served = or_out_of_memory([&]() -> Status {
        ends = !serve_once();
        return {};
      });
      if (!served) clients_.clear();  // with what they were to be told
    }
  }

  /// Waits for something to do and does it. False: the end.
  bool serve_once() {
    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Client& client : clients_) {
      short events = client.out.empty() ? 0 : POLLOUT;
      // A client that does not read is not read from, so its answers do not pile up in memory.
      if (client.out.empty() && !client.is_ending && !client.awaits) events |= POLLIN;
      polled.push_back({client.socket.get(), events, 0});
    }
    if (poll(polled.data(), polled.size(), wait_milliseconds()) < 0 && errno != EINTR) return false;
    if (polled[0].revents) {
      const bool ends = ends_.load(std::memory_order_acquire);
      say_replies();
      if (ends) return false;
    }
    const auto now = Clock::now();
    look_after_name(now);
    for (std::size_t i = 0; i < clients_.size(); ++i) attend(clients_[i], polled[2 + i].revents, now);
    std::erase_if(clients_, [](const Client& client) { return client.socket.get() < 0; });
    if (polled[1].revents) accept_all(now);
    return true;
  }

  /// A flood of requests is answered with one look at the agent.
  const std::string& fresh(Clock::time_point now) {
    if (last_.empty() || now - last_at_ > std::chrono::milliseconds(50)) last_ = answer_(), last_at_ = now;
    return last_;
  }

  int wait_milliseconds() const {
    const auto now = Clock::now();
    auto wait = std::chrono::milliseconds(kLookAfter);
    for (const Client& client : clients_) {
      const auto due = client.interval ? client.next : client.last_heard + kTimeout;
      wait = std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(std::max(due - now, Clock::duration(0))));
    }
    return static_cast<int>(wait.count());
  }

  void accept_all(Clock::time_point now) {
    for (;;) {
      if (clients_.size() >= kMostClients && has_lost_one()) return;  // the next round has a place for who waits
      Client client;
      client.socket = SocketDescriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client.socket.get() < 0) {
        // Out of descriptors: the connection stays in the queue, and poll would spin.
        if (errno == EMFILE || errno == ENFILE) poll(nullptr, 0, 100);
        return;
      }
      client.last_heard = now;
      if (clients_.size() >= kMostClients) drop_idle(now);
      if (clients_.size() < kMostClients) {
        clients_.push_back(std::move(client));
        continue;
      }
      constexpr std::string_view kBusy = "{\"error\":\"8 clients are served already; try again later\"}\n";
      (void)send(client.socket.get(), kBusy.data(), kBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }

  /// True where a client has closed its connection and is still here: what it sent before is read first.
  bool has_lost_one() const {
    std::vector<pollfd> polled;
    for (const Client& client : clients_) polled.push_back({client.socket.get(), 0, 0});
    if (poll(polled.data(), polled.size(), 0) <= 0) return false;
    return std::any_of(polled.begin(), polled.end(), [](const pollfd& one) { return one.revents != 0; });
  }

  /// A client that never asked anything keeps no other out: the one that has been idle longest gives way.
  void drop_idle(Clock::time_point now) {
    auto longest = clients_.end();
    for (auto client = clients_.begin(); client != clients_.end(); ++client) {
      const bool is_idle = !client->has_asked && now - client->last_heard >= kIdle;
      if (is_idle && (longest == clients_.end() || client->last_heard < longest->last_heard)) longest = client;
    }
    if (longest != clients_.end()) clients_.erase(longest);
  }

  void attend(Client& client, short events, Clock::time_point now) {
    if (events & POLLIN) receive(client, now);
    if (client.socket.get() >= 0 && client.interval && now >= client.next) {
      client.next = now + *client.interval;
      if (client.out.empty() && !client.is_ending) say(client, fresh(now));  // else this one is left out
    }
    if (client.socket.get() >= 0 && !client.out.empty()) transmit(client);
    const bool is_lost = (events & (POLLERR | POLLNVAL)) || ((events & POLLHUP) && !(events & POLLIN));
    const bool is_silent = !client.interval && !client.awaits && now - client.last_heard >= kTimeout;
    const bool is_stuck = !client.out.empty() && now - client.last_heard >= kTimeout;
    if (is_lost || is_silent || is_stuck || (client.is_ending && client.out.empty()))
      client.socket = SocketDescriptor();
  }

  void receive(Client& client, Clock::time_point now) {
    char chunk[kLongestRequest];
    const ssize_t got = recv(client.socket.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      client.socket = SocketDescriptor();
      return;
    }
    if (got < 0) return;
    client.last_heard = now;
    client.in.append(chunk, static_cast<std::size_t>(got));
    heed_all(client, now);
  }

  void heed_all(Client& client, Clock::time_point now) {
    std::size_t begin = 0;
    for (std::size_t end; (end = client.in.find('\n', begin)) != std::string::npos; begin = end + 1) {
      // One flood of requests gets no more answers than fit.
      if (client.out.size() > kMostUnread || client.is_ending || client.awaits) break;
      heed(client, std::string_view(client.in).substr(begin, end - begin), now);
    }
    client.in.erase(0, std::min(begin, client.in.size()));
    if (client.awaits) return;
    const std::size_t longest = client.in.starts_with(kCommandBegins) ? kLongestCommand : kLongestRequest;
    if (client.in.size() >= longest || client.out.size() > kMostUnread)
      refuse(client, "a request of more than " + std::to_string(longest) + " bytes, or too many at once");
  }

  void take_command(Client& client, const Json& command) {
    const std::uint64_t ticket = ++last_ticket_;
    if (auto refused = take_command_(ticket, command))
      say(client, *refused);
    else
      client.awaits = ticket;
  }

  void heed(Client& client, std::string_view line, Clock::time_point now) {
    const bool is_command = line.starts_with(kCommandBegins);
    const auto request = is_command ? parse_json(line, "request", {kLongestCommand, 4, std::size_t{1} << 19})
                                    : parse_json(line, "request", {kLongestRequest, 4, 16});
    if (!request) return refuse(client, request.error().text());
    if (!request->is_object() || request->size() != 1) return refuse(client, "a request is an object with one key");
    const std::string& key = request->members().begin()->first;
    const Json& value = request->members().begin()->second;
    client.has_asked = true;
    if (key == "get" && value == "statistics") return say(client, fresh(now));
    if (key == "send") return take_command(client, value);
    if (key == "subscribe" && value.is_number() && value.get<double>() >= 0.1 && value.get<double>() <= 3600) {
      client.interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value.get<double>()));
      client.next = now;
      return;
    }
    refuse(client, R"(known are {"get":"statistics"}, {"subscribe":seconds}, 0.1 to 3600, and {"send":command})");
  }

  static void say(Client& client, const std::string& line) { (client.out += line) += '\n'; }

  void refuse(Client& client, const std::string& text) {
    client.is_ending = true;
    client.interval.reset();
    client.in.clear();
    say(client, Json{{"error", text}}.dump());
  }

  static void transmit(Client& client) {
    const ssize_t sent = send(client.socket.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      client.out.erase(0, static_cast<std::size_t>(sent));
      client.last_heard = Clock::now();
    } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      client.socket = SocketDescriptor();
    }
  }

  const std::string path_;
  const std::function<std::string()> answer_;
  const TakeCommand take_command_;
  SocketDescriptor listener_, wake_;
  struct stat made_ {};
  std::vector<Client> clients_;
  std::string last_;
  Clock::time_point last_at_{}, looked_at_{};
  std::uint64_t last_ticket_ = 0;
  std::atomic<bool> ends_{false};
  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, std::string>> replies_;  // by other threads, under the mutex
  std::thread thread_;
};

TopServer::TopServer(std::unique_ptr<Thread> thread) : thread_(std::move(thread)) {}
TopServer::~TopServer() = default;
const std::string& TopServer::path() const noexcept { return thread_->path(); }

void TopServer::reply(std::uint64_t ticket, std::string line) { thread_->reply(ticket, std::move(line)); }

Result<std::unique_ptr<TopServer>> TopServer::open(const std::string& path, std::function<std::string()> answer,
                                                   TakeCommand take_command) {
  auto thread = std::make_unique<Thread>(path, std::move(answer), std::move(take_command));
  WEFT_CHECK(thread->open());
  return std::unique_ptr<TopServer>(new TopServer(std::move(thread)));
}

}  // namespace weft::cli
