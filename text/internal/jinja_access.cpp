// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_library.hpp"

#include <algorithm>
#include <limits>

namespace weft::text::jinja {
namespace {

Stopped undefined_used(Machine& machine, const Value& value) {
  return machine.fail({"'", (value.name ? *value.name : std::string("a value")), "' is undefined"});
}

Maybe<Value> loop_member(Machine& machine, const Loop& loop, const std::string& name) {
  const auto whole = [](std::size_t value) { return Value::of_integer(static_cast<std::int64_t>(value)); };
  const std::size_t count = loop.items->size();
  if (name == "index") return whole(loop.index + 1);
  if (name == "index0") return whole(loop.index);
  if (name == "revindex") return whole(count - loop.index);
  if (name == "revindex0") return whole(count - loop.index - 1);
  if (name == "first") return Value::of_bool(loop.index == 0);
  if (name == "last") return Value::of_bool(loop.index + 1 == count);
  if (name == "length") return whole(count);
  if (name == "depth" || name == "depth0") return whole(name == "depth" ? 1 : 0);  // Jinja counts recursive ones alone
  if (name == "previtem") return loop.index == 0 ? Value::undefined(name) : (*loop.items)[loop.index - 1];
  if (name == "nextitem") return loop.index + 1 == count ? Value::undefined(name) : (*loop.items)[loop.index + 1];
  return machine.fail({"loop.", name, " is not known here"}, Errc::unsupported);
}

/// The place of a Python index; nothing where it is outside.
std::optional<std::size_t> place_of(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index);
}

Maybe<Value> member_of(Machine& machine, const Value& value, const Value& key) {
  for (const auto& [name, member] : value.dict->items) {
    WEFT_TRY(const bool is_it, machine.is_equal(name, key));
    if (is_it) return member;
  }
  if (key.is_text()) return attribute_of(machine, value, key.text->bytes);
  return Value();
}

}  // namespace

Maybe<Value> attribute_of(Machine& machine, const Value& value, const std::string& name) {
  WEFT_CHECK(machine.charge());
  if (value.is_undefined()) return undefined_used(machine, value);
  if (value.kind == Kind::loop) return loop_member(machine, *value.loop, name);
  if (const Routine* const method = find_method(value, name)) {
    Function bound;
    bound.routine = method;
    bound.self = value;
    return Value(static_cast<const Function*>(machine.own(std::move(bound))));
  }
  if (value.kind == Kind::dict) {
    WEFT_CHECK(machine.charge(value.dict->items.size() / 16));
    if (const Value* const found = value.dict->find(name)) return *found;
  }
  return Value::undefined(name);
}

Maybe<Value> item_of(Machine& machine, const Value& value, const Value& key) {
  WEFT_CHECK(machine.charge());
  if (value.is_undefined()) return undefined_used(machine, value);
  if (value.kind == Kind::dict) return member_of(machine, value, key);
  if (key.is_whole() && value.kind == Kind::list) {
    const auto place = place_of(key.as_whole(), value.list->items.size());
    return place ? value.list->items[*place] : Value();
  }
  if (key.is_whole() && value.is_text()) {
    WEFT_CHECK(machine.charge(value.bytes().size() / Machine::kBytesAStep));
    const auto at_bytes = boundaries_of(value.bytes());
    const auto place = place_of(key.as_whole(), at_bytes.size() - 1);
    return place ? cut_out(machine, value, at_bytes[*place], at_bytes[*place + 1]) : Value();
  }
  return key.is_text() ? attribute_of(machine, value, key.text->bytes) : Value();
}

Maybe<Value> slice_of(Machine& machine, const Value& value, const Value& from, const Value& to, const Value& step) {
  if (value.is_undefined()) return undefined_used(machine, value);
  if (!value.is_text() && value.kind != Kind::list)
    return machine.fail({"a value of type ", type_name(value), " cannot be sliced"});
  for (const Value* each : {&from, &to, &step})
    if (!each->is_whole() && !each->is_none())
      return machine.fail({"slice indices must be integers, not ", type_name(*each)});
  const std::int64_t by = step.is_whole() ? step.as_whole() : 1;
  if (by == 0) return machine.fail("the step of a slice is 0");
  std::vector<std::size_t> at_bytes;
  if (value.is_text()) at_bytes = boundaries_of(value.bytes());
  const auto count = static_cast<std::int64_t>(value.is_text() ? at_bytes.size() - 1 : value.list->items.size());
  const std::int64_t least = by > 0 ? 0 : -1, most = by > 0 ? count : count - 1;
  const auto bound = [&](const Value& at, std::int64_t otherwise) {
    if (!at.is_whole()) return otherwise;
    const std::int64_t index = at.as_whole();
    return std::clamp(index < 0 ? std::max(index, -count - 1) + count : index, least, most);
  };
  const std::int64_t end = bound(to, by > 0 ? most : least);
  std::vector<std::size_t> places;
  for (std::int64_t i = bound(from, by > 0 ? least : most); by > 0 ? i < end : i > end;) {
    places.push_back(static_cast<std::size_t>(i));
    if (by > 0 ? by > end - i : by < end - i) break;
    i += by;
  }
  WEFT_CHECK(machine.charge(1 + places.size() / (value.is_text() ? Machine::kBytesAStep : 1)));
  if (value.is_text()) {
    Text made;
    for (const std::size_t i : places) made.add(*value.text, at_bytes[i], at_bytes[i + 1]);
    return machine.keep(std::move(made));
  }
  std::vector<Value> items;
  for (const std::size_t i : places) items.push_back(value.list->items[i]);
  return machine.list(std::move(items), value.list->is_tuple);
}

Maybe<bool> contains(Machine& machine, const Value& value, const Value& member) {
  if (value.is_text()) {
    if (!member.is_text())
      return machine.fail({"'in <string>' requires string as left operand, not ", type_name(member)});
    WEFT_CHECK(machine.charge(1 + value.bytes().size() / Machine::kBytesAStep));
    return value.bytes().find(member.bytes()) != std::string_view::npos;
  }
  if (value.kind == Kind::dict && !value.dict->is_namespace) {
    for (const auto& [key, found] : value.dict->items) {
      WEFT_TRY(const bool is_it, machine.is_equal(key, member));
      if (is_it) return true;
    }
    return false;
  }
  if (value.kind == Kind::list) {
    for (const Value& item : value.list->items) {
      WEFT_TRY(const bool is_it, machine.is_equal(item, member));
      if (is_it) return true;
    }
    return false;
  }
  if (value.is_undefined()) return false;
  return machine.fail({"a value of type ", type_name(value), " is not iterable"});
}

}  // namespace weft::text::jinja
