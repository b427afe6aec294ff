// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_library.hpp"

#include <algorithm>

// Filters of sequences. Those that give generators in Jinja give lists here.
namespace weft::text::jinja {
namespace {

using Bound = Routine::Bound;
using Items = std::vector<Value>;

/// A member by a path of names and numbers with dots between, as `attribute=` has it.
Maybe<Value> by_path(Machine& machine, Value value, const Value& path) {
  if (path.is_whole()) return item_of(machine, value, path);
  if (!path.is_text()) return machine.fail("attribute is no text and no number");
  std::string_view rest = path.bytes();
  for (bool more = true; more;) {
    const std::size_t dot = rest.find('.');
    const std::string_view name = rest.substr(0, dot);
    more = dot != rest.npos;
    if (more) rest.remove_prefix(dot + 1);
    const bool is_number = !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == name.npos;
    WEFT_TRY(Value key, machine.text(name));
    if (is_number) key = Value::of_integer(std::stol(std::string(name)));
    WEFT_TRY(value, item_of(machine, value, key));
  }
  return value;
}

/// Key by which a sequence is sorted or compared: a member, in lower case unless told otherwise.
struct SortKey {
  Value attribute{};
  bool case_sensitive = false;

  Maybe<Value> of(Machine& machine, const Value& item) const {
    Value key = item;
    if (!attribute.is_undefined() && !attribute.is_none()) {
      WEFT_TRY(key, by_path(machine, item, attribute));
    }
    if (key.is_text() && !case_sensitive) return in_case(machine, key, Casing::lower);
    return key;
  }
};

struct Keyed {
  Value key, item;
};
Maybe<std::vector<Keyed>> keyed(Machine& machine, const Items& items, const SortKey& by) {
  std::vector<Keyed> all;
  for (const Value& item : items) {
    WEFT_TRY(const Value key, by.of(machine, item));
    all.push_back({key, item});
  }
  return all;
}

/// Merge sort, so that a comparison may fail. Equal ones stay in order, reversed too, as in Python.
Maybe<void> sort(Machine& machine, std::vector<Keyed>& items, bool reverse) {
  if (items.size() < 2) return {};
  std::vector<Keyed> left(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(items.size() / 2));
  std::vector<Keyed> right(items.begin() + static_cast<std::ptrdiff_t>(items.size() / 2), items.end());
  WEFT_CHECK(sort(machine, left, reverse));
  WEFT_CHECK(sort(machine, right, reverse));
  std::size_t l = 0, r = 0;
  for (Keyed& each : items) {
    bool takes_left = r == right.size();
    if (!takes_left && l < left.size()) {
      WEFT_TRY(const int order, machine.order(right[r].key, left[l].key));
      takes_left = reverse ? order <= 0 : order >= 0;
    }
    each = takes_left ? left[l++] : right[r++];
  }
  return {};
}

Maybe<Value> values_of(Machine& machine, const std::vector<Keyed>& keyed_items) {
  Items items;
  for (const Keyed& each : keyed_items) items.push_back(each.item);
  return machine.list(std::move(items));
}

Maybe<Value> filter_list(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  WEFT_TRY(Items items, machine.items_of(value));
  return machine.list(std::move(items));
}
Maybe<Value> filter_first(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  WEFT_TRY(const Items items, machine.items_of(value));
  return items.empty() ? Value() : items.front();
}
Maybe<Value> filter_last(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  WEFT_TRY(const Items items, machine.items_of(value));
  return items.empty() ? Value() : items.back();
}
Maybe<Value> filter_reverse(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  if (value.is_text()) return slice_of(machine, value, Value::none(), Value::none(), Value::of_integer(-1));
  WEFT_TRY(Items items, machine.items_of(value));
  std::reverse(items.begin(), items.end());
  return machine.list(std::move(items));
}
Maybe<Value> filter_join(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  WEFT_TRY(const Items items, machine.items_of(value));
  Text made;
  for (std::size_t i = 0; i < items.size() && made.bytes.size() <= kMostText; ++i) {
    if (i > 0) add_string(made, bound[0]);
    Value item = items[i];
    if (!bound[1].is_undefined() && !bound[1].is_none()) {
      WEFT_TRY(item, by_path(machine, item, bound[1]));
    }
    add_string(made, item);
  }
  return machine.keep(std::move(made));
}
Maybe<Value> filter_items(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  if (value.is_undefined()) return machine.list({});
  if (value.kind != Kind::dict) return machine.fail({"items of a value of type ", type_name(value)});
  Items items;
  for (const auto& [key, member] : value.dict->items) {
    WEFT_TRY(const Value pair, machine.list({key, member}, true));
    items.push_back(pair);
  }
  return machine.list(std::move(items));
}
Maybe<Value> filter_dictsort(Machine& machine, const Value& value, const Bound& bound, const Arguments& all) {
  const bool by_value = bound[1].is_text() && bound[1].bytes() == "value";
  if (bound[1].is_text() && !by_value && bound[1].bytes() != "key") return machine.fail("dictsort: by is key or value");
  WEFT_TRY(const Value pairs, filter_items(machine, value, bound, all));
  SortKey by;
  by.attribute = Value::of_integer(by_value ? 1 : 0);
  by.case_sensitive = is_true(bound[0]);
  WEFT_TRY(std::vector<Keyed> items, keyed(machine, pairs.list->items, by));
  WEFT_CHECK(sort(machine, items, is_true(bound[2])));
  return values_of(machine, items);
}
Maybe<Value> filter_sort(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  WEFT_TRY(const Items all, machine.items_of(value));
  WEFT_TRY(std::vector<Keyed> items, keyed(machine, all, {bound[2], is_true(bound[1])}));
  WEFT_CHECK(sort(machine, items, is_true(bound[0])));
  return values_of(machine, items);
}
Maybe<Value> filter_unique(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  WEFT_TRY(const Items all, machine.items_of(value));
  WEFT_TRY(const std::vector<Keyed> items, keyed(machine, all, {bound[1], is_true(bound[0])}));
  std::vector<Keyed> kept;
  for (const Keyed& each : items) {
    bool is_new = true;
    for (const Keyed& other : kept) {
      WEFT_TRY(const bool equal, machine.is_equal(each.key, other.key));
      is_new &= !equal;
    }
    if (is_new) kept.push_back(each);
  }
  return values_of(machine, kept);
}
template <int kSign>
Maybe<Value> filter_extreme(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  WEFT_TRY(const Items all, machine.items_of(value));
  WEFT_TRY(const std::vector<Keyed> items, keyed(machine, all, {bound[1], is_true(bound[0])}));
  if (items.empty()) return Value();
  Keyed best = items.front();
  for (const Keyed& each : items) {
    WEFT_TRY(const int order, machine.order(each.key, best.key));
    if (order == kSign) best = each;
  }
  return best.item;
}
Maybe<Value> filter_sum(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  WEFT_TRY(const Items items, machine.items_of(value));
  Value sum = bound[1].is_undefined() ? Value::of_integer(0) : bound[1];
  for (Value item : items) {
    if (!bound[0].is_undefined() && !bound[0].is_none()) {
      WEFT_TRY(item, by_path(machine, item, bound[0]));
    }
    WEFT_TRY(sum, compute(machine, Operation::add, sum, item));
  }
  return sum;
}
Maybe<Value> filter_batch(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  if (!bound[0].is_whole() || bound[0].as_whole() < 1) return machine.fail("batch takes a number from 1");
  const auto size = static_cast<std::size_t>(bound[0].as_whole());
  WEFT_TRY(const Items items, machine.items_of(value));
  Items batches;
  for (std::size_t i = 0; i < items.size(); i += std::min(size, items.size() - i)) {
    Items batch(items.begin() + static_cast<std::ptrdiff_t>(i),
                items.begin() + static_cast<std::ptrdiff_t>(i + std::min(size, items.size() - i)));
    if (!bound[1].is_undefined() && !bound[1].is_none() && batch.size() < size) {
      WEFT_CHECK(machine.charge(size));
      batch.resize(size, bound[1]);
    }
    WEFT_TRY(const Value made, machine.list(std::move(batch)));
    batches.push_back(made);
  }
  return machine.list(std::move(batches));
}

/// map(attribute=..., default=...), or map("filter", arguments...).
Maybe<Value> filter_map(Machine& machine, const Value& value, const Bound&, const Arguments& all) {
  WEFT_TRY(const Items items, machine.items_of(value));
  Value attribute, fallback;
  for (const auto& [name, given] : all.named)
    if (name == "attribute")
      attribute = given;
    else if (name == "default")
      fallback = given;
  const bool by_filter = !all.values.empty();
  if (!by_filter && attribute.is_undefined()) return machine.fail("map takes a filter's name or an attribute");
  if (by_filter && !all.values[0].is_text()) return machine.fail("map: the name of a filter is a text");
  const Routine* const filter = by_filter ? find_filter(all.values[0].bytes()) : nullptr;
  if (by_filter && !filter)
    return machine.fail({"map: filter '", all.values[0].bytes(), "' is not known"}, Errc::unsupported);
  Arguments rest{{all.values.begin() + (by_filter ? 1 : 0), all.values.end()},
                 by_filter ? all.named : decltype(all.named){}};
  Items made;
  for (const Value& item : items) {
    WEFT_TRY(Value one, by_filter ? call(machine, *filter, item, rest) : by_path(machine, item, attribute));
    made.push_back(one.is_undefined() && !by_filter ? fallback : one);
  }
  return machine.list(std::move(made));
}

/// select, reject and their forms by attribute: items for which a test holds, or which are true.
template <bool kKeeps, bool kByAttribute>
Maybe<Value> filter_select(Machine& machine, const Value& value, const Bound&, const Arguments& all) {
  WEFT_TRY(const Items items, machine.items_of(value));
  const std::size_t first = kByAttribute ? 1 : 0;
  if (all.values.size() < first) return machine.fail("selectattr and rejectattr take an attribute");
  const Routine* test = nullptr;
  Arguments rest;
  if (all.values.size() > first) {
    if (!all.values[first].is_text()) return machine.fail("the name of a test is a text");
    test = find_test(all.values[first].bytes());
    if (!test) return machine.fail({"test '", all.values[first].bytes(), "' is not known"}, Errc::unsupported);
    rest.values.assign(all.values.begin() + static_cast<std::ptrdiff_t>(first) + 1, all.values.end());
  }
  Items kept;
  for (const Value& item : items) {
    Value looked_at = item;
    if (kByAttribute) {
      WEFT_TRY(looked_at, by_path(machine, item, all.values[0]));
    }
    if (test) {
      WEFT_TRY(looked_at, call(machine, *test, looked_at, rest));
    }
    if (is_true(looked_at) == kKeeps) kept.push_back(item);
  }
  return machine.list(std::move(kept));
}

constexpr Routine kSequenceFilters[] = {
    {"list", filter_list},
    {"first", filter_first},
    {"last", filter_last},
    {"reverse", filter_reverse},
    {"join", filter_join, 0, {"d", "attribute"}},
    {"items", filter_items},
    {"dictsort", filter_dictsort, 0, {"case_sensitive", "by", "reverse"}},
    {"sort", filter_sort, 0, {"reverse", "case_sensitive", "attribute"}},
    {"unique", filter_unique, 0, {"case_sensitive", "attribute"}},
    {"min", filter_extreme<-1>, 0, {"case_sensitive", "attribute"}},
    {"max", filter_extreme<1>, 0, {"case_sensitive", "attribute"}},
    {"sum", filter_sum, 0, {"attribute", "start"}},
    {"batch", filter_batch, 1, {"linecount", "fill_with"}},
    {"map", filter_map, 0, {}, true},
    {"select", filter_select<true, false>, 0, {}, true},
    {"reject", filter_select<false, false>, 0, {}, true},
    {"selectattr", filter_select<true, true>, 0, {}, true},
    {"rejectattr", filter_select<false, true>, 0, {}, true},
};

}  // namespace

const Routine* find_sequence_filter(std::string_view name) noexcept {
  const auto is_it = [&](const Routine& routine) { return routine.name == name; };
  const auto found = std::find_if(std::begin(kSequenceFilters), std::end(kSequenceFilters), is_it);
  return found == std::end(kSequenceFilters) ? nullptr : found;
}

}  // namespace weft::text::jinja
