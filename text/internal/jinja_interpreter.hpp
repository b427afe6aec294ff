// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/internal/jinja_machine.hpp"
#include "text/internal/jinja_tree.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::text::jinja {

/// Names and their values; those of the scopes around it are seen, and not set.
struct Scope : Object {
  Scope* around = nullptr;
  std::vector<std::pair<std::string_view, Value>> names;

  void set(std::string_view name, const Value& value);
  const Value* find(std::string_view name) const noexcept;
};

/// Computes a tree. Text goes to `out`, the template's own and what was given (Text::marks).
class Interpreter {
 public:
  /// Levels at once, calls of macros included.
  static constexpr std::size_t kMostActive = 300;

  Interpreter(Machine& machine, Scope& globals) : machine_(machine), scope_(&globals) {}

  Maybe<void> run(const Block& block);
  Text out;

 private:
  enum class Flow { on, leaves, goes_on };

  Maybe<Flow> execute(const Block& block);
  Maybe<Flow> execute(const Statement& statement);
  Maybe<Flow> execute_condition(const Statement& statement);
  Maybe<Flow> execute_loop(const Statement& statement);
  Maybe<Flow> execute_items(const Statement& statement, const std::vector<Value>& items);
  Maybe<Flow> execute_with(const Statement& statement);
  Maybe<std::vector<Value>> chosen_items(const Statement& statement);
  Maybe<void> assign(const Target& target, const Value& value);
  Maybe<void> assign_block(const Statement& statement);
  Maybe<void> write(const Value& value);
  /// The text of a body in a scope around it.
  Maybe<Value> text_of(const Block& body, Scope& scope);
  Maybe<Value> filtered_body(const Statement& statement, const Expression* filters);
  Value macro_of(const Statement& statement);
  Maybe<Value> call_macro(const Function& macro, const Arguments& arguments, const Value& caller);
  Maybe<void> execute_call(const Statement& statement);
  Scope& inner(Scope* around);

  Maybe<Value> evaluate(const Expression& expression);
  Maybe<Value> evaluate_part(const Expression& expression, std::size_t part);
  Maybe<Value> compute_form(const Expression& expression);
  Maybe<Value> name_of(const Expression& expression);
  Maybe<Value> list_of(const Expression& expression);
  Maybe<Value> dict_of(const Expression& expression);
  Maybe<Value> sliced(const Expression& expression);
  Maybe<Value> called(const Expression& expression, const Value& caller);
  Maybe<Value> filtered(const Expression& expression, const Value* input);
  Maybe<Value> tested(const Expression& expression);
  Maybe<Value> negated(const Expression& expression);
  Maybe<Value> calculated(const Expression& expression);
  Maybe<Value> joined(const Expression& expression);
  Maybe<Value> chained(const Expression& expression, bool until);
  Maybe<Value> compared(const Expression& expression);
  Maybe<Value> chosen(const Expression& expression);
  Maybe<Arguments> arguments_of(const Expression& expression);

  Machine& machine_;
  Scope* scope_;
  std::size_t active_ = 0;
  Value no_caller_;
};

}  // namespace weft::text::jinja
