// SPDX-License-Identifier: Apache-2.0

#include "server/internal/chat_call.hpp"

#include "server/internal/text_call.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weft::server::internal {
namespace {

constexpr std::size_t kMostMessages = 4096, kLongestContent = std::size_t{8} << 20;
constexpr std::array<std::string_view, 5> kRoles{"system", "developer", "user", "assistant", "tool"};

/// The texts of a message's parts, joined.
Result<std::string> read_content(const JsonValue& value) {
  if (value.is_string()) return value.string(kLongestContent);
  WEFT_TRY(const auto parts, value.array(0, 1024));
  std::string all;
  for (const JsonValue& each : parts) {
    WEFT_TRY(JsonReader part, each.object());
    WEFT_TRY(const std::string type, part.string("type", 64));
    if (type != "text" && type != "refusal")
      return fail(Errc::unsupported, part.path_of("type") + ": '" + type + "' is not read; texts are");
    WEFT_TRY(const std::string text, part.string(type, kLongestContent));
    all += text;
  }
  return all;
}

/// Calls that the model wrote before. Their arguments, a text of JSON, are what templates take: an object.
Result<Json> read_calls(const JsonValue& value) {
  WEFT_TRY(const auto list, value.array(0, 128));
  Json all = Json::array();
  for (const JsonValue& each : list) {
    WEFT_TRY(JsonReader call, each.object());
    WEFT_TRY(JsonReader function, call.object("function"));
    WEFT_TRY(const std::string name, function.string("name", 64));
    WEFT_TRY(const std::string text, function.string("arguments", kLongestContent));
    WEFT_TRY(Json arguments, parse_json(text.empty() ? "{}" : text, function.path_of("arguments")));
    WEFT_TRY(const std::string id, string_or(call, "id", "", 256));
    all.push_back(
        {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
  }
  return all;
}

Result<Json> read_message(const JsonValue& value) {
  WEFT_TRY(JsonReader message, value.object());
  WEFT_TRY(std::string role, message.string("role", 64));
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end())
    return fail(Errc::unknown_name,
                message.path_of("role") + ": '" + role + "' is none of system, developer, user, assistant, tool");
  // OpenAI's newer name of the same role.
  if (role == "developer") role = "system";
  std::string content;
  if (const auto found = given(message, "content")) {
    WEFT_TRY(content, read_content(*found));
  } else if (role != "assistant") {
    return fail(Errc::not_found, message.path_of("content") + ": is not there");
  }
  Json out{{"role", role}, {"content", content}};
  WEFT_TRY(const std::string name, string_or(message, "name", "", 256));
  if (!name.empty()) out["name"] = name;
  if (const auto calls = given(message, "tool_calls"); calls && role == "assistant") {
    WEFT_TRY(Json list, read_calls(*calls));
    if (!list.empty()) out["tool_calls"] = std::move(list);
  }
  WEFT_TRY(const std::string call, string_or(message, "tool_call_id", "", 256));
  if (!call.empty()) out["tool_call_id"] = call;
  return out;
}

}  // namespace

Result<text::ChatInput> read_chat(JsonReader& body) {
  WEFT_TRY(const JsonValue messages, body.value("messages"));
  WEFT_TRY(const auto list, messages.array(1, kMostMessages));
  text::ChatInput input;
  for (const JsonValue& each : list) {
    WEFT_TRY(Json message, read_message(each));
    input.messages.push_back(std::move(message));
  }
  if (const auto extra = given(body, "chat_template_kwargs")) {
    if (!extra->is_object()) return extra->unexpected("an object");
    input.extra = extra->raw();
  }
  WEFT_TRY(input.add_generation_prompt, boolean_or(body, "add_generation_prompt", true));
  return input;
}

}  // namespace weft::server::internal
