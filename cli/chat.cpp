// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/signals.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "cli/writing_flags.hpp"

#include "models/text_writer.hpp"

#include "storage/file_system.hpp"
#include "text/chat_template.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace weft::cli {
namespace {

struct ChatRequest {
  WritingFlags flags;
  std::string system, chat_template;
};

/// Lines of standard input.
class Lines {
 public:
  enum class Outcome { line, interrupted, end };
  /// A line without its end. @error storage: input that cannot be read; too_large: a line of more than 16 MiB
  Result<Outcome> read(std::string& line) {
    for (;;) {
      if (const std::size_t end = text_.find('\n', looked_at_); end != text_.npos) {
        line = text_.substr(0, end);
        if (line.ends_with('\r')) line.pop_back();
        text_.erase(0, end + 1);
        looked_at_ = 0;
        return Outcome::line;
      }
      looked_at_ = text_.size();
      if (text_.size() > kLongest) return fail(Errc::too_large, "chat: a line of more than 16 MiB");
      if (is_interrupted()) return forget_interrupt(), Outcome::interrupted;
      // poll, unlike read, comes back when a signal was noted.
      pollfd input{STDIN_FILENO, POLLIN, 0};
      if (poll(&input, 1, -1) < 0 && errno == EINTR) continue;
      char bytes[1 << 14];
      const ssize_t size = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return fail(Errc::storage, "chat: standard input: " + std::generic_category().message(errno));
      if (size > 0) {
        text_.append(bytes, static_cast<std::size_t>(size));
        continue;
      }
      if (text_.empty()) return Outcome::end;
      text_ += '\n';  // the last line
    }
  }

 private:
  static constexpr std::size_t kLongest = std::size_t{16} << 20;
  std::string text_;
  std::size_t looked_at_ = 0;
};

/// Place of the template, for errors.
std::string template_name(const ChatRequest& request) {
  return request.chat_template.empty() ? request.flags.model : request.chat_template;
}

/// A conversation with a model: its messages, and what the model has taken of them.
class Chat {
 public:
  Chat(const ChatRequest& request, const models::LanguageModel& model, models::TextWriter writer,
       models::ChatFormat format)
      : request_(request), model_(model), writer_(std::move(writer)), format_(std::move(format)) {
    reset();
  }

  void reset() {
    messages_ = Json::array();
    if (!request_.system.empty()) messages_.push_back({{"role", "system"}, {"content", request_.system}});
  }

  /// The model's answer to one more message; a message that fails is none.
  Status answer(const std::string& line) {
    Json messages = messages_;
    messages.push_back({{"role", "user"}, {"content", line}});
    text::ChatInput input;
    input.messages = messages;
    auto encoded = models::encode_chat(format_, *model_.tokenizer, std::move(input));
    if (!encoded) return fail(std::move(encoded).error().within(template_name(request_)));
    std::vector<text::TokenId> ids = *std::move(encoded);
    models::GenerateOptions options = request_.flags.options;
    options.is_stopped = is_interrupted;
    forget_interrupt();
    const bool json = request_.flags.json;
    auto written = writer_.write(std::move(ids), options, [&](std::string_view text) -> Status {
      if (!json) print_written(text);
      return {};
    });
    if (!written)
      return fail(context_error(std::move(written).error(), "/reset begins anew, a larger --context holds more"));
    const models::Generated made = *std::move(written);
    // A message that was stopped before its answer began was not said.
    if (!made.ids.empty() || made.end != "interrupted") {
      messages.push_back({{"role", "assistant"}, {"content", made.text}});
      messages_ = std::move(messages);
    }
    times.add(made);
    ++answers;
    if (json) {
      WritingTimes own;
      own.add(made);
      Json object{{"text", made.text}, {"ids", made.ids}, {"end", std::string(made.end)}, {"kept", made.times.cached}};
      own.add_to(object);
      print_json(object);
    } else {
      std::putchar('\n');
      std::fflush(stdout);
    }
    return {};
  }

  WritingTimes times;
  std::size_t answers = 0;

 private:
  const ChatRequest& request_;
  const models::LanguageModel& model_;
  models::TextWriter writer_;
  models::ChatFormat format_;
  Json messages_;
};

/// The model's own template, or the one that was named: built in, or a file.
Result<models::ChatFormat> format_of(const ChatRequest& request, const models::LanguageModel& model) {
  models::ChatFormat format = model.chat;
  const std::string& name = request.chat_template;
  if (name.empty()) return format;
  const auto names = text::ChatTemplate::built_in_names();
  format.tools.reset();
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    WEFT_TRY(format.chat, text::ChatTemplate::built_in(name));
    return format;
  }
  auto bytes = storage::real_file_system().read(name, std::size_t{1} << 20);
  if (!bytes) {
    std::string all;
    for (const std::string_view each : names) all += (all.empty() ? "" : ", ") + std::string(each);
    return fail(bytes.error().code(), "--template: " + bytes.error().text() + "; those that are built in: " + all);
  }
  auto parsed = text::ChatTemplate::parse(std::string(as_text(*bytes)));
  if (!parsed) return fail(std::move(parsed).error().within(name));
  format.chat = *std::move(parsed);
  return format;
}

