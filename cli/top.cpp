// SPDX-License-Identifier: Apache-2.0
// A live view of a running agent: what its socket says, drawn anew each time.

#include "cli/signals.hpp"
#include "cli/terminal.hpp"
#include "cli/top_place.hpp"
#include "cli/top_server.hpp"
#include "cli/top_view.hpp"
#include "cli/verb.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestAnswer = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kRetry{200}, kLook{50};
constexpr std::chrono::seconds kAnswerWithin{5}, kAskWhy{1};

struct TopRequest {
  std::string place;
  double interval = 1;
  bool once = false, json = false, csv = false, wait = false;
  bool is_drawn() const noexcept { return !json && !csv && !once; }
};

/// A line of CSV for each layer, of the tick that the statistics are of.
std::string layer_lines(const Json& statistics) {
  const Json* const layers = statistics.is_object() ? statistics.find("layers") : nullptr;
  if (!layers || !layers->is_array()) return {};
  const Json* const ticks = statistics.find("ticks");
  const auto field = [](const Json& object, std::string_view key) {
    const Json* const found = object.is_object() ? object.find(key) : nullptr;
    return found && found->is_number() ? found->dump() : std::string();
  };
  std::string lines;
  for (const Json& layer : *layers) {
    lines += ticks && ticks->is_number() ? ticks->dump() : std::string();
    const Json* const at = layer.is_object() ? layer.find("layer") : nullptr;
    for (std::size_t i = 0; i < 4; ++i)
      lines += "," + (at && at->is_array() && i < at->size() && (*at)[i].is_number() ? (*at)[i].dump() : std::string());
    for (const char* key : {"error", "budget", "update", "relative_update", "error_age", "weight", "dormant"})
      lines += "," + field(layer, key);
    lines += "\n";
  }
  return lines;
}

/// Screen and keyboard in raw mode, on the alternate page, as long as the object exists.
class Screen {
 public:
  explicit Screen(bool draws) : out_(Terminal::of(STDOUT_FILENO)), draws_(draws && out_.redraws) {
    if (!draws_) return;
    std::fputs("\x1b[?1049h\x1b[?25l", stdout);
    if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    keys.c_cc[VMIN] = 0, keys.c_cc[VTIME] = 0;
    has_keys_ = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
  }
  ~Screen() {
    if (has_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    if (draws_) std::fputs("\x1b[?25h\x1b[?1049l", stdout);
    std::fflush(stdout);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool draws() const noexcept { return draws_; }
  bool has_keys() const noexcept { return has_keys_; }

  void show(const Json& statistics) {
    std::size_t columns = 100, rows = 1000;
    if (const std::size_t width = out_.columns()) columns = std::max<std::size_t>(width, 2) - 1;
    if (draws_) {
      winsize size{};
      if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1) rows = size.ws_row - 1u;
      drawn_columns_ = columns, drawn_rows_ = rows;
    }
    std::string page = draws_ ? "\x1b[H" : "";
    for (const std::string& line : top_view(statistics, columns, rows, out_.unicode))
      page.append(line).append(draws_ ? "\x1b[K\n" : "\n");
    page += draws_ ? "\x1b[J" : "\n";
    std::fwrite(page.data(), 1, page.size(), stdout);
    std::fflush(stdout);
    last_ = statistics;
  }
  /// After the window changed its size.
  void show_again_when_resized() {
    if (!draws_ || last_.is_null()) return;
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return;
    const std::size_t columns = std::max<std::size_t>(size.ws_col, 2) - 1;
    if (columns != drawn_columns_ || (size.ws_row > 1 && size.ws_row - 1u != drawn_rows_)) show(last_);
  }
  /// One line that does not belong to the agent.
  void say(const std::string& words) {
    const std::size_t columns = out_.columns();
    const std::string text = escaped(words);
    const std::string line = columns ? fit(text, columns - 1, out_.unicode) : text;
    std::fputs(((draws_ ? "\x1b[H\x1b[J" : "") + line + "\n").c_str(), draws_ ? stdout : stderr);
    std::fflush(stdout);
    last_ = nullptr;
  }

 private:
  Terminal out_;
  bool draws_, has_keys_ = false;
  termios before_{};
  std::size_t drawn_columns_ = 0, drawn_rows_ = 0;
  Json last_;
};

class Top {
 public:
  explicit Top(const TopRequest& request) : request_(request), path_(request.place), screen_(request.is_drawn()) {}
  ~Top() { hang_up(); }
  Top(const Top&) = delete;
  Top& operator=(const Top&) = delete;

