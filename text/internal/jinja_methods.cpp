// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_library.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>

// Methods of texts, lists and dicts, and functions.
namespace weft::text::jinja {
namespace {

using Bound = Routine::Bound;

template <bool kLeft, bool kRight>
Maybe<Value> text_strip(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  const auto [begin, end] = stripped(self.bytes(), bound[0], kLeft, kRight);
  return cut_out(machine, self, begin, end);
}
template <Casing kCasing>
Maybe<Value> text_case(Machine& machine, const Value& self, const Bound&, const Arguments&) {
  return in_case(machine, self, kCasing);
}
template <bool kAtBegin>
Maybe<Value> text_has_end(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  const auto fits = [&](const Value& part) {
    return kAtBegin ? self.bytes().starts_with(part.bytes()) : self.bytes().ends_with(part.bytes());
  };
  std::vector<Value> parts{bound[0]};
  if (bound[0].kind == Kind::list && bound[0].list->is_tuple) parts = bound[0].list->items;
  bool found = false;
  for (const Value& part : parts) {
    if (!part.is_text()) return machine.fail("startswith and endswith take a text or a tuple of texts");
    found |= fits(part);
  }
  return Value::of_bool(found);
}
Maybe<Value> text_replace(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  return replace_all(machine, self, bound[0], bound[1], bound[2]);
}
/// Characters before a byte, as a whole number.
Value characters_before(const Value& text, std::size_t bytes) {
  return Value::of_integer(static_cast<std::int64_t>(boundaries_of(text.bytes().substr(0, bytes)).size() - 1));
}
Maybe<Value> text_find(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  if (!bound[0].is_text()) return machine.fail("find takes a text");
  WEFT_CHECK(machine.charge(self.bytes().size() / Machine::kBytesAStep));
  const std::size_t found = self.bytes().find(bound[0].bytes());
  return found == std::string_view::npos ? Value::of_integer(-1) : characters_before(self, found);
}
Maybe<Value> text_count(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  if (!bound[0].is_text()) return machine.fail("count takes a text");
  WEFT_CHECK(machine.charge(self.bytes().size() / Machine::kBytesAStep));
  const std::string_view part = bound[0].bytes();
  if (part.empty()) return Value::of_integer(characters_before(self, self.bytes().size()).integer + 1);
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = self.bytes().find(part, at)) != std::string_view::npos; at += part.size()) ++count;
  return Value::of_integer(count);
}

/// Parts of a text between separators, or between runs of white space; `most`: cuts, from the left or the right.
using Span = std::pair<std::size_t, std::size_t>;
std::vector<Span> split_at(std::string_view text, std::string_view by, std::size_t most, bool from_right) {
  std::vector<Span> parts;
  std::size_t begin = 0, end = text.size();
  while (parts.size() < most) {
    const std::size_t found = from_right ? text.substr(0, end).rfind(by) : text.find(by, begin);
    if (found == text.npos || (from_right && found + by.size() > end)) break;
    parts.emplace_back(from_right ? found + by.size() : begin, from_right ? end : found);
    (from_right ? end : begin) = from_right ? found : found + by.size();
  }
  parts.emplace_back(begin, end);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}
