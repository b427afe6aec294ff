// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_library.hpp"
#include "text/unicode.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

// Filters of one value. Those of sequences are in jinja_sequences.cpp.
namespace weft::text::jinja {
namespace {

using Bound = Routine::Bound;

Maybe<Value> filter_default(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  if (!value.is_undefined() && (is_true(value) || !is_true(bound[1]))) return value;
  if (bound[0].is_undefined()) return machine.text("");
  return bound[0];
}
Maybe<Value> filter_string(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  return string_of(machine, value);
}
Maybe<Value> filter_trim(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  WEFT_TRY(const Value text, string_of(machine, value));
  const auto [begin, end] = stripped(text.bytes(), bound[0], true, true);
  return cut_out(machine, text, begin, end);
}
template <Casing kCasing>
Maybe<Value> filter_case(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  WEFT_TRY(const Value text, string_of(machine, value));
  return in_case(machine, text, kCasing);
}
/// Words begin after white space, - and opening brackets, as Jinja's filter has it; not as str.title.
Maybe<Value> filter_title(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  WEFT_TRY(const Value text, string_of(machine, value));
  const std::string_view bytes = text.bytes();
  Text made;
  const auto ends_word = [](char c) { return std::string_view("- \t\n\r\f\v({[<").find(c) != std::string_view::npos; };
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t end = at;
    while (end < bytes.size() && !ends_word(bytes[end])) ++end;
    made.add(title_case(bytes.substr(at, end - at)), text.text->is_given());
    for (at = end; at < bytes.size() && ends_word(bytes[at]); ++at) made.add(*text.text, at, at + 1);
  }
  return machine.keep(std::move(made));
}
Maybe<Value> filter_replace(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  WEFT_TRY(const Value text, string_of(machine, value));
  WEFT_TRY(const Value from, string_of(machine, bound[0]));
  WEFT_TRY(const Value to, string_of(machine, bound[1]));
  return replace_all(machine, text, from, to, bound[2]);
}
Maybe<Value> filter_indent(Machine& machine, const Value& text, const Bound& bound, const Arguments&) {
  if (!text.is_text()) return machine.fail({"indent of a value of type ", type_name(text)});
  Text before;
  if (bound[0].is_text())
    before = *bound[0].text;
  else if (bound[0].is_undefined() || bound[0].is_whole())
    before.add(std::string(
        static_cast<std::size_t>(std::clamp<std::int64_t>(bound[0].is_undefined() ? 4 : bound[0].as_whole(), 0, 4096)),
        ' '));
  else
    return machine.fail("indent: width is no integer and no text");
  const bool first = is_true(bound[1]), blank = is_true(bound[2]);
  // A text that ends a line has an empty one behind it.
  Text whole = *text.text;
  whole.add("\n");
  const auto lines = lines_of(whole.bytes);
  WEFT_CHECK(machine.charge(lines.size()));
  Text made;
  if (first) made.add(before);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) made.add("\n");
    if (i > 0 && (blank || lines[i].second > lines[i].first)) made.add(before);
    made.add(whole, lines[i].first, lines[i].second);
    if (made.bytes.size() > kMostText) break;
  }
  return machine.keep(std::move(made));
}
Maybe<Value> filter_escape(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  WEFT_TRY(const Value text, string_of(machine, value));
  Text made;
  for (std::size_t at = 0; at < text.bytes().size(); ++at) {
    constexpr std::string_view kSigns = "&<>\"'";
    constexpr std::array<std::string_view, 5> kNames{"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    const std::size_t sign = kSigns.find(text.bytes()[at]);
    if (sign == kSigns.npos)
      made.add(*text.text, at, at + 1);
    else
      made.add(kNames[sign], text.text->is_given());
  }
  return machine.keep(std::move(made));
}
Maybe<Value> filter_tojson(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  JsonStyle style;
  style.ascii = is_true(bound[0]);
  style.sorts = is_true(bound[3]);
  if (bound[1].is_whole())
    style.indent = std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(bound[1].as_whole(), 0, 64)), ' ');
  else if (bound[1].is_text())
    style.indent = std::string(bound[1].bytes());
  if (style.indent) style.between = ",";
  const Value& pair = bound[2];
  if (pair.kind == Kind::list) {
    const auto& items = pair.list->items;
    if (items.size() != 2 || !items[0].is_text() || !items[1].is_text())
      return machine.fail("tojson: separators are two texts");
    style.between = items[0].bytes();
    style.after_key = items[1].bytes();
  }
  Text made;
  WEFT_CHECK(add_json(machine, made, value, style));
  return machine.keep(std::move(made));
}
Maybe<Value> filter_length(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  const auto whole = [](std::size_t size) { return Value::of_integer(static_cast<std::int64_t>(size)); };
  WEFT_CHECK(machine.charge(value.is_text() ? value.bytes().size() / Machine::kBytesAStep : 0));
  if (value.is_text()) return whole(boundaries_of(value.bytes()).size() - 1);
  if (value.is_undefined()) return whole(0);
  if (value.kind == Kind::list) return whole(value.list->items.size());
  if (value.kind == Kind::dict && !value.dict->is_namespace) return whole(value.dict->items.size());
  return machine.fail({"a value of type ", type_name(value), " has no length"});
}

