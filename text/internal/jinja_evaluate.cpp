// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_interpreter.hpp"
#include "text/internal/jinja_library.hpp"

#include <utility>

namespace weft::text::jinja {

using Form = Expression::Form;

Maybe<Value> Interpreter::evaluate(const Expression& expression) {
  WEFT_CHECK(machine_.charge());
  if (active_ >= kMostActive) return machine_.fail("more than 300 levels at once", Errc::too_large);
  ++active_;
  machine_.at = expression.at;
  auto value = compute_form(expression);
  --active_;
  return value;
}

/// A part, and then the place of the whole again, so that failures name it.
Maybe<Value> Interpreter::evaluate_part(const Expression& expression, std::size_t part) {
  auto value = evaluate(*expression.parts[part]);
  if (value) machine_.at = expression.at;
  return value;
}

Maybe<Value> Interpreter::compute_form(const Expression& expression) {
  switch (expression.form) {
    case Form::constant:
      return expression.value;
    case Form::name:
      return name_of(expression);
    case Form::list:
    case Form::tuple:
      return list_of(expression);
    case Form::dict:
      return dict_of(expression);
    case Form::attribute: {
      WEFT_TRY(const Value of, evaluate_part(expression, 0));
      return attribute_of(machine_, of, expression.text);
    }
    case Form::item: {
      WEFT_TRY(const Value of, evaluate_part(expression, 0));
      WEFT_TRY(const Value key, evaluate_part(expression, 1));
      return item_of(machine_, of, key);
    }
    case Form::slice:
      return sliced(expression);
    case Form::call:
      return called(expression, no_caller_);
    case Form::filter:
      return filtered(expression, nullptr);
    case Form::test:
      return tested(expression);
    case Form::negative:
    case Form::positive:
    case Form::negation:
      return negated(expression);
    case Form::arithmetic:
      return calculated(expression);
    case Form::concat:
      return joined(expression);
    case Form::all_of:
      return chained(expression, false);
    case Form::any_of:
      return chained(expression, true);
    case Form::comparison:
      return compared(expression);
    case Form::conditional:
      return chosen(expression);
  }
  return Value();
}

Maybe<Value> Interpreter::name_of(const Expression& expression) {
  if (const Value* const found = scope_->find(expression.text)) return *found;
  const Routine* const routine = find_function(expression.text);
  if (!routine) return Value::undefined(expression.text);
  Function function;
  function.routine = routine;
  return Value(static_cast<const Function*>(machine_.own(std::move(function))));
}

Maybe<Value> Interpreter::list_of(const Expression& expression) {
  std::vector<Value> items;
  for (std::size_t i = 0; i < expression.parts.size(); ++i) {
    WEFT_TRY(const Value item, evaluate_part(expression, i));
    items.push_back(item);
  }
  return machine_.list(std::move(items), expression.form == Form::tuple);
}

Maybe<Value> Interpreter::dict_of(const Expression& expression) {
  Dict made;
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    WEFT_TRY(const Value key, evaluate_part(expression, i));
    WEFT_TRY(const Value value, evaluate_part(expression, i + 1));
    if (key.kind == Kind::list || key.kind == Kind::dict) return machine_.fail({"a key of type ", type_name(key)});
    bool is_new = true;
    for (auto& [known, old] : made.items) {
      WEFT_TRY(const bool equal, machine_.is_equal(known, key));
      if (equal) old = value, is_new = false;
    }
    if (is_new) made.items.emplace_back(key, value);
  }
  WEFT_CHECK(machine_.charge(made.items.size()));
  return Value(machine_.own(std::move(made)));
}

Maybe<Value> Interpreter::sliced(const Expression& expression) {
  Value bounds[3] = {Value::none(), Value::none(), Value::none()};
  WEFT_TRY(const Value of, evaluate_part(expression, 0));
  for (std::size_t i = 0; i < 3; ++i)
    if (expression.parts[i + 1]) {
      WEFT_TRY(bounds[i], evaluate_part(expression, i + 1));
    }
  return slice_of(machine_, of, bounds[0], bounds[1], bounds[2]);
}