std::vector<Span> split_at_spaces(std::string_view text, std::size_t most, bool from_right) {
  std::vector<Span> parts;
  const auto at_bytes = boundaries_of(text);
  const auto is_gap = [&](std::size_t i) {
    return stripped(text.substr(at_bytes[i], at_bytes[i + 1] - at_bytes[i]), Value(), true, false).first != 0;
  };
  std::vector<Span> words;
  for (std::size_t i = 0; i + 1 < at_bytes.size(); ++i) {
    if (is_gap(i)) continue;
    const std::size_t first = at_bytes[i];
    while (i + 1 < at_bytes.size() && !is_gap(i)) ++i;
    words.emplace_back(first, at_bytes[i]);
  }
  if (words.size() <= most) return words;
  // The rest is one part, white space within included.
  if (from_right) {
    parts.assign(words.end() - static_cast<std::ptrdiff_t>(most), words.end());
    parts.insert(parts.begin(), {stripped(text, Value(), false, true).first, words[words.size() - most - 1].second});
    return parts;
  }
  parts.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(most));
  parts.emplace_back(words[most].first, text.size());
  return parts;
}
template <bool kFromRight>
Maybe<Value> text_split(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  const bool by_spaces = bound[0].is_undefined() || bound[0].is_none();
  if (!by_spaces && (!bound[0].is_text() || bound[0].bytes().empty())) return machine.fail("split: empty separator");
  const std::size_t most =
      bound[1].is_whole() && bound[1].as_whole() >= 0 ? static_cast<std::size_t>(bound[1].as_whole()) : SIZE_MAX;
  WEFT_CHECK(machine.charge(self.bytes().size() / Machine::kBytesAStep));
  std::vector<Value> parts;
  for (const auto& [begin, end] : by_spaces ? split_at_spaces(self.bytes(), most, kFromRight)
                                            : split_at(self.bytes(), bound[0].bytes(), most, kFromRight)) {
    WEFT_TRY(const Value part, cut_out(machine, self, begin, end));
    parts.push_back(part);
  }
  return machine.list(std::move(parts));
}
Maybe<Value> text_splitlines(Machine& machine, const Value& self, const Bound&, const Arguments&) {
  std::vector<Value> lines;
  for (const auto& [begin, end] : lines_of(self.bytes())) {
    WEFT_TRY(const Value line, cut_out(machine, self, begin, end));
    lines.push_back(line);
  }
  return machine.list(std::move(lines));
}
Maybe<Value> text_join(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  WEFT_TRY(const std::vector<Value> items, machine.items_of(bound[0]));
  Text made;
  for (std::size_t i = 0; i < items.size() && made.bytes.size() <= kMostText; ++i) {
    if (!items[i].is_text()) return machine.fail({"join takes texts, not ", type_name(items[i])});
    if (i > 0) made.add(*self.text);
    made.add(*items[i].text);
  }
  return machine.keep(std::move(made));
}
/// "{}".format(...): fields by order, number or name, without format specifications.
Maybe<Value> text_format(Machine& machine, const Value& self, const Bound&, const Arguments& all) {
  const std::string_view bytes = self.bytes();
  Text made;
  std::size_t next = 0;
  for (std::size_t at = 0; at < bytes.size() && made.bytes.size() <= kMostText;) {
    const char c = bytes[at];
    if ((c == '{' || c == '}') && at + 1 < bytes.size() && bytes[at + 1] == c) {
      made.add(*self.text, at, at + 1);
      at += 2;
      continue;
    }
    if (c != '{') {
      if (c == '}') return machine.fail("format: a single '}'");
      made.add(*self.text, at, at + 1);
      ++at;
      continue;
    }
    const std::size_t end = bytes.find('}', at);
    if (end == bytes.npos) return machine.fail("format: '{' without '}'");
    const std::string_view field = bytes.substr(at + 1, end - at - 1);
    at = end + 1;
    std::size_t index = next;
    bool is_numbered = field.empty();
    if (is_numbered) {
      ++next;
    } else {
      const auto read = std::from_chars(field.data(), field.data() + field.size(), index);
      is_numbered = read.ec == std::errc{} && read.ptr == field.data() + field.size();
    }
    const Value* found = is_numbered && index < all.values.size() ? &all.values[index] : nullptr;
    for (const auto& [name, value] : all.named)
      if (name == field) found = &value;
    if (!found) return machine.fail({"format: field '{", field, "}' is not known, or has no value"});
    add_string(made, *found);
  }
  return machine.keep(std::move(made));
}

