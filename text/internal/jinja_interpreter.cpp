// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_interpreter.hpp"

#include "text/internal/jinja_library.hpp"

#include <algorithm>
#include <utility>

// Statements. Expressions are in jinja_evaluate.cpp.
namespace weft::text::jinja {

using Tag = Statement::Kind;

void Scope::set(std::string_view name, const Value& value) {
  for (auto& [known, old] : names)
    if (known == name) {
      old = value;
      return;
    }
  names.emplace_back(name, value);
}

const Value* Scope::find(std::string_view name) const noexcept {
  for (const Scope* scope = this; scope; scope = scope->around)
    for (const auto& [known, value] : scope->names)
      if (known == name) return &value;
  return nullptr;
}

Scope& Interpreter::inner(Scope* around) {
  Scope made;
  made.around = around;
  return *machine_.own(std::move(made));
}

Maybe<void> Interpreter::run(const Block& block) {
  WEFT_TRY([[maybe_unused]] const Flow flow, execute(block));
  return {};
}

Maybe<void> Interpreter::write(const Value& value) {
  add_string(out, value);
  if (out.bytes.size() > kMostText) return machine_.fail("more than 16 MiB of output", Errc::too_large);
  return machine_.charge(value.is_text() ? value.bytes().size() / Machine::kBytesAStep : 1);
}

Maybe<Interpreter::Flow> Interpreter::execute(const Block& block) {
  for (const Statement& statement : block) {
    machine_.at = statement.at;
    WEFT_CHECK(machine_.charge());
    if (active_ >= kMostActive) return machine_.fail("more than 300 levels at once", Errc::too_large);
    ++active_;
    WEFT_TRY(const Flow flow, execute(statement));
    --active_;
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Maybe<Interpreter::Flow> Interpreter::execute(const Statement& statement) {
  switch (statement.kind) {
    case Tag::data:
      WEFT_CHECK(write(Value(&statement.literal)));
      break;
    case Tag::output: {
      WEFT_TRY(const Value value, evaluate(*statement.parts[0]));
      WEFT_CHECK(write(value));
      break;
    }
    case Tag::condition:
      return execute_condition(statement);
    case Tag::loop:
      return execute_loop(statement);
    case Tag::with:
      return execute_with(statement);
    case Tag::plain:
      return execute(statement.bodies[0]);
    case Tag::set: {
      WEFT_TRY(const Value value, evaluate(*statement.parts[0]));
      WEFT_CHECK(assign(statement.target, value));
      break;
    }
    case Tag::set_block:
      WEFT_CHECK(assign_block(statement));
      break;
    case Tag::macro:
      scope_->set(statement.text, macro_of(statement));
      break;
    case Tag::call_block:
      WEFT_CHECK(execute_call(statement));
      break;
    case Tag::filter_block: {
      WEFT_TRY(const Value text, filtered_body(statement, statement.parts[0].get()));
      WEFT_CHECK(write(text));
      break;
    }
    case Tag::leave:
      return Flow::leaves;
    case Tag::next:
      return Flow::goes_on;
  }
  return Flow::on;
}

Maybe<Interpreter::Flow> Interpreter::execute_condition(const Statement& statement) {
  for (std::size_t i = 0; i < statement.parts.size(); ++i) {
    WEFT_TRY(const Value value, evaluate(*statement.parts[i]));
    if (is_true(value)) return execute(statement.bodies[i]);
  }
  return execute(statement.bodies.back());
}

Maybe<std::vector<Value>> Interpreter::chosen_items(const Statement& statement) {
  WEFT_TRY(const Value sequence, evaluate(*statement.parts[0]));
  machine_.at = statement.at;
  WEFT_TRY(std::vector<Value> items, machine_.items_of(sequence));
  if (!statement.parts[1]) return items;
  std::vector<Value> chosen;
  Scope* const outer = std::exchange(scope_, &inner(scope_));
  for (const Value& item : items) {
    WEFT_CHECK(assign(statement.target, item));
    WEFT_TRY(const Value is_chosen, evaluate(*statement.parts[1]));
    if (is_true(is_chosen)) chosen.push_back(item);
  }
  scope_ = outer;
  return chosen;
}

Maybe<Interpreter::Flow> Interpreter::execute_loop(const Statement& statement) {
  WEFT_TRY(const std::vector<Value> items, chosen_items(statement));
  Scope* const outer = scope_;
  if (items.empty()) {
    scope_ = &inner(outer);
    WEFT_TRY(const Flow flow, execute(statement.bodies[1]));
    scope_ = outer;
    return flow;
  }
  WEFT_TRY([[maybe_unused]] const Flow flow, execute_items(statement, items));
  scope_ = outer;
  return Flow::on;
}

Maybe<Interpreter::Flow> Interpreter::execute_items(const Statement& statement, const std::vector<Value>& items) {
  Scope* const outer = scope_;
  List kept;
  kept.items = items;
  Loop loop;
  loop.items = &machine_.own(std::move(kept))->items;
  Loop* const state = machine_.own(std::move(loop));
  for (std::size_t i = 0; i < items.size(); ++i) {
    state->index = i;
    scope_ = &inner(outer);
    scope_->set("loop", Value(static_cast<const Loop*>(state)));
    WEFT_CHECK(assign(statement.target, items[i]));
    WEFT_TRY(const Flow flow, execute(statement.bodies[0]));
    if (flow == Flow::leaves) break;
  }
  return Flow::on;
}

Maybe<Interpreter::Flow> Interpreter::execute_with(const Statement& statement) {
  Scope& scope = inner(scope_);
  for (const auto& [name, value] : statement.parameters) {
    WEFT_TRY(const Value made, evaluate(*value));
    scope.set(name, made);
  }
  Scope* const outer = std::exchange(scope_, &scope);
  auto flow = execute(statement.bodies[0]);
  scope_ = outer;
  return flow;
}

Maybe<void> Interpreter::assign(const Target& target, const Value& value) {
  if (!target.member.empty()) {
    const Value* const found = scope_->find(target.names[0]);
    if (!found || found->kind != Kind::dict || !found->dict->is_namespace)
      return machine_.fail({"cannot assign attribute on non-namespace object '", target.names[0], "'"});
    Dict& members = *found->dict;
    if (Value* const member = members.find(target.member)) {
      *member = value;
      return {};
    }
    WEFT_TRY(const Value key, machine_.text(target.member));
    members.items.emplace_back(key, value);
    return {};
  }
  if (!target.is_tuple) {
    scope_->set(target.names[0], value);
    return {};
  }
  WEFT_TRY(const std::vector<Value> items, machine_.items_of(value));
  if (items.size() != target.names.size())
    return machine_.fail(
        {"a sequence of ", std::to_string(items.size()), " for ", std::to_string(target.names.size()), " names"});
  for (std::size_t i = 0; i < items.size(); ++i) scope_->set(target.names[i], items[i]);
  return {};
}

Maybe<Value> Interpreter::text_of(const Block& body, Scope& scope) {
  Text before = std::exchange(out, Text());
  Scope* const outer = std::exchange(scope_, &scope);
  auto flow = execute(body);
  scope_ = outer;
  Text made = std::exchange(out, std::move(before));
  if (!flow) return fail(std::move(flow).error());
  return machine_.keep(std::move(made));
}

Maybe<Value> Interpreter::filtered_body(const Statement& statement, const Expression* filters) {
  WEFT_TRY(const Value text, text_of(statement.bodies[0], inner(scope_)));
  if (!filters) return text;
  return filtered(*filters, &text);
}

Maybe<void> Interpreter::assign_block(const Statement& statement) {
  WEFT_TRY(const Value value, filtered_body(statement, statement.parts[0].get()));
  return assign(statement.target, value);
}

Value Interpreter::macro_of(const Statement& statement) {
  Function made;
  made.macro = &statement;
  made.scope = scope_;
  return Value(static_cast<const Function*>(machine_.own(std::move(made))));
}

Maybe<Value> Interpreter::call_macro(const Function& macro, const Arguments& arguments, const Value& caller) {
  const Statement& of = *macro.macro;
  if (active_ >= kMostActive) return machine_.fail("more than 300 levels at once", Errc::too_large);
  if (arguments.values.size() > of.parameters.size())
    return machine_.fail(
        {"macro '", of.text, "' takes not more than ", std::to_string(of.parameters.size()), " arguments"});
  Scope& scope = inner(macro.scope);
  for (std::size_t i = 0; i < arguments.values.size(); ++i) scope.set(of.parameters[i].first, arguments.values[i]);
  for (const auto& [name, value] : arguments.named) {
    const auto parameter = std::find_if(of.parameters.begin(), of.parameters.end(),
                                        [&, &known = name](const auto& each) { return each.first == known; });
    if (parameter == of.parameters.end()) return machine_.fail({"macro '", of.text, "' has no argument '", name, "'"});
    if (parameter - of.parameters.begin() < static_cast<std::ptrdiff_t>(arguments.values.size()))
      return machine_.fail({"macro '", of.text, "': argument '", name, "' is there twice"});
    scope.set(parameter->first, value);
  }
  if (!caller.is_undefined()) scope.set("caller", caller);
  Scope* const outer = std::exchange(scope_, &scope);
  for (const auto& [name, fallback] : of.parameters) {
    const bool is_given = std::any_of(scope.names.begin(), scope.names.end(),
                                      [&, &known = name](const auto& each) { return each.first == known; });
    if (is_given) continue;
    Value value = Value::undefined(name);
    if (fallback) {
      WEFT_TRY(value, evaluate(*fallback));
    }
    scope.set(name, value);
  }
  scope_ = outer;
  return text_of(of.bodies[0], scope);
}

Maybe<void> Interpreter::execute_call(const Statement& statement) {
  WEFT_TRY(const Value text, called(*statement.parts[0], macro_of(statement)));
  return write(text);
}

}  // namespace weft::text::jinja
