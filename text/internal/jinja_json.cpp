// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_library.hpp"
#include "text/unicode.hpp"

#include <algorithm>
#include <cmath>

namespace weft::text::jinja {
namespace {

void add_unit(std::string& to, std::uint32_t unit) {
  to += "\\u";
  for (int i = 12; i >= 0; i -= 4) to += "0123456789abcdef"[unit >> i & 15];
}

/// A text as json.dumps writes it.
void add_json_text(Text& to, const Text& text, bool ascii) {
  constexpr std::string_view kSigns = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
  std::string made = "\"";
  const std::string_view bytes = text.bytes;
  for (std::size_t at = 0; at < bytes.size();) {
    const char32_t c = next_code_point(bytes, at);
    const std::size_t sign = c < 0x80 ? kSigns.find(static_cast<char>(c)) : kSigns.npos;
    if (sign != kSigns.npos)
      made += '\\', made += kLetters[sign];
    else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000))
      add_unit(made, c);
    else if (ascii && c >= 0x10000)
      add_unit(made, 0xD800 + ((c - 0x10000) >> 10)), add_unit(made, 0xDC00 + ((c - 0x10000) & 0x3FF));
    else
      append_utf8(made, c);
  }
  to.add(made + '"', text.is_given());
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return spelled(value);
}

/// A key that is no text, as json.dumps spells it.
Maybe<std::string> json_key(Machine& machine, const Value& key) {
  switch (key.kind) {
    case Kind::none:
      return std::string("null");
    case Kind::boolean:
      return std::string(key.boolean ? "true" : "false");
    case Kind::integer:
      return std::to_string(key.integer);
    case Kind::real:
      return json_number(key.real);
    default:
      return machine.fail({"keys of JSON cannot be of type ", type_name(key)});
  }
}

/// Separators between two items, or around them.
void add_break(Text& to, const JsonStyle& style, std::size_t depth) {
  if (!style.indent) return;
  to.add("\n");
  for (std::size_t i = 0; i < depth; ++i) to.add(*style.indent);
}

Maybe<void> add_json_list(Machine& machine, Text& to, const List& list, const JsonStyle& style, std::size_t depth) {
  if (list.items.empty()) return to.add("[]"), Maybe<void>();
  to.add("[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) to.add(style.between);
    add_break(to, style, depth + 1);
    WEFT_CHECK(add_json(machine, to, list.items[i], style, depth + 1));
  }
  add_break(to, style, depth);
  to.add("]");
  return {};
}

Maybe<void> add_json_dict(Machine& machine, Text& to, const Dict& dict, const JsonStyle& style, std::size_t depth) {
  if (dict.items.empty()) return to.add("{}"), Maybe<void>();
  auto items = dict.items;
  if (style.sorts) {
    for (const auto& [key, value] : items)
      if (!key.is_text()) return machine.fail("keys that are sorted must be texts");
    std::stable_sort(items.begin(), items.end(),
                     [](const auto& a, const auto& b) { return a.first.bytes() < b.first.bytes(); });
  }
  to.add("{");
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) to.add(style.between);
    add_break(to, style, depth + 1);
    if (items[i].first.is_text()) {
      add_json_text(to, *items[i].first.text, style.ascii);
    } else {
      WEFT_TRY(const std::string key, json_key(machine, items[i].first));
      to.add('"' + key + '"');
    }
    to.add(style.after_key);
    WEFT_CHECK(add_json(machine, to, items[i].second, style, depth + 1));
  }
  add_break(to, style, depth);
  to.add("}");
  return {};
}

}  // namespace

Maybe<void> add_json(Machine& machine, Text& to, const Value& value, const JsonStyle& style, std::size_t depth) {
  WEFT_CHECK(machine.charge());
  if (depth > 100) return machine.fail("tojson: more than 100 levels", Errc::too_large);
  if (to.bytes.size() > kMostText) return machine.fail("a text of more than 16 MiB", Errc::too_large);
  switch (value.kind) {
    case Kind::none:
      to.add("null");
      return {};
    case Kind::boolean:
      to.add(value.boolean ? "true" : "false");
      return {};
    case Kind::integer:
      to.add(std::to_string(value.integer));
      return {};
    case Kind::real:
      to.add(json_number(value.real));
      return {};
    case Kind::text:
      add_json_text(to, *value.text, style.ascii);
      return {};
    case Kind::list:
      return add_json_list(machine, to, *value.list, style, depth);
    case Kind::dict:
      if (!value.dict->is_namespace) return add_json_dict(machine, to, *value.dict, style, depth);
      [[fallthrough]];
    default:
      return machine.fail({"a value of type ", type_name(value), " has no JSON"});
  }
}

}  // namespace weft::text::jinja