Maybe<Value> list_append(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  WEFT_CHECK(machine.charge());
  self.list->items.push_back(bound[0]);
  return Value::none();
}
Maybe<Value> list_pop(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  auto& items = self.list->items;
  const auto count = static_cast<std::int64_t>(items.size());
  std::int64_t index = bound[0].is_whole() ? bound[0].as_whole() : -1;
  if (index < 0) index += count;
  if (index < 0 || index >= count) return machine.fail("pop: index outside the list, or an empty list");
  const Value taken = items[static_cast<std::size_t>(index)];
  items.erase(items.begin() + index);
  WEFT_CHECK(machine.charge(1 + items.size() / Machine::kBytesAStep));
  return taken;
}
Maybe<Value> list_index(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  for (std::size_t i = 0; i < self.list->items.size(); ++i) {
    WEFT_TRY(const bool equal, machine.is_equal(self.list->items[i], bound[0]));
    if (equal) return Value::of_integer(static_cast<std::int64_t>(i));
  }
  return machine.fail("index: the value is not in the list");
}
Maybe<Value> list_count(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  std::int64_t count = 0;
  for (const Value& item : self.list->items) {
    WEFT_TRY(const bool equal, machine.is_equal(item, bound[0]));
    count += equal ? 1 : 0;
  }
  return Value::of_integer(count);
}

Maybe<Value> dict_get(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  for (const auto& [key, member] : self.dict->items) {
    WEFT_TRY(const bool equal, machine.is_equal(key, bound[0]));
    if (equal) return member;
  }
  return bound[1].is_undefined() ? Value::none() : bound[1];
}
Maybe<Value> dict_pop(Machine& machine, const Value& self, const Bound& bound, const Arguments&) {
  auto& items = self.dict->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    WEFT_TRY(const bool equal, machine.is_equal(items[i].first, bound[0]));
    if (!equal) continue;
    const Value taken = items[i].second;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
    return taken;
  }
  if (bound[1].is_undefined()) return machine.fail("pop: no such key");
  return bound[1];
}
template <bool kKeys>
Maybe<Value> dict_side(Machine& machine, const Value& self, const Bound&, const Arguments&) {
  std::vector<Value> items;
  for (const auto& [key, member] : self.dict->items) items.push_back(kKeys ? key : member);
  return machine.list(std::move(items));
}
Maybe<Value> dict_items(Machine& machine, const Value& self, const Bound&, const Arguments& all) {
  return call(machine, *find_filter("items"), self, all);
}

