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

  Status run(const Block& block);
  Text out;

 private:
  enum class Flow { on, leaves, goes_on };

  Result<Flow> execute(const Block& block);
  Result<Flow> execute(const Statement& statement);
  Result<Flow> execute_condition(const Statement& statement);
  Result<Flow> execute_loop(const Statement& statement);
  Result<Flow> execute_items(const Statement& statement, const std::vector<Value>& items);
  Result<Flow> execute_with(const Statement& statement);
  Result<std::vector<Value>> chosen_items(const Statement& statement);
  Status assign(const Target& target, const Value& value);
  Status assign_block(const Statement& statement);
  Status write(const Value& value);
  /// The text of a body in a scope around it.
  Result<Value> text_of(const Block& body, Scope& scope);
  Result<Value> filtered_body(const Statement& statement, const Expression* filters);
  Value macro_of(const Statement& statement);
  Result<Value> call_macro(const Function& macro, const Arguments& arguments, const Value& caller);
  Status execute_call(const Statement& statement);
  Scope& inner(Scope* around);

  Result<Value> evaluate(const Expression& expression);
  Result<Value> evaluate_part(const Expression& expression, std::size_t part);
  Result<Value> compute_form(const Expression& expression);
  Result<Value> name_of(const Expression& expression);
  Result<Value> list_of(const Expression& expression);
  Result<Value> dict_of(const Expression& expression);
  Result<Value> sliced(const Expression& expression);
  Result<Value> called(const Expression& expression, const Value& caller);
  Result<Value> filtered(const Expression& expression, const Value* input);
  Result<Value> tested(const Expression& expression);
  Result<Value> negated(const Expression& expression);
  Result<Value> calculated(const Expression& expression);
  Result<Value> joined(const Expression& expression);
  Result<Value> chained(const Expression& expression, bool until);
  Result<Value> compared(const Expression& expression);
  Result<Value> chosen(const Expression& expression);
  Result<Arguments> arguments_of(const Expression& expression);

  Machine& machine_;
  Scope* scope_;
  std::size_t active_ = 0;
  Value no_caller_;
};

}  // namespace weft::text::jinja