Maybe<Arguments> Interpreter::arguments_of(const Expression& expression) {
  Arguments arguments;
  for (std::size_t i = 1; i < expression.parts.size(); ++i) {
    WEFT_TRY(const Value value, evaluate_part(expression, i));
    arguments.values.push_back(value);
  }
  for (const auto& [name, part] : expression.named) {
    WEFT_TRY(const Value value, evaluate(*part));
    arguments.named.emplace_back(name, value);
  }
  machine_.at = expression.at;
  return arguments;
}

Maybe<Value> Interpreter::called(const Expression& expression, const Value& caller) {
  WEFT_TRY(const Value callee, evaluate_part(expression, 0));
  if (callee.is_undefined())
    return machine_.fail({"'", (callee.name ? *callee.name : std::string("a value")), "' is undefined"});
  if (callee.kind != Kind::function) return machine_.fail({"a value of type ", type_name(callee), " is not callable"});
  WEFT_TRY(const Arguments arguments, arguments_of(expression));
  const Function& function = *callee.function;
  if (function.macro) return call_macro(function, arguments, caller);
  if (!caller.is_undefined()) return machine_.fail("call takes a macro");
  return call(machine_, *function.routine, function.self, arguments);
}

Maybe<Value> Interpreter::filtered(const Expression& expression, const Value* input) {
  Value value;
  if (expression.parts[0]) {
    // In a filter block the first of several filters has no input of its own.
    const bool is_chain = input && expression.parts[0]->form == Form::filter;
    WEFT_TRY(value, is_chain ? filtered(*expression.parts[0], input) : evaluate_part(expression, 0));
    machine_.at = expression.at;
  } else if (input) {
    value = *input;
  }
  WEFT_TRY(const Arguments arguments, arguments_of(expression));
  return call(machine_, *expression.routine, value, arguments);
}

Maybe<Value> Interpreter::tested(const Expression& expression) {
  WEFT_TRY(const Value value, evaluate_part(expression, 0));
  WEFT_TRY(const Arguments arguments, arguments_of(expression));
  return call(machine_, *expression.routine, value, arguments);
}

Maybe<Value> Interpreter::negated(const Expression& expression) {
  WEFT_TRY(const Value value, evaluate_part(expression, 0));
  if (expression.form == Form::negation) return Value::of_bool(!is_true(value));
  if (!value.is_number()) return machine_.fail({"a sign before a value of type ", type_name(value)});
  if (expression.form == Form::positive) return value.is_whole() ? Value::of_integer(value.as_whole()) : value;
  if (!value.is_whole()) return Value::of_real(-value.real);
  return compute(machine_, Operation::subtract, Value::of_integer(0), value);
}

Maybe<Value> Interpreter::calculated(const Expression& expression) {
  WEFT_TRY(Value value, evaluate_part(expression, 0));
  for (std::size_t i = 0; i < expression.operations.size(); ++i) {
    WEFT_TRY(const Value next, evaluate_part(expression, i + 1));
    WEFT_TRY(value, compute(machine_, expression.operations[i], value, next));
  }
  return value;
}

Maybe<Value> Interpreter::joined(const Expression& expression) {
  Text made;
  for (std::size_t i = 0; i < expression.parts.size(); ++i) {
    WEFT_TRY(const Value part, evaluate_part(expression, i));
    add_string(made, part);
    if (made.bytes.size() > kMostText) break;
  }
  return machine_.keep(std::move(made));
}

/// and, or: the first value that decides, or the last.
Maybe<Value> Interpreter::chained(const Expression& expression, bool until) {
  Value value;
  for (std::size_t i = 0; i < expression.parts.size(); ++i) {
    WEFT_TRY(value, evaluate_part(expression, i));
    if (is_true(value) == until) break;
  }
  return value;
}

Maybe<Value> Interpreter::compared(const Expression& expression) {
  WEFT_TRY(Value left, evaluate_part(expression, 0));
  for (std::size_t i = 0; i < expression.operations.size(); ++i) {
    WEFT_TRY(const Value right, evaluate_part(expression, i + 1));
    WEFT_TRY(const bool holds, compare(machine_, expression.operations[i], left, right));
    if (!holds) return Value::of_bool(false);
    left = right;
  }
  return Value::of_bool(true);
}

Maybe<Value> Interpreter::chosen(const Expression& expression) {
  WEFT_TRY(const Value condition, evaluate_part(expression, 1));
  if (is_true(condition)) return evaluate_part(expression, 0);
  if (!expression.parts[2]) return Value();
  return evaluate_part(expression, 2);
}

}  // namespace weft::text::jinja