Maybe<Value> function_raise(Machine& machine, const Value&, const Bound& bound, const Arguments&) {
  Text message;
  add_string(message, bound[0]);
  return machine.fail({"the template refuses this conversation: ", message.bytes});
}
Maybe<Value> function_range(Machine& machine, const Value&, const Bound& bound, const Arguments& all) {
  for (const Value& value : all.values)
    if (!value.is_whole()) return machine.fail("range takes whole numbers");
  const bool has_one = all.values.size() == 1;
  const std::int64_t from = has_one ? 0 : bound[0].as_whole(), to = has_one ? bound[0].as_whole() : bound[1].as_whole();
  const std::int64_t by = all.values.size() > 2 ? bound[2].as_whole() : 1;
  if (by == 0) return machine.fail("range: its step is 0");
  std::vector<Value> items;
  for (std::int64_t i = from; by > 0 ? i < to : i > to;) {
    if (items.size() == 100'000) return machine.fail("range of more than 100000 numbers", Errc::too_large);
    items.push_back(Value::of_integer(i));
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  return machine.list(std::move(items));
}
template <bool kNamespace>
Maybe<Value> function_dict(Machine& machine, const Value&, const Bound&, const Arguments& all) {
  Dict made;
  made.is_namespace = kNamespace;
  if (!all.values.empty()) {
    if (all.values.size() != 1 || all.values[0].kind != Kind::dict)
      return machine.fail("dict and namespace take one dict and names");
    made.items = all.values[0].dict->items;
  }
  for (const auto& [name, value] : all.named) {
    if (Value* const known = made.find(name)) {
      *known = value;
      continue;
    }
    WEFT_TRY(const Value key, machine.text(name));
    made.items.emplace_back(key, value);
  }
  WEFT_CHECK(machine.charge(1 + made.items.size()));
  return Value(machine.own(std::move(made)));
}
Maybe<Value> function_time(Machine& machine, const Value&, const Bound& bound, const Arguments&) {
  if (!bound[0].is_text()) return machine.fail("strftime_now takes a format");
  const std::time_t now = machine.now ? static_cast<std::time_t>(*machine.now) : std::time(nullptr);
  std::tm parts{};
  if (machine.now ? !gmtime_r(&now, &parts) : !localtime_r(&now, &parts)) return machine.fail("the clock has no date");
  const std::string format = std::string(bound[0].bytes()) + " ";  // never empty, so that 0 means no room
  std::string made(1024, '\0');
  const std::size_t size = format.size() > 256 ? 0 : std::strftime(made.data(), made.size(), format.c_str(), &parts);
  if (size == 0) return machine.fail("strftime_now: its format is too long", Errc::too_large);
  return machine.text(std::string_view(made).substr(0, size - 1));
}

constexpr Routine kTextMethods[] = {
    {"strip", text_strip<true, true>, 0, {"chars"}},
    {"lstrip", text_strip<true, false>, 0, {"chars"}},
    {"rstrip", text_strip<false, true>, 0, {"chars"}},
    {"split", text_split<false>, 0, {"sep", "maxsplit"}},
    {"rsplit", text_split<true>, 0, {"sep", "maxsplit"}},
    {"splitlines", text_splitlines},
    {"startswith", text_has_end<true>, 1, {"prefix"}},
    {"endswith", text_has_end<false>, 1, {"suffix"}},
    {"replace", text_replace, 2, {"old", "new", "count"}},
    {"upper", text_case<Casing::upper>},
    {"lower", text_case<Casing::lower>},
    {"title", text_case<Casing::title>},
    {"capitalize", text_case<Casing::capitalized>},
    {"find", text_find, 1, {"sub"}},
    {"count", text_count, 1, {"sub"}},
    {"join", text_join, 1, {"iterable"}},
    {"format", text_format, 0, {}, true},
};
constexpr Routine kListMethods[] = {
    {"append", list_append, 1, {"object"}},
    {"pop", list_pop, 0, {"index"}},
    {"index", list_index, 1, {"value"}},
    {"count", list_count, 1, {"value"}},
};
constexpr Routine kDictMethods[] = {
    {"get", dict_get, 1, {"key", "default"}},
    {"items", dict_items},
    {"keys", dict_side<true>},
    {"values", dict_side<false>},
    {"pop", dict_pop, 1, {"key", "default"}},
};
constexpr Routine kFunctions[] = {
    {"raise_exception", function_raise, 1, {"message"}},     {"strftime_now", function_time, 1, {"format"}},
    {"range", function_range, 1, {"start", "stop", "step"}}, {"dict", function_dict<false>, 0, {}, true},
    {"namespace", function_dict<true>, 0, {}, true},
};

template <std::size_t kSize>
const Routine* find_in(const Routine (&rows)[kSize], std::string_view name) noexcept {
  const auto found =
      std::find_if(std::begin(rows), std::end(rows), [&](const Routine& row) { return row.name == name; });
  return found == std::end(rows) ? nullptr : found;
}

}  // namespace

const Routine* find_function(std::string_view name) noexcept { return find_in(kFunctions, name); }

const Routine* find_method(const Value& self, std::string_view name) noexcept {
  if (self.is_text()) return find_in(kTextMethods, name);
  if (self.kind == Kind::list) return find_in(kListMethods, name);
  if (self.kind == Kind::dict && !self.dict->is_namespace) return find_in(kDictMethods, name);
  return nullptr;
}

}  // namespace weft::text::jinja
