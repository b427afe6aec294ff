// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::text::jinja {

/// Anything that a Machine owns until a template is rendered: values refer to each other freely, in cycles too.
struct Object {
  virtual ~Object() = default;
};

/// A text, and of each byte whether it was given by the user (1) or is the template's own (0).
struct Text : Object {
  Text() = default;
  explicit Text(std::string_view own) : bytes(own) {}
  std::string bytes;
  std::string marks;  // empty: all the template's own; else as long as `bytes`

  bool is_given() const noexcept { return !marks.empty(); }
  void add(std::string_view more, bool given = false);
  void add(const Text& more) { add(more, 0, more.bytes.size()); }
  void add(const Text& more, std::size_t begin, std::size_t end);
};

struct List;
struct Dict;
struct Function;
struct Loop;

enum class Kind : std::uint8_t { undefined, none, boolean, integer, real, text, list, dict, function, loop };

/// A value of a template, as Python has them.
struct Value {
  Kind kind = Kind::undefined;
  union {
    bool boolean;
    std::int64_t integer;
    double real;
    const std::string* name = nullptr;  // of an undefined one, for messages
    const Text* text;
    List* list;
    Dict* dict;
    const Function* function;
    const Loop* loop;
  };

  Value() = default;
  explicit Value(const Text* of) : kind(Kind::text), text(of) {}
  explicit Value(List* of) : kind(Kind::list), list(of) {}
  explicit Value(Dict* of) : kind(Kind::dict), dict(of) {}
  explicit Value(const Function* of) : kind(Kind::function), function(of) {}
  explicit Value(const Loop* of) : kind(Kind::loop), loop(of) {}
  static Value none() noexcept { return of(Kind::none); }
  static Value undefined(const std::string& name) noexcept {
    Value made;
    made.name = &name;
    return made;
  }
  static Value of_bool(bool value) noexcept {
    Value made = of(Kind::boolean);
    made.boolean = value;
    return made;
  }
  static Value of_integer(std::int64_t value) noexcept {
    Value made = of(Kind::integer);
    made.integer = value;
    return made;
  }
  static Value of_real(double value) noexcept {
    Value made = of(Kind::real);
    made.real = value;
    return made;
  }

  bool is_undefined() const noexcept { return kind == Kind::undefined; }
  bool is_none() const noexcept { return kind == Kind::none; }
  bool is_text() const noexcept { return kind == Kind::text; }
  /// A whole number; true and false are 1 and 0, as in Python.
  bool is_whole() const noexcept { return kind == Kind::integer || kind == Kind::boolean; }
  bool is_number() const noexcept { return is_whole() || kind == Kind::real; }
  std::int64_t as_whole() const noexcept { return kind == Kind::boolean ? (boolean ? 1 : 0) : integer; }
  double as_real() const noexcept { return kind == Kind::real ? real : static_cast<double>(as_whole()); }
  std::string_view bytes() const noexcept { return text->bytes; }

 private:
  static Value of(Kind kind) noexcept {
    Value made;
    made.kind = kind;
    return made;
  }
};

struct List : Object {
  std::vector<Value> items;
  bool is_tuple = false;
};

/// Members in the order in which they came.
struct Dict : Object {
  std::vector<std::pair<Value, Value>> items;
  bool is_namespace = false;

  Value* find(std::string_view key) noexcept;
};

/// Position of a loop.
struct Loop : Object {
  const std::vector<Value>* items = nullptr;
  std::size_t index = 0;
};

/// Python's name of a value's type.
std::string_view type_name(const Value& value) noexcept;
bool is_true(const Value& value) noexcept;
/// Python's spelling of a float.
std::string spelled(double value);
/// str(value), and repr(value) as texts have it within lists. Deeper than 100 levels it ends in "..."; it stops where
/// `to` has more than kMostText bytes.
constexpr std::size_t kMostText = std::size_t{16} << 20;
void add_string(Text& to, const Value& value);
void add_repr(Text& to, const Value& value, std::size_t depth = 0);

/// a == b, and -1, 0 or 1 as a < b, a == b, a > b; 2 where Python has no order of the two, 3 where a number is NaN.
/// Each value that is looked at takes a step from `steps`; at 0, or deeper than 100 levels, they are different.
bool is_equal(const Value& a, const Value& b, std::size_t& steps, std::size_t depth = 0) noexcept;
int order_of(const Value& a, const Value& b, std::size_t& steps, std::size_t depth = 0) noexcept;

}  // namespace weft::text::jinja
