// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_library.hpp"

#include <algorithm>
#include <cmath>

namespace weft::text::jinja {
namespace {

std::string_view sign_of(Operation operation) noexcept {
  constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSigns[static_cast<std::size_t>(operation)];
}

Stopped beyond(Machine& machine) { return machine.fail("a whole number beyond 64 bits", Errc::too_large); }

/// Python's whole division and remainder: rounded down, and of the sign of the divisor.
Maybe<Value> divide_whole(Machine& machine, std::int64_t a, std::int64_t b, bool is_remainder) {
  if (b == -1) {
    if (a == INT64_MIN && !is_remainder) return beyond(machine);
    return Value::of_integer(is_remainder ? 0 : -a);
  }
  const std::int64_t quotient = a / b, rest = a % b;
  const bool is_below = rest != 0 && (rest < 0) != (b < 0);
  return Value::of_integer(is_remainder ? (is_below ? rest + b : rest) : (is_below ? quotient - 1 : quotient));
}

Maybe<Value> power_of(Machine& machine, std::int64_t base, std::int64_t exponent) {
  std::int64_t made = 1;
  if (base == 0 || base == 1 || base == -1) {
    const bool is_odd = exponent % 2 != 0;
    return Value::of_integer(exponent == 0 ? 1 : base == -1 && !is_odd ? 1 : base);
  }
  for (std::int64_t i = 0; i < exponent; ++i)
    if (__builtin_mul_overflow(made, base, &made)) return beyond(machine);
  return Value::of_integer(made);
}

Maybe<Value> compute_whole(Machine& machine, Operation operation, std::int64_t a, std::int64_t b) {
  std::int64_t made = 0;
  bool overflows = false;
  switch (operation) {
    case Operation::add:
      overflows = __builtin_add_overflow(a, b, &made);
      break;
    case Operation::subtract:
      overflows = __builtin_sub_overflow(a, b, &made);
      break;
    case Operation::multiply:
      overflows = __builtin_mul_overflow(a, b, &made);
      break;
    case Operation::power:
      return power_of(machine, a, b);
    default:
      return divide_whole(machine, a, b, operation == Operation::remainder);
  }
  if (overflows) return beyond(machine);
  return Value::of_integer(made);
}

Value compute_real(Operation operation, double a, double b) {
  switch (operation) {
    case Operation::add:
      return Value::of_real(a + b);
    case Operation::subtract:
      return Value::of_real(a - b);
    case Operation::multiply:
      return Value::of_real(a * b);
    case Operation::divide:
      return Value::of_real(a / b);
    case Operation::power:
      return Value::of_real(std::pow(a, b));
    default:
      break;
  }
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (operation == Operation::remainder) return Value::of_real(rest == 0 ? std::copysign(0.0, b) : rest);
  return Value::of_real(std::round((a - rest) / b));
}

/// text * count and list * count.
Maybe<Value> repeat(Machine& machine, const Value& value, std::int64_t count) {
  const std::size_t size = value.is_text() ? value.bytes().size() : value.list->items.size();
  const std::uint64_t times = count < 0 ? 0 : static_cast<std::uint64_t>(count);
  if (size > 0 && times > kMostText / size) return machine.fail("a text or list of more than 16 Mi", Errc::too_large);
  if (value.is_text()) {
    Text made;
    for (std::uint64_t i = 0; i < times && size > 0; ++i) made.add(*value.text);
    return machine.keep(std::move(made));
  }
  WEFT_CHECK(machine.charge(size * times));
  std::vector<Value> items;
  for (std::uint64_t i = 0; i < times && size > 0; ++i)
    items.insert(items.end(), value.list->items.begin(), value.list->items.end());
  return machine.list(std::move(items), value.list->is_tuple);
}

Maybe<Value> join_lists(Machine& machine, const List& a, const List& b) {
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return machine.list(std::move(items), a.is_tuple);
}

}  // namespace

Maybe<Value> compute(Machine& machine, Operation operation, const Value& a, const Value& b) {
  WEFT_CHECK(machine.charge());
  for (const Value* each : {&a, &b})
    if (each->is_undefined())
      return machine.fail({"'", (each->name ? *each->name : std::string("a value")), "' is undefined"});
  if (a.is_number() && b.is_number()) {
    const bool divides =
        operation == Operation::divide || operation == Operation::divide_whole || operation == Operation::remainder;
    if (divides && b.as_real() == 0) return machine.fail("division by zero");
    const bool is_whole = a.is_whole() && b.is_whole() && operation != Operation::divide &&
                          !(operation == Operation::power && b.as_whole() < 0);
    if (is_whole) return compute_whole(machine, operation, a.as_whole(), b.as_whole());
    return compute_real(operation, a.as_real(), b.as_real());
  }
  const auto is_sequence = [](const Value& value) { return value.is_text() || value.kind == Kind::list; };
  if (operation == Operation::multiply && is_sequence(a) && b.is_whole()) return repeat(machine, a, b.as_whole());
  if (operation == Operation::multiply && is_sequence(b) && a.is_whole()) return repeat(machine, b, a.as_whole());
  if (operation == Operation::add && a.is_text() && b.is_text()) {
    Text made = *a.text;
    made.add(*b.text);
    return machine.keep(std::move(made));
  }
  if (operation == Operation::add && a.kind == Kind::list && b.kind == Kind::list &&
      a.list->is_tuple == b.list->is_tuple)
    return join_lists(machine, *a.list, *b.list);
  if (operation == Operation::remainder && a.is_text())
    return b.kind == Kind::list && b.list->is_tuple ? format_percent(machine, a, b.list->items)
                                                    : format_percent(machine, a, std::span(&b, 1));
  return machine.fail({"'", sign_of(operation), "' is not known between ", type_name(a), " and ", type_name(b)});
}

Maybe<bool> compare(Machine& machine, Operation operation, const Value& a, const Value& b) {
  switch (operation) {
    case Operation::in:
      return contains(machine, b, a);
    case Operation::not_in: {
      WEFT_TRY(const bool found, contains(machine, b, a));
      return !found;
    }
    case Operation::equal:
      return machine.is_equal(a, b);
    case Operation::not_equal: {
      WEFT_TRY(const bool equal, machine.is_equal(a, b));
      return !equal;
    }
    default:
      break;
  }
  for (const Value* each : {&a, &b})
    if (each->is_undefined())
      return machine.fail({"'", (each->name ? *each->name : std::string("a value")), "' is undefined"});
  WEFT_TRY(const int order, machine.order(a, b));
  switch (operation) {
    case Operation::less:
      return order == -1;
    case Operation::at_most:
      return order == -1 || order == 0;
    case Operation::greater:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

}  // namespace weft::text::jinja