  Status operator()() {
    for (;;) {
      WEFT_TRY(const bool is_there, reach());
      if (!is_there) return {};
      WEFT_TRY(const bool goes_on, watch());
      if (!goes_on) return {};
    }
  }
  /// Message to print after the screen is restored.
  const std::string& farewell() const noexcept { return farewell_; }

 private:
  /// Follows the directory's note anew each time: an agent that starts again may have another socket.
  Result<int> connect() {
    WEFT_TRY(path_, socket_of(request_.place));
    return connect_to_top(path_);
  }

  /// Connects; false: the user has had enough of waiting.
  Result<bool> reach() {
    for (bool is_first = true;; is_first = false) {
      const auto made = connect();
      if (made) {
        socket_ = *made;
        break;
      }
      if (!request_.wait || made.error().code() != Errc::not_found)
        return fail(made.error().code(),
                    made.error().text() + (made.error().code() == Errc::not_found
                                               ? "; is weft run or weft live at work with --state, --checkpoint "
                                                 "or --socket? --wait waits for it"
                                               : ""));
      if (is_first && !request_.json && !request_.csv) screen_.say("waiting for " + path_);
      if (ends_within(kRetry)) return false;
    }
    char wish[64];
    std::snprintf(wish, sizeof wish, "{\"subscribe\":%.3f}\n", request_.interval);
    // Cells are sampled from the first answer on, so that one look takes two.
    const std::string_view asked = request_.once ? "{\"subscribe\":0.3}\n" : wish;
    // A fresh socket has room for a line. A server that has no room for us has said so and closed: that is read below.
    (void)send(socket_, asked.data(), asked.size(), MSG_NOSIGNAL);
    in_.clear();
    heard_ = Clock::now();
    is_told_ = false;
    return true;
  }

  /// Shows what comes; true: the agent has gone and is to be waited for.
  Result<bool> watch() {
    while (socket_ >= 0) {
      if (ends_within(kLook)) return false;
      screen_.show_again_when_resized();
      WEFT_CHECK(check_silence());
      WEFT_CHECK(receive());
      for (std::size_t end; (end = in_.find('\n')) != std::string::npos; in_.erase(0, end + 1)) {
        // Of one look the second answer is shown, but a refusal at once.
        const bool is_first = request_.once && !std::exchange(is_sampled_, true);
        WEFT_TRY(const bool is_shown, show(in_.substr(0, end), is_first));
        if (request_.once && is_shown) return false;
      }
    }
    if (request_.once) return fail(Errc::storage, "socket " + path_ + ": closed before it answered");
    if (request_.wait) return true;
    farewell_ = "the agent has gone (" + path_ + ")";
    return false;
  }

  /// An agent that says nothing: why, as soon as that can be known.
  Status check_silence() {
    const std::chrono::duration<double> silent = Clock::now() - heard_, due(request_.once ? 0 : request_.interval);
    if (silent < due + kAskWhy) return {};
    const std::string why = why_silent(socket_);
    if (why.empty() && silent < due + kAnswerWithin) return {};
    const std::string text =
        "socket " + path_ + ": " +
        (why.empty() ? "no answer for " + std::to_string(static_cast<int>(silent.count())) + " s" : why);
    if (!request_.wait) return fail(Errc::storage, text);
    if (!request_.json && !request_.csv && !std::exchange(is_told_, true)) screen_.say(text);
    return {};
  }

