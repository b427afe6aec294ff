// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_lexer.hpp"
#include "text/internal/jinja_library.hpp"
#include "text/unicode.hpp"

#include "core/printable.hpp"

#include <algorithm>

namespace weft::text::jinja {

Stopped Machine::fail(std::string_view text, Errc code) {
  error_ = fail_at(source_, at, code, printable(text, 400)).error;
  return {};
}

Stopped Machine::fail(std::initializer_list<std::string_view> parts, Errc code) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return fail(text, code);
}

Maybe<void> Machine::charge(std::size_t count) {
  if (count > steps_) {
    steps_ = 0;
    return fail("more than 1000000 steps", Errc::too_large);
  }
  steps_ -= count;
  return {};
}

Maybe<Value> Machine::keep(Text made) {
  if (made.bytes.size() > kMostText) return fail("a text of more than 16 MiB", Errc::too_large);
  WEFT_CHECK(charge(1 + made.bytes.size() / kBytesAStep));
  return Value(own(std::move(made)));
}

Maybe<Value> Machine::text(std::string_view bytes, bool given) {
  Text made;
  made.add(bytes, given);
  return keep(std::move(made));
}

Maybe<Value> Machine::list(std::vector<Value> items, bool is_tuple) {
  WEFT_CHECK(charge(1 + items.size()));
  List made;
  made.items = std::move(items);
  made.is_tuple = is_tuple;
  return Value(own(std::move(made)));
}

Maybe<bool> Machine::is_equal(const Value& a, const Value& b) {
  const bool equal = jinja::is_equal(a, b, steps_);
  WEFT_CHECK(charge());
  return equal;
}

Maybe<int> Machine::order(const Value& a, const Value& b, std::string_view operation) {
  const int order = order_of(a, b, steps_);
  WEFT_CHECK(charge());
  if (order == 2) return fail({"'", operation, "' is not known between ", type_name(a), " and ", type_name(b)});
  return order;
}

Maybe<std::vector<Value>> Machine::items_of(const Value& value) {
  std::vector<Value> items;
  switch (value.kind) {
    case Kind::undefined:
      break;
    case Kind::list:
      items = value.list->items;
      break;
    case Kind::dict:
      if (value.dict->is_namespace) return fail("a namespace is not iterable");
      for (const auto& [key, member] : value.dict->items) items.push_back(key);
      break;
    case Kind::text: {
      const auto at_bytes = boundaries_of(value.bytes());
      WEFT_CHECK(charge(at_bytes.size()));
      for (std::size_t i = 0; i + 1 < at_bytes.size(); ++i) {
        WEFT_TRY(const Value character, cut_out(*this, value, at_bytes[i], at_bytes[i + 1]));
        items.push_back(character);
      }
      break;
    }
    default:
      return fail({"a value of type ", type_name(value), " is not iterable"});
  }
  WEFT_CHECK(charge(items.size()));
  return items;
}

Maybe<Value> call(Machine& machine, const Routine& routine, const Value& self, const Arguments& arguments) {
  WEFT_CHECK(machine.charge());
  Routine::Bound bound{};
  if (routine.is_open) return routine.run(machine, self, bound, arguments);
  const std::string name(routine.name);
  const auto end = std::find(routine.parameters.begin(), routine.parameters.end(), "");
  const auto most = static_cast<std::size_t>(end - routine.parameters.begin());
  if (arguments.values.size() > most)
    return machine.fail(
        {name, ": ", std::to_string(arguments.values.size()), " arguments, at most ", std::to_string(most)});
  std::copy(arguments.values.begin(), arguments.values.end(), bound.begin());
  std::size_t given = arguments.values.size();
  for (const auto& [key, value] : arguments.named) {
    const auto place = std::find(routine.parameters.begin(), end, key);
    if (place == end) return machine.fail({name, ": has no argument '", key, "'"});
    const auto index = static_cast<std::size_t>(place - routine.parameters.begin());
    if (index < arguments.values.size()) return machine.fail({name, ": argument '", key, "' is there twice"});
    bound[index] = value;
    given = std::max(given, index + 1);
  }
  if (given < routine.required) return machine.fail({name, ": argument '", routine.parameters[given], "' is missing"});
  return routine.run(machine, self, bound, arguments);
}

Maybe<Value> cut_out(Machine& machine, const Value& text, std::size_t begin, std::size_t end) {
  Text made;
  made.add(*text.text, begin, end);
  return machine.keep(std::move(made));
}

Maybe<Value> string_of(Machine& machine, const Value& value) {
  if (value.is_text()) return value;
  Text made;
  add_string(made, value);
  return machine.keep(std::move(made));
}

std::vector<std::size_t> boundaries_of(std::string_view text) {
  std::vector<std::size_t> at_bytes{0};
  for (std::size_t at = 0; at < text.size(); at_bytes.push_back(at)) (void)next_code_point(text, at);
  return at_bytes;
}

}  // namespace weft::text::jinja
