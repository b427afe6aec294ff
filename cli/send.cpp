// SPDX-License-Identifier: Apache-2.0
// Commands to a running agent, over the socket that weft top asks.

#include "cli/encoding_flags.hpp"
#include "cli/json_line.hpp"
#include "cli/number.hpp"
#include "cli/signals.hpp"
#include "cli/text_format.hpp"
#include "cli/top_place.hpp"
#include "cli/top_server.hpp"
#include "cli/verb.hpp"

#include "agent/agent_command.hpp"

#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <sys/socket.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::cli {
namespace {

using agent::AgentCommand;
using agent::AgentCommandKind;
using agent::command_rows;
using agent::CommandRow;
using agent::CommandScope;
using agent::row_of;
using agent::text_of;

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostAnswered = std::size_t{64} << 20;
constexpr std::chrono::milliseconds kPause{50};
constexpr std::chrono::seconds kSilence{1};

struct SendRequest {
  std::string place, command, cell, value;
  std::optional<std::uint64_t> session, parameter, at;
  EncodingFlags encoding;
  std::string values;
  double timeout = 60;
  bool json = false;
};

Failure misused(const SendRequest& request, const std::string& what) {
  return fail(Errc::invalid_argument, "weft send: " + request.command + ": " + what);
}

/// Numbers of a text file, with spaces, commas or line ends between them.
Result<std::vector<float>> read_values(const std::string& path) {
  WEFT_TRY(const ByteBuffer bytes, storage::real_file_system().read(path, TopServer::kLongestCommand));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<float> values;
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(" \t\r\n,;", at);
    if (at == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \t\r\n,;", at), text.size());
    float value = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + end, value);
    if (read.ec != std::errc() || read.ptr != text.data() + end || !std::isfinite(value))
      return fail(Errc::parse_failed, path + ": value " + std::to_string(values.size() + 1) + ", '" +
                                          std::string(text.substr(at, std::min<std::size_t>(end - at, 40))) +
                                          "': is no finite number");
    values.push_back(value);
    at = end;
  }
  if (values.empty()) return fail(Errc::parse_failed, path + ": holds no numbers");
  return values;
}

Result<AgentCommand> command_of(const SendRequest& request) {
  AgentCommand command;
  const auto& rows = command_rows();
  command.kind =
      std::find_if(rows.begin(), rows.end(), [&](const CommandRow& row) { return row.name == request.command; })->kind;
  const CommandRow& row = row_of(command.kind);
  auto place = agent::read_place(request.cell);
  if (!place) return misused(request, place.error().text());
  command.place = *place;
  command.at_tick = request.at;
  const bool takes_number = command.kind == AgentCommandKind::period || command.kind == AgentCommandKind::rate;
  if (takes_number == request.value.empty())
    return misused(request, takes_number ? "say the number of " + std::string(row.value) + " after the cell"
                                         : "'" + request.value + "' is one argument too many");
  std::string number = request.value;
  if (command.kind == AgentCommandKind::period) {
    if (const std::string why = check_whole(number, 1, UINT64_MAX); !why.empty()) return misused(request, why);
    std::from_chars(number.data(), number.data() + number.size(), command.ticks);
  }
  if (command.kind == AgentCommandKind::rate) {
    if (const std::string why = check_real(number, 0, 1000); !why.empty()) return misused(request, why);
    std::from_chars(number.data(), number.data() + number.size(), command.rate);
  }
  const auto only_for = [&](bool is_given, const char* flag, AgentCommandKind kind) -> Status {
    if (!is_given || command.kind == kind) return {};
    return misused(request, std::string(flag) + " is for the command " + std::string(row_of(kind).name));
  };
  WEFT_CHECK(only_for(request.session.has_value(), "--session", AgentCommandKind::probe));
  WEFT_CHECK(only_for(request.parameter.has_value(), "--parameter", AgentCommandKind::weights));
  WEFT_CHECK(only_for(!request.values.empty(), "--values", AgentCommandKind::weights));
  WEFT_CHECK(only_for(request.encoding.dtype || request.encoding.granularity, "--dtype", AgentCommandKind::morph));
  command.session = request.session.value_or(0);
  command.parameter = static_cast<std::uint32_t>(request.parameter.value_or(0));
  if (command.kind == AgentCommandKind::weights) {
    if (request.values.empty()) return misused(request, "name the file of the new values with --values FILE");
    WEFT_TRY(command.values, read_values(request.values));
  }
  if (command.kind == AgentCommandKind::morph) {
    WEFT_TRY(const auto encoding, read_encoding(request.encoding));
    if (!encoding) return misused(request, "say the numeric type with --dtype T");
    command.encoding = *encoding;
  }
  return command;
}