  Status receive() {
    char chunk[16384];
    for (;;) {
      const ssize_t got = recv(socket_, chunk, sizeof chunk, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
      if (got <= 0) {
        hang_up();
        return {};
      }
      heard_ = Clock::now();
      is_told_ = false;
      in_.append(chunk, static_cast<std::size_t>(got));
      if (in_.size() > kLongestAnswer)
        return fail(Errc::too_large, "socket " + path_ + ": an answer of more than 1 MiB; is it an agent's?");
    }
  }

  /// Fails for an error that the server tells; else shows the statistics, unless they are only to be looked through.
  /// False: nothing was printed.
  Result<bool> show(const std::string& line, bool only_errors) {
    WEFT_TRY(const auto statistics, parse_json(line, "socket " + path_));
    if (statistics.is_object() && statistics.contains("error"))
      return fail(Errc::storage, "socket " + path_ + ": " +
                                     (statistics["error"].is_string() ? statistics["error"].get<std::string>()
                                                                      : statistics["error"].dump()));
    if (only_errors) return false;
    if (request_.csv) {
      const std::string lines = layer_lines(statistics);
      // Layers are measured from the first look on; where a device runs the steps they never are.
      if (lines.empty() && request_.once && Clock::now() - begun_ >= kAnswerWithin)
        return fail(Errc::unsupported,
                    "socket " + path_ + ": no layer was measured; none has learned, or a device runs the steps");
      if (lines.empty()) return false;
      const char* const heading = "tick,z,y,x,layer,error,budget,update,relative_update,error_age,weight,dormant\n";
      std::fputs(((std::exchange(has_heading_, true) ? "" : heading) + lines).c_str(), stdout);
      std::fflush(stdout);
    } else if (request_.json) {
      std::string out = escaped_json(line);
      std::replace_if(
          out.begin(), out.end(), [](char c) { return c == '\t' || c == '\r'; }, ' ');  // between values
      std::fputs((out + "\n").c_str(), stdout);
      std::fflush(stdout);
    } else {
      screen_.show(statistics);
    }
    return true;
  }

  /// Waits for the socket, a key or a signal; true: the user wants to end.
  bool ends_within(std::chrono::milliseconds time) {
    pollfd polled[2] = {{socket_, POLLIN, 0}, {screen_.has_keys() ? STDIN_FILENO : -1, POLLIN, 0}};
    poll(polled, 2, static_cast<int>(time.count()));
    if (noted_signal() || std::ferror(stdout)) return true;
    if (!polled[1].revents) return false;
    char key = 0;
    while (read(STDIN_FILENO, &key, 1) == 1)
      if (key == 'q' || key == 'Q') return true;
    return (polled[1].revents & (POLLHUP | POLLERR)) != 0;
  }

  void hang_up() noexcept {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

  const TopRequest& request_;
  std::string path_, in_, farewell_;
  Screen screen_;
  int socket_ = -1;
  bool is_sampled_ = false, is_told_ = false, has_heading_ = false;
  Clock::time_point heard_{}, begun_ = Clock::now();
};

Status top(const TopRequest& request) {
  if (request.csv && request.json) return fail(Errc::invalid_argument, "--csv and --json: give one");
  watch_signals();
  std::string farewell;
  Status done;
  {
    Top view(request);
    done = view();
    farewell = view.farewell();
  }
  // Ctrl-C is how a view ends, no failure; an agent's end is none either.
  if (done && !farewell.empty()) std::fprintf(stderr, "weft: %s\n", escaped(farewell).c_str());
  return done;
}

}  // namespace

Verb add_top(CLI::App& program) {
  CLI::App* app = add_verb(program, "top", "A live view of a running weft run or weft live");
  auto request = std::make_shared<TopRequest>();
  TopRequest& r = *request;
  add_argument(*app, "DIR|SOCKET", r.place, "Where it keeps its state or its checkpoints, or its --socket").required();
  add_option(*app, "interval", r.interval, "Seconds between two looks").within(0.1, 3600.0);
  add_flag(*app, "once", r.once, "Print once and end");
  add_flag(*app, "json", r.json, "The objects as they come, one a line");
  add_flag(*app, "csv", r.csv, "A line a layer: its error, budget, update and age of error");
  add_flag(*app, "wait", r.wait, "Wait for an agent that is not there yet, or not any more");
  return {app, [request] { return top(*request); }};
}

}  // namespace weft::cli
