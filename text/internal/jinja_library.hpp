// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/internal/jinja_machine.hpp"
#include "text/internal/jinja_tree.hpp"

namespace weft::text::jinja {

/// Rows of the tables; null where there is none.
const Routine* find_filter(std::string_view name) noexcept;
const Routine* find_sequence_filter(std::string_view name) noexcept;  // those of find_filter that take sequences
const Routine* find_test(std::string_view name) noexcept;
const Routine* find_function(std::string_view name) noexcept;
const Routine* find_method(const Value& self, std::string_view name) noexcept;

/// value.name and value[key], as Jinja looks them up: undefined where there is none.
/// @error invalid_argument: a value that is undefined itself
Maybe<Value> attribute_of(Machine& machine, const Value& value, const std::string& name);
Maybe<Value> item_of(Machine& machine, const Value& value, const Value& key);
/// value[from:to:step]; none: not given.
Maybe<Value> slice_of(Machine& machine, const Value& value, const Value& from, const Value& to, const Value& step);

/// a + b and its like, as Python computes. @error invalid_argument: values that Python does not; too_large: 64 bits
Maybe<Value> compute(Machine& machine, Operation operation, const Value& a, const Value& b);
/// a < b and its like. @error as Machine::order
Maybe<bool> compare(Machine& machine, Operation operation, const Value& a, const Value& b);
/// member in value: a part of a text, an item of a list, a key. @error invalid_argument: a value that holds nothing
Maybe<bool> contains(Machine& machine, const Value& value, const Value& member);

/// json.dumps, of the options of transformers' filter tojson.
struct JsonStyle {
  bool ascii = false, sorts = false;
  std::optional<std::string> indent{};
  std::string between = ", ", after_key = ": ";
};
Maybe<void> add_json(Machine& machine, Text& to, const Value& value, const JsonStyle& style, std::size_t depth = 0);
/// text % values, of a few conversions: s, d, f, x and %%.
Maybe<Value> format_percent(Machine& machine, const Value& format, std::span<const Value> values);

/// Bytes of a text's characters: the beginnings, and its size at the end.
std::vector<std::size_t> boundaries_of(std::string_view text);
/// Bytes [first, second) that remain without `characters` (white space where there are none) at its ends.
std::pair<std::size_t, std::size_t> stripped(std::string_view text, const Value& characters, bool left, bool right);
/// Lines as str.splitlines has them.
std::vector<std::pair<std::size_t, std::size_t>> lines_of(std::string_view text);
Maybe<Value> replace_all(Machine& machine, const Value& text, const Value& from, const Value& to, const Value& count);
Maybe<Value> cut_out(Machine& machine, const Value& text, std::size_t begin, std::size_t end);
/// str(value) as a value.
Maybe<Value> string_of(Machine& machine, const Value& value);
enum class Casing : std::uint8_t { upper, lower, capitalized, title };
Maybe<Value> in_case(Machine& machine, const Value& text, Casing casing);

}  // namespace weft::text::jinja
