// SPDX-License-Identifier: Apache-2.0

#include "server/internal/tool_calls.hpp"

#include "server/internal/sampling.hpp"

#include <algorithm>
#include <utility>

namespace weft::server::internal {
namespace {

constexpr std::size_t kMostTools = 128;
constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";

/// One of the tools as a schema of {"name", "arguments"}; its own $defs are moved to `definitions`.
Result<Json> call_schema(const Json& function, const std::string& path, Json& definitions) {
  Json arguments = function.contains("parameters") ? function["parameters"] : Json::object();
  if (!arguments.is_object()) return fail(Errc::parse_failed, path + ".parameters: expected a schema");
  for (const char* const group : {"$defs", "definitions"}) {
    if (!arguments.contains(group)) continue;
    for (const auto& [name, schema] : arguments[group].members()) {
      Json& all = definitions[group];
      if (all.contains(name) && !(all[name] == schema))
        return fail(Errc::invalid_argument,
                    path + ".parameters." + group + "." + name + ": another tool has this name");
      all[name] = schema;
    }
    Json rest = Json::object();
    for (const Json::Object::value_type* const member : arguments.members_as_set())
      if (member->first != group) rest[member->first] = member->second;
    arguments = std::move(rest);
  }
  if (arguments.empty()) arguments = {{"type", "object"}};
  return Json{{"type", "object"},
              {"properties", Json{{"name", {{"const", function["name"]}}}, {"arguments", std::move(arguments)}}},
              {"required", Json::array({"name", "arguments"})},
              {"additionalProperties", false}};
}

/// The rules of a call, alone or within the marks of a template.
Result<text::Grammar> call_grammar(const std::vector<Json>& functions, bool is_marked) {
  Json schema = Json::object(), calls = Json::array();
  for (std::size_t i = 0; i < functions.size(); ++i) {
    WEFT_TRY(Json one, call_schema(functions[i], "tools[" + std::to_string(i) + "].function", schema));
    calls.push_back(std::move(one));
  }
  // Beside $defs a schema of one of several has no other keyword.
  schema["anyOf"] = std::move(calls);
  const auto refuse = [](const Error& error) {
    return fail(error.code() == Errc::unsupported ? Errc::invalid_argument : error.code(), "tools: " + error.text());
  };
  const auto source = text::grammar_of_schema(schema);
  if (!source) return refuse(source.error());
  const std::string begin = "root ::= ";
  const std::string marked = is_marked ? begin + "\"" + std::string(kOpen) + "\\n\" call \"\\n" + std::string(kClose) +
                                             "\"\ncall ::= " + source->substr(begin.size())
                                       : *source;
  auto made = text::Grammar::parse(marked, "tools");
  if (!made) return refuse(made.error());
  return made;
}

Result<std::vector<Json>> read_functions(const JsonValue& tools) {
  WEFT_TRY(const auto list, tools.array(0, kMostTools));
  std::vector<Json> functions;
  for (const JsonValue& each : list) {
    WEFT_TRY(JsonReader tool, each.object());
    WEFT_TRY(const std::string type, tool.string("type", 64));
    if (type != "function")
      return fail(Errc::invalid_argument, tool.path_of("type") + ": '" + type + "' is not known; function is");
    WEFT_TRY(const JsonValue function, tool.value("function"));
    WEFT_TRY(JsonReader reader, function.object());
    WEFT_CHECK(reader.string("name", 64));
    functions.push_back(function.raw());
  }
  return functions;
}

/// The function that {"type": "function", "function": {"name"}} names.
Result<std::vector<Json>> chosen(const JsonValue& choice, std::vector<Json> functions) {
  WEFT_TRY(JsonReader reader, choice.object());
  WEFT_TRY(JsonReader function, reader.object("function"));
  WEFT_TRY(const std::string name, function.string("name", 64));
  for (Json& each : functions)
    if (each["name"].text() == name) return std::vector<Json>{std::move(each)};
  return fail(Errc::not_found, "tool_choice: no tool is named '" + name + "'");
}

std::optional<ToolCall> call_of(std::string_view text) {
  const auto json = parse_json(text, "call");
  if (!json || !json->is_object()) return std::nullopt;
  const Json *const name = json->find("name"), *const arguments = json->find("arguments");
  if (!name || !name->is_string()) return std::nullopt;
  return ToolCall{name->text(), arguments ? arguments->dump(Json::Order::as_set) : "{}"};
}

}  // namespace

Result<ChatTools> read_tools(JsonReader& body, const text::ChatTemplate* chat) {
  ChatTools out;
  const auto tools = given(body, "tools"), choice = given(body, "tool_choice");
  const std::string word = choice && choice->is_string() ? choice->raw().text() : choice ? "" : "auto";
  if (!tools || (tools->is_array() && tools->raw().empty())) {
    if (choice && word != "none" && word != "auto")
      return fail(Errc::invalid_argument, "tool_choice: there are no tools to choose from");
    return out;
  }
  WEFT_TRY(std::vector<Json> functions, read_functions(*tools));
  if (word == "none") return out;
  if (!word.empty() && word != "auto" && word != "required")
    return fail(Errc::invalid_argument, "tool_choice: '" + word + "' is none of none, auto, required");
  const bool is_marked = chat && chat->source().find(kOpen) != std::string::npos;
  if (word == "auto" && !is_marked)
    return fail(Errc::unsupported,
                "tools: this model's chat template does not spell calls as <tool_call>, so the model cannot choose; "
                "tool_choice may be none, required or a function");
  out.offered = tools->raw();
  out.must_call = word != "auto";
  if (word.empty()) {
    WEFT_TRY(functions, chosen(*choice, std::move(functions)));
  }
  if (out.must_call) {
    WEFT_TRY(out.grammar, call_grammar(functions, is_marked));
  }
  return out;
}

std::string ToolCallReader::push(std::string_view text) {
  kept_ += text;
  if (must_call_) return {};
  const std::size_t open = kept_.find(kOpen);
  if (open != kept_.npos) return std::exchange(kept_, kept_.substr(open)).substr(0, open);
  // The end may be the beginning of the mark.
  std::size_t held = std::min(kept_.size(), kOpen.size() - 1);
  while (held > 0 && !kOpen.starts_with(std::string_view(kept_).substr(kept_.size() - held))) --held;
  std::string certain = kept_.substr(0, kept_.size() - held);
  kept_.erase(0, certain.size());
  return certain;
}

std::string ToolCallReader::finish() {
  const std::string text = std::exchange(kept_, {});
  if (must_call_ && text.find(kOpen) == text.npos) {
    if (auto call = call_of(text)) return calls_.push_back(*std::move(call)), std::string();
    return text;
  }
  std::string other;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t open = text.find(kOpen, at);
    const std::size_t close = open == text.npos ? text.npos : text.find(kClose, open);
    if (close == text.npos) break;
    auto call = call_of(std::string_view(text).substr(open + kOpen.size(), close - open - kOpen.size()));
    if (!call) break;
    const std::string between = text.substr(at, open - at);
    if (between.find_first_not_of(" \r\n\t") != between.npos) other += between;
    calls_.push_back(*std::move(call));
    at = close + kClose.size();
  }
  const std::string rest = text.substr(at);
  if (calls_.empty() || rest.find_first_not_of(" \r\n\t") != rest.npos) other += rest;
  return other;
}

}  // namespace weft::server::internal