/// True for a message that cannot be answered, after which others can: bad usage or input.
bool is_of_message(const Error& error) { return exit_code(error.code()) == 2 || exit_code(error.code()) == 3; }

/// Messages line by line, to the end of the input. A message that fails is told, and the next one read. Where the input
/// is no terminal its end is a failure of the first one's kind then.
Status talk(Chat& chat, bool is_interactive) {
  Lines lines;
  std::string line;
  std::optional<Error> first;
  std::size_t messages = 0, failed = 0;
  for (;;) {
    if (is_interactive) {
      std::fputs("> ", stdout);
      std::fflush(stdout);
    }
    WEFT_TRY(const Lines::Outcome outcome, lines.read(line));
    if (outcome == Lines::Outcome::interrupted) {
      if (!is_interactive) return fail(Errc::interrupted, "chat: stopped by a signal");
      std::fputs("\n(Ctrl-D ends, /reset begins anew)\n", stdout);
      continue;
    }
    if (outcome == Lines::Outcome::end || line == "/exit") break;
    if (line.empty()) continue;
    if (line == "/reset") {
      chat.reset();
      continue;
    }
    ++messages;
    const Status answered = chat.answer(line);
    if (answered) continue;
    if (!is_interactive && !is_of_message(answered.error())) return answered;
    ++failed;
    if (!first) first = answered.error();
    std::fprintf(stderr, "weft: %s%s\n", is_interactive ? "" : ("message " + std::to_string(messages) + ": ").c_str(),
                 escaped(answered.error().text()).c_str());
  }
  if (is_interactive) std::putchar('\n');
  std::fflush(stdout);
  if (!first || is_interactive) return {};
  return fail(first->code(), "chat: " + std::to_string(failed) + " of " + std::to_string(messages) +
                                 " messages have no answer, the first of them: " + first->text());
}

Status chat_with(ChatRequest& request) {
  WritingFlags& flags = request.flags;
  WEFT_CHECK(read_writing_flags(flags));
  WEFT_TRY(const models::LanguageModel model, load_model(flags));
  WEFT_CHECK(take_draw(flags, model));
  WEFT_TRY(models::ChatFormat format, format_of(request, model));
  // A model without a template is told before its memory is taken.
  text::ChatInput first;
  if (!format.chat) return fail(models::encode_chat(format, *model.tokenizer, first).error().within("--template"));
  WEFT_TRY(const auto draft, load_draft(flags));
  auto begun = models::TextWriter::begin(model, flags.options);
  if (!begun) return fail(context_error(std::move(begun).error(), "give a smaller --context"));
  models::TextWriter writer = *std::move(begun);
  watch_interrupts();
  Chat chat(request, model, std::move(writer), std::move(format));
  const bool is_interactive =
      !flags.json && Terminal::of(STDIN_FILENO).is_terminal && Terminal::of(STDOUT_FILENO).is_terminal;
  WEFT_CHECK(talk(chat, is_interactive));
  if (!flags.json && chat.answers > 0)
    std::fprintf(stderr, "weft: %zu %s, %s\n", chat.answers, chat.answers == 1 ? "answer" : "answers",
                 chat.times.shown().c_str());
  return {};
}

}  // namespace

Verb add_chat(CLI::App& program) {
  CLI::App* app = add_verb(program, "chat", "Talk with a language model: each line of the input is a message");
  auto request = std::make_shared<ChatRequest>();
  add_writing_flags(*app, request->flags);
  add_option(*app, "system", request->system, "A message before all others that says how the model should answer");
  add_option(*app, "template", request->chat_template,
             "A chat template: a built-in one's name or a file; the model's own")
      .type_name("NAME|FILE");
  add_option(*app, "context", request->flags.options.context,
             "Tokens that are remembered; the model's, at most " + std::to_string(models::TextEngine::kUsualContext))
      .within(std::uint64_t{1}, models::GenerateOptions::kMostTokens);
  add_flag(*app, "json", request->flags.json, "One JSON object for each answer on stdout");
  return {app, [request] { return chat_with(*request); }};
}

}  // namespace weft::cli
