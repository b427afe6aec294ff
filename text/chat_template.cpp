// SPDX-License-Identifier: Apache-2.0

#include "text/chat_template.hpp"

#include "text/internal/built_in_templates.hpp"
#include "text/internal/jinja_interpreter.hpp"
#include "text/internal/jinja_parser.hpp"
#include "text/unicode.hpp"

#include <algorithm>
#include <utility>

namespace weft::text {

struct ChatTemplate::Parts {
  jinja::Tree tree;
};

namespace {

using jinja::Value;

/// JSON as values of a template, its texts marked as given.
jinja::Maybe<Value> value_of(jinja::Machine& machine, const Json& json) {
  if (json.is_null()) return Value::none();
  if (json.is_bool()) return Value::of_bool(json.get<bool>());
  if (json.is_real()) return Value::of_real(json.get<double>());
  if (json.is_natural() && json.get<std::uint64_t>() > INT64_MAX) return Value::of_real(json.get<double>());
  if (json.is_integer()) return Value::of_integer(json.get<std::int64_t>());
  if (json.is_string()) {
    const std::string& text = json.text();
    return valid_prefix(text) == text.size() ? machine.text(text, true) : machine.text(replace_invalid(text), true);
  }
  if (json.is_array()) {
    std::vector<Value> items;
    for (const Json& each : json) {
      WEFT_TRY(const Value item, value_of(machine, each));
      items.push_back(item);
    }
    return machine.list(std::move(items));
  }
  jinja::Dict made;
  for (const Json::Object::value_type* const member : json.members_as_set()) {
    WEFT_TRY(const Value key, machine.text(replace_invalid(member->first), true));
    WEFT_TRY(const Value value, value_of(machine, member->second));
    made.items.emplace_back(key, value);
  }
  WEFT_CHECK(machine.charge(made.items.size()));
  return Value(machine.own(std::move(made)));
}

jinja::Maybe<void> set_variables(jinja::Machine& machine, jinja::Scope& scope, const ChatInput& input) {
  const auto set = [&](std::string_view name, const Json& json) -> jinja::Maybe<void> {
    WEFT_TRY(const Value value, value_of(machine, json));
    scope.set(name, value);
    return {};
  };
  const auto set_own = [&](std::string_view name, const std::string& text) -> jinja::Maybe<void> {
    WEFT_TRY(const Value value, machine.text(replace_invalid(text)));
    scope.set(name, value);
    return {};
  };
  for (const auto& [name, token] : input.tokens) WEFT_CHECK(set_own(name, token));
  if (!input.bos.empty()) WEFT_CHECK(set_own("bos_token", input.bos));
  if (!input.eos.empty()) WEFT_CHECK(set_own("eos_token", input.eos));
  WEFT_CHECK(set("messages", input.messages));
  WEFT_CHECK(set("tools", input.tools));
  WEFT_CHECK(set("documents", input.documents));
  scope.set("add_generation_prompt", Value::of_bool(input.add_generation_prompt));
  for (const auto& [name, value] : input.extra.members()) WEFT_CHECK(set(name, value));
  return {};
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string source) {
  auto parts = std::make_shared<Parts>();
  WEFT_TRY(parts->tree,
           jinja::parse(valid_prefix(source) == source.size() ? std::move(source) : replace_invalid(source)));
  return ChatTemplate(std::move(parts));
}

Result<ChatTemplate> ChatTemplate::built_in(std::string_view name) {
  std::string names;
  for (const BuiltInTemplate& each : kBuiltInTemplates) {
    if (each.name == name) return parse(std::string(each.source));
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  return fail(Errc::unknown_name, "chat template '" + std::string(name) + "': those that are built in: " + names);
}

std::vector<std::string_view> ChatTemplate::built_in_names() {
  std::vector<std::string_view> names;
  for (const BuiltInTemplate& each : kBuiltInTemplates) names.push_back(each.name);
  return names;
}

Result<RenderedChat> ChatTemplate::render_marked(const ChatInput& input) const {
  jinja::Machine machine(parts_->tree.source, input.now);
  jinja::Scope globals;
  jinja::Interpreter interpreter(machine, globals);
  for (const Json* each : {&input.messages, &input.tools, &input.documents, &input.extra})
    WEFT_CHECK(check_json(*each));
  if (!set_variables(machine, globals, input) || !interpreter.run(parts_->tree.body)) return machine.failure();
  RenderedChat made;
  made.text = std::move(interpreter.out.bytes);
  const std::string& marks = interpreter.out.marks;
  for (std::size_t at = 0; (at = marks.find('\1', at)) != marks.npos;) {
    const std::size_t end = std::min(marks.find('\0', at), marks.size());
    made.given.emplace_back(at, end);
    at = end;
  }
  return made;
}

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  WEFT_TRY(RenderedChat made, render_marked(input));
  return std::move(made.text);
}

const std::string& ChatTemplate::source() const noexcept { return parts_->tree.source; }

}  // namespace weft::text