/// A connection to a running agent, for one command.
class Conversation {
 public:
  explicit Conversation(const SendRequest& request) : request_(request) {}
  ~Conversation() {
    if (socket_ >= 0) close(socket_);
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  Result<std::string> operator()(const std::string& line) {
    auto reached = reach();
    if (!reached && reached.error().code() == Errc::not_found)
      return fail(Errc::not_found, reached.error().text() + "; is weft run or weft live at work there with --state?");
    if (!reached) return fail(std::move(reached).error());
    until_ =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request_.timeout));
    WEFT_CHECK(say(line));
    return hear();
  }

 private:
  Status reach() {
    WEFT_TRY(path_, socket_of(request_.place));
    WEFT_TRY(socket_, connect_to_top(path_));
    return {};
  }

  Status say(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
      // A server that closed it may have said why.
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return {};
      if (sent <= 0) WEFT_CHECK(await(POLLOUT));
    }
    return {};
  }

  Result<std::string> hear() {
    std::string in;
    char chunk[16384];
    for (;;) {
      const ssize_t got = recv(socket_, chunk, sizeof chunk, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        return fail(Errc::storage, "socket " + path_ +
                                       ": closed before it answered; whether the command was executed is not known: "
                                       "weft replay shows it, if it was");
      if (got < 0) {
        WEFT_CHECK(await(POLLIN));
        continue;
      }
      in.append(chunk, static_cast<std::size_t>(got));
      if (const auto end = in.find('\n'); end != std::string::npos) return in.substr(0, end);
      if (in.size() > kMostAnswered)
        return fail(Errc::too_large, "socket " + path_ + ": an answer of more than 64 MiB; is it an agent's?");
    }
  }

  Status await(short events) {
    const Clock::time_point begin = Clock::now();
    for (;;) {
      pollfd one{socket_, events, 0};
      if (poll(&one, 1, static_cast<int>(kPause.count())) > 0) return {};
      if (noted_signal()) return fail(Errc::interrupted, "stopped; the command may be executed all the same");
      const Clock::time_point now = Clock::now();
      const std::string why = now - begin < kSilence ? std::string() : why_silent(socket_);
      if (!why.empty()) return fail(Errc::storage, "socket " + path_ + ": " + why);
      if (now >= until_)
        return fail(Errc::storage, "socket " + path_ + ": no answer for " + shown(request_.timeout) +
                                       " s; the command may be executed all the same");
    }
  }

  const SendRequest& request_;
  std::string path_;
  int socket_ = -1;
  Clock::time_point until_{};
};

/// The code of that name; storage of one that is not known.
Errc code_named(const std::string& wanted) {
#define WEFT_ERROR(each, exit_code, meaning) \
  if (wanted == #each) return Errc::each;
#include "core/errors.def"
#undef WEFT_ERROR
  return Errc::storage;
}

void print_text(const AgentCommand& command, const Json& answer) {
  if (const Json* const values = answer.find("values"); values && values->is_array()) {
    for (const Json& value : *values) std::printf("%.9g\n", value.is_number() ? value.get<double>() : 0.0);
    return;
  }
  const auto number = [&](const char* key) {
    const Json* const found = answer.find(key);
    return grouped(found && found->is_number() ? found->get<std::uint64_t>() : 0);
  };
  const CommandRow& row = row_of(command.kind);
  const std::string what = std::string(row.name) + " " + text_of(command.place);
  if (answer.contains("waits_for"))
    std::printf("%s: waits for tick %s, at tick %s", what.c_str(), number("waits_for").c_str(), number("tick").c_str());
  else
    std::printf("%s: done at tick %s", what.c_str(), number("tick").c_str());
  const char* const unit = row.scope == CommandScope::cell ? "cells" : "layers";
  if (!command.place) std::printf(", %s %s", number(unit).c_str(), unit);
  const Json* const kept = answer.find("kept");
  std::printf("%s\n", kept && kept->is_bool() && kept->get<bool>() ? "" : "; not on the device yet");
}

Status send_command(const SendRequest& request) {
  watch_signals();
  WEFT_TRY(const AgentCommand command, command_of(request));
  const std::string line = Json{{"send", agent::to_json(command)}}.dump() + "\n";
  if (line.size() > TopServer::kLongestCommand)
    return fail(Errc::too_large, request.values + ": " + std::to_string(command.values.size()) +
                                     " values are more than one command takes; weft morph and weft run take files");
  WEFT_TRY(const std::string said, Conversation(request)(line));
  const std::string where = request.place;
  auto answer = parse_json(said, where);
  if (!answer) return fail(std::move(answer).error());
  if (const Json* const refused = answer->find("refused"); refused && refused->is_string()) {
    const Json* const code = answer->find("code");
    return fail(code_named(code && code->is_string() ? code->text() : ""), where + ": " + refused->text());
  }
  if (const Json* const error = answer->find("error"))
    return fail(Errc::storage, where + ": " + (error->is_string() ? error->text() : error->dump()));
  if (!answer->contains("command")) return fail(Errc::parse_failed, where + ": the answer is none to a command");
  if (request.json)
    print_json(*answer);
  else
    print_text(command, *answer);
  return {};
}

}  // namespace

Verb add_send(CLI::App& program) {
  CLI::App* app = add_verb(program, "send", "Give a command to a running weft run or weft live --state");
  auto request = std::make_shared<SendRequest>();
  SendRequest& r = *request;
  std::vector<std::string> commands;
  for (const CommandRow& row : command_rows()) commands.emplace_back(row.name);
  add_argument(*app, "DIR|SOCKET", r.place, "The agent's data directory, or its --socket").required();
  add_argument(*app, "COMMAND", r.command, "What is to be done").required().member_of(commands);
  add_argument(*app, "CELL", r.cell, "z,y,x of a cell or z,y,x,layer, as weft inspect prints them, or *: all")
      .required();
  add_argument(*app, "VALUE", r.value, "Of period the ticks, of rate the learning rate");
  add_option(*app, "session", r.session, "Of probe: the session, 0 by default").within(std::uint64_t{0}, UINT64_MAX);
  add_option(*app, "parameter", r.parameter, "Of weights: which ones of the layer, 0 by default")
      .within(std::uint64_t{0}, std::uint64_t{UINT32_MAX});
  names_a_file(add_option(*app, "values", r.values, "Of weights: a text file of the new values, row by row"))
      .type_name("FILE");
  add_encoding_flags(*app, r.encoding);
  add_option(*app, "at", r.at, "Not before this tick; else at once").within(std::uint64_t{0}, UINT64_MAX);
  add_option(*app, "timeout", r.timeout, "Seconds to wait for the answer").within(0.1, 86400.0);
  add_flag(*app, "json", r.json, "The answer as one JSON object");
  return {app, [request] { return send_command(*request); }};
}

}  // namespace weft::cli