/// The number that a text spells, white space around it aside; nothing where it spells none.
template <class Number>
std::optional<Number> parsed(std::string_view text, int base = 10) {
  const auto [begin, end] = stripped(text, Value(), true, true);
  std::string digits(text.substr(begin, end - begin));
  if (digits.starts_with('+')) digits.erase(0, 1);
  Number number{};
  std::from_chars_result done{};
  if constexpr (std::is_integral_v<Number>)
    done = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  else
    done = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (done.ec != std::errc{} || done.ptr != digits.data() + digits.size()) return std::nullopt;
  return number;
}

Maybe<Value> filter_int(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  const Value fallback = bound[0].is_undefined() ? Value::of_integer(0) : bound[0];
  if (value.is_whole()) return Value::of_integer(value.as_whole());
  double real = 0;
  if (value.is_text()) {
    const int base = bound[1].is_whole() ? static_cast<int>(std::clamp<std::int64_t>(bound[1].as_whole(), 2, 36)) : 10;
    if (const auto number = parsed<std::int64_t>(value.bytes(), base)) return Value::of_integer(*number);
    const auto number = parsed<double>(value.bytes());
    if (!number) return fallback;
    real = *number;
  } else if (value.kind == Kind::real) {
    real = value.real;
  } else {
    return fallback;
  }
  if (!std::isfinite(real)) return fallback;
  if (!(std::fabs(real) < 0x1p63)) return machine.fail("a whole number beyond 64 bits", Errc::too_large);
  return Value::of_integer(static_cast<std::int64_t>(real));
}
Maybe<Value> filter_float(Machine&, const Value& value, const Bound& bound, const Arguments&) {
  if (value.is_number()) return Value::of_real(value.as_real());
  if (value.is_text())
    if (const auto number = parsed<double>(value.bytes())) return Value::of_real(*number);
  return bound[0].is_undefined() ? Value::of_real(0) : bound[0];
}
Maybe<Value> filter_abs(Machine& machine, const Value& value, const Bound&, const Arguments&) {
  if (value.kind == Kind::real) return Value::of_real(std::fabs(value.real));
  if (!value.is_whole()) return machine.fail({"abs of a value of type ", type_name(value)});
  if (value.as_whole() == INT64_MIN) return machine.fail("a whole number beyond 64 bits", Errc::too_large);
  return Value::of_integer(std::abs(value.as_whole()));
}
Maybe<Value> filter_round(Machine& machine, const Value& value, const Bound& bound, const Arguments&) {
  if (!value.is_number()) return machine.fail({"round of a value of type ", type_name(value)});
  const std::int64_t digits = bound[0].is_whole() ? bound[0].as_whole() : 0;
  const std::string_view method = bound[1].is_text() ? bound[1].bytes() : "common";
  if (digits < 0 || digits > 300) return machine.fail("round: digits from 0 to 300", Errc::unsupported);
  if (method == "common") {
    // Decimal digits of the exact value, ties to even, as Python rounds.
    std::array<char, 700> text{};
    std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits), value.as_real());
    return value.is_whole() ? Value::of_integer(value.as_whole()) : Value::of_real(std::strtod(text.data(), nullptr));
  }
  if (method != "ceil" && method != "floor") return machine.fail("round: method is common, ceil or floor");
  double scale = 1;
  for (std::int64_t i = 0; i < digits; ++i) scale *= 10;
  const double scaled = value.as_real() * scale;
  return Value::of_real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}
Maybe<Value> filter_format(Machine& machine, const Value& value, const Bound&, const Arguments& all) {
  if (!all.named.empty()) return machine.fail("format: names are not known here", Errc::unsupported);
  WEFT_TRY(const Value text, string_of(machine, value));
  return format_percent(machine, text, all.values);
}

constexpr Routine kFilters[] = {
    {"default", filter_default, 0, {"default_value", "boolean"}},
    {"d", filter_default, 0, {"default_value", "boolean"}},
    {"string", filter_string},
    {"safe", filter_string},
    {"trim", filter_trim, 0, {"chars"}},
    {"upper", filter_case<Casing::upper>},
    {"lower", filter_case<Casing::lower>},
    {"capitalize", filter_case<Casing::capitalized>},
    {"title", filter_title},
    {"replace", filter_replace, 2, {"old", "new", "count"}},
    {"indent", filter_indent, 0, {"width", "first", "blank"}},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"tojson", filter_tojson, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"length", filter_length},
    {"count", filter_length},
    {"int", filter_int, 0, {"default", "base"}},
    {"float", filter_float, 0, {"default"}},
    {"abs", filter_abs},
    {"round", filter_round, 0, {"precision", "method"}},
    {"format", filter_format, 0, {}, true},
};

}  // namespace

const Routine* find_filter(std::string_view name) noexcept {
  const auto is_it = [&](const Routine& routine) { return routine.name == name; };
  const auto found = std::find_if(std::begin(kFilters), std::end(kFilters), is_it);
  return found == std::end(kFilters) ? find_sequence_filter(name) : found;
}

}  // namespace weft::text::jinja
