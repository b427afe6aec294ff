// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_value.hpp"

#include "text/unicode.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace weft::text::jinja {
namespace {

constexpr std::size_t kMostDepth = 100;

void add_code(std::string& to, char letter, unsigned code, int digits) {
  to += '\\';
  to += letter;
  for (int i = digits - 1; i >= 0; --i) to += "0123456789abcdef"[code >> (4 * i) & 15];
}

/// repr() of a text: quotes as Python chooses them, escapes for what does not print.
void add_quoted(Text& to, const Text& text) {
  const std::string_view bytes = text.bytes;
  const char quote = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos ? '"' : '\'';
  std::string made(1, quote);
  for (std::size_t at = 0; at < bytes.size();) {
    const char32_t c = next_code_point(bytes, at);
    if (c == static_cast<unsigned char>(quote) || c == '\\')
      made += '\\', made += static_cast<char>(c);
    else if (c == '\n')
      made += "\\n";
    else if (c == '\r')
      made += "\\r";
    else if (c == '\t')
      made += "\\t";
    else if (c == ' ' || !(is_other(c) || is_white_space(c)))
      append_utf8(made, c);
    else if (c < 0x100)
      add_code(made, 'x', c, 2);
    else if (c < 0x10000)
      add_code(made, 'u', c, 4);
    else
      add_code(made, 'U', c, 8);
  }
  made += quote;
  to.add(made, text.is_given());
}

void add_list(Text& to, const List& list, std::size_t depth) {
  to.add(list.is_tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) to.add(", ");
    add_repr(to, list.items[i], depth + 1);
  }
  if (list.is_tuple && list.items.size() == 1) to.add(",");
  to.add(list.is_tuple ? ")" : "]");
}

void add_dict(Text& to, const Dict& dict, std::size_t depth) {
  to.add(dict.is_namespace ? "<Namespace {" : "{");
  for (std::size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) to.add(", ");
    add_repr(to, dict.items[i].first, depth + 1);
    to.add(": ");
    add_repr(to, dict.items[i].second, depth + 1);
  }
  to.add(dict.is_namespace ? "}>" : "}");
}

}  // namespace

void Text::add(std::string_view more, bool given) {
  const bool is_marked = given || is_given();
  if (is_marked) marks.resize(bytes.size(), 0);
  bytes += more;
  if (is_marked) marks.resize(bytes.size(), given ? 1 : 0);
}

void Text::add(const Text& more, std::size_t begin, std::size_t end) {
  const bool is_marked = more.is_given() || is_given();
  if (is_marked) marks.resize(bytes.size(), 0);
  bytes.append(more.bytes, begin, end - begin);
  if (more.is_given()) marks.append(more.marks, begin, end - begin);
  if (is_marked) marks.resize(bytes.size(), 0);
}

Value* Dict::find(std::string_view key) noexcept {
  const auto found = std::find_if(items.begin(), items.end(),
                                  [&](const auto& item) { return item.first.is_text() && item.first.bytes() == key; });
  return found == items.end() ? nullptr : &found->second;
}

std::string_view type_name(const Value& value) noexcept {
  constexpr std::array<std::string_view, 10> kNames{"Undefined", "NoneType", "bool", "int",      "float",
                                                    "str",       "list",     "dict", "function", "LoopContext"};
  if (value.kind == Kind::list && value.list->is_tuple) return "tuple";
  if (value.kind == Kind::dict && value.dict->is_namespace) return "Namespace";
  return kNames[static_cast<std::size_t>(value.kind)];
}

bool is_true(const Value& value) noexcept {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean;
    case Kind::integer:
      return value.integer != 0;
    case Kind::real:
      return value.real != 0;
    case Kind::text:
      return !value.text->bytes.empty();
    case Kind::list:
      return !value.list->items.empty();
    case Kind::dict:
      return value.dict->is_namespace || !value.dict->items.empty();
    default:
      return true;
  }
}

std::string spelled(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::scientific);
  std::string text(digits.data(), end.ptr);
  const std::size_t at = text.find('e');
  const int exponent = std::atoi(text.c_str() + at + 1);
  if (exponent < -4 || exponent >= 16) return text;
  const auto plain = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  text.assign(digits.data(), plain.ptr);
  return text.find('.') == text.npos ? text + ".0" : text;
}

void add_string(Text& to, const Value& value) {
  if (value.is_text()) return to.add(*value.text);
  if (!value.is_undefined()) add_repr(to, value);
}

void add_repr(Text& to, const Value& value, std::size_t depth) {
  if (depth > kMostDepth || to.bytes.size() > kMostText) return to.add("...");
  switch (value.kind) {
    case Kind::undefined:
      return to.add("Undefined");
    case Kind::none:
      return to.add("None");
    case Kind::boolean:
      return to.add(value.boolean ? "True" : "False");
    case Kind::integer:
      return to.add(std::to_string(value.integer));
    case Kind::real:
      return to.add(spelled(value.real));
    case Kind::text:
      return add_quoted(to, *value.text);
    case Kind::list:
      return add_list(to, *value.list, depth);
    case Kind::dict:
      return add_dict(to, *value.dict, depth);
    case Kind::function:
      return to.add("<function>");
    case Kind::loop:
      return to.add("<LoopContext>");
  }
}

bool is_equal(const Value& a, const Value& b, std::size_t& steps, std::size_t depth) noexcept {
  if (steps == 0 || depth > kMostDepth) return false;
  --steps;
  if (a.is_number() && b.is_number())
    return a.is_whole() && b.is_whole() ? a.as_whole() == b.as_whole() : a.as_real() == b.as_real();
  if (a.kind != b.kind) return false;
  const auto equal = [&](const Value& x, const Value& y) { return is_equal(x, y, steps, depth + 1); };
  switch (a.kind) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::text:
      return a.bytes() == b.bytes();
    case Kind::list: {
      const auto &x = a.list->items, &y = b.list->items;
      return a.list == b.list ||
             (a.list->is_tuple == b.list->is_tuple && std::equal(x.begin(), x.end(), y.begin(), y.end(), equal));
    }
    case Kind::dict: {
      const auto &x = a.dict->items, &y = b.dict->items;
      if (a.dict == b.dict) return true;
      if (a.dict->is_namespace || b.dict->is_namespace || x.size() != y.size()) return false;
      return std::all_of(x.begin(), x.end(), [&](const auto& mine) {
        return std::any_of(y.begin(), y.end(), [&](const auto& other) {
          return equal(mine.first, other.first) && equal(mine.second, other.second);
        });
      });
    }
    case Kind::function:
      return a.function == b.function;
    default:
      return a.loop == b.loop;
  }
}

int order_of(const Value& a, const Value& b, std::size_t& steps, std::size_t depth) noexcept {
  if (steps == 0 || depth > kMostDepth) return 2;
  --steps;
  const auto compare = [](auto x, auto y) { return x < y ? -1 : y < x ? 1 : x == y ? 0 : 3; };
  if (a.is_whole() && b.is_whole()) return compare(a.as_whole(), b.as_whole());
  if (a.is_number() && b.is_number()) return compare(a.as_real(), b.as_real());
  if (a.is_text() && b.is_text()) return compare(a.bytes(), b.bytes());
  if (a.kind != Kind::list || b.kind != Kind::list || a.list->is_tuple != b.list->is_tuple) return 2;
  const auto &x = a.list->items, &y = b.list->items;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (!is_equal(x[i], y[i], steps, depth + 1)) return order_of(x[i], y[i], steps, depth + 1);
  return compare(x.size(), y.size());
}

}  // namespace weft::text::jinja
