// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {

class Json;

/// One element of a list in braces; it is moved from, not copied.
class JsonElement;

/// The kind of a JSON value and what it holds where it stands: a scalar, or where its text or its elements are.
class JsonScalar {
 public:
  bool is_null() const noexcept { return kind_ == Kind::null; }
  bool is_bool() const noexcept { return kind_ == Kind::boolean; }
  bool is_number() const noexcept { return is_integer() || is_real(); }
  /// A number without fraction or exponent; `is_natural`: one that is not negative, as parsed.
  bool is_integer() const noexcept { return kind_ == Kind::integer || kind_ == Kind::natural; }
  bool is_natural() const noexcept { return kind_ == Kind::natural; }
  bool is_real() const noexcept { return kind_ == Kind::real; }
  bool is_string() const noexcept { return kind_ == Kind::text; }
  bool is_array() const noexcept { return kind_ == Kind::array; }
  bool is_object() const noexcept { return kind_ == Kind::object; }

 protected:
  enum class Kind : std::uint8_t { null, boolean, integer, natural, real, text, array, object };
  struct Members;

  JsonScalar() noexcept : kind_(Kind::null), integer_(0) {}
  /// Conversions as static_cast does them. Asked for another kind than there is: a bug of ours, which ends the program.
  double as_double() const;
  std::int64_t as_integer() const;
  std::uint64_t as_natural() const;
  bool as_bool() const;
  const char* kind_name() const noexcept;

  Kind kind_;
  std::uint32_t order_ = 0;  // among its parent's members; stays where it is when a value is assigned
  union {
    bool boolean_;
    std::int64_t integer_;
    std::uint64_t natural_;
    double real_;
    std::string* text_;
    std::vector<Json>* array_;
    Members* members_;
  };
};

/// A JSON value. Its library (nlohmann/json) is seen by json.cpp alone: it took compilers 2 to 4 s a file.
///   Json row{{"name", "q"}, {"shape", {8, 64}}};     // pairs of a text and a value: an object; else an array
///   row["bytes"] = 512;
///   row["shape"][0].get<std::size_t>();
/// Objects are sorted by key, and remember the order in which keys came for those who print them.
/// A getter asked for another kind than there is, is our bug: look at the kind of what comes from elsewhere first, or
/// read it with JsonReader.
/// @thread as std::vector
class Json : public JsonScalar {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  Json() noexcept = default;
  Json(std::nullptr_t) noexcept : Json() {}
  template <std::same_as<bool> T>
  Json(T value) noexcept {
    kind_ = Kind::boolean, boolean_ = value;
  }
  template <std::signed_integral T>
  Json(T value) noexcept {
    kind_ = Kind::integer, integer_ = value;
  }
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Json(T value)
  noexcept { kind_ = Kind::natural, natural_ = value; }
  template <std::floating_point T>
  Json(T value) noexcept {
    kind_ = Kind::real, real_ = value;
  }
  Json(std::string text);
  Json(std::string_view text) : Json(std::string(text)) {}
  Json(const char* text) : Json(std::string(text)) {}
  Json(Array elements);
  template <class T>
  requires std::constructible_from<Json, const T&> Json(const std::vector<T>& elements)
      : Json(Array(elements.begin(), elements.end())) {}
  template <class T, std::size_t kSize>
  requires std::constructible_from<Json, const T&> Json(const std::array<T, kSize>& elements)
      : Json(Array(elements.begin(), elements.end())) {}
  Json(std::initializer_list<JsonElement> elements);
  static Json array(std::initializer_list<JsonElement> elements = {});
  static Json object();

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  /// A bool, a number (converted as static_cast does), a std::string, or a std::vector of these.
  template <class T>
  T get() const;
  /// As `get`, where what is wanted is plain: `std::string name = row["name"]`.
  template <class T>
  requires(std::is_arithmetic_v<T> || std::same_as<T, std::string>) operator T() const { return get<T>(); }
  const std::string& text() const;
  /// The member's value, or `fallback` where there is no such member.
  template <class T>
  T get_or(std::string_view key, T fallback) const {
    const Json* const found = find(key);
    return found ? found->get<T>() : fallback;
  }

  /// Elements or members; of a scalar 0.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }

  /// A member, null where there is none; the plain form makes it (and makes null an object).
  Json& operator[](std::string_view key);
  const Json& operator[](std::string_view key) const noexcept;
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  const Json& operator[](const char* key) const noexcept { return (*this)[std::string_view(key)]; }
  /// The member, or nothing where there is none or this is no object.
  Json* find(std::string_view key) noexcept;
  const Json* find(std::string_view key) const noexcept;
  bool contains(std::string_view key) const noexcept { return find(key) != nullptr; }
  void erase(std::string_view key);
  /// Sets the members of another object.
  void update(const Json& other);
  /// Members sorted by key; of what is no object none.
  const Object& members() const noexcept;
  /// Members in the order in which their keys came.
  std::vector<const Object::value_type*> members_as_set() const;

  template <std::integral T>
  Json& operator[](T index) {
    return element(static_cast<std::size_t>(index));
  }
  template <std::integral T>
  const Json& operator[](T index) const {
    return element(static_cast<std::size_t>(index));
  }
  /// Makes null an array. Returns the new element.
  Json& push_back(Json value);
  const Json& front() const { return element(0); }
  const Json& back() const { return element(size() - 1); }
  Json& back() { return element(size() - 1); }
  /// The elements; of what is no array none.
  Json* begin() noexcept;
  Json* end() noexcept;
  const Json* begin() const noexcept;
  const Json* end() const noexcept;

  /// Members in any order; 1 == 1.0, as numbers are.
  friend bool operator==(const Json& a, const Json& b) noexcept;
  template <class T>
  requires std::is_arithmetic_v<T>
  friend bool operator==(const Json& a, T b) noexcept { return a == Json(b); }

  enum class Order { sorted, as_set };
  /// The text on one line. What is not UTF-8 becomes a replacement character, what is not finite null; write_json
  /// refuses both.
  std::string dump(Order order = Order::sorted) const;

 private:
  void clear() noexcept;
  void copy(const Json& other);
  void take(Json& other) noexcept;
  Json& element(std::size_t index);
  const Json& element(std::size_t index) const;
};

class JsonElement {
 public:
  template <class T>
  requires std::constructible_from<Json, T&&> JsonElement(T&& value) : value_(std::forward<T>(value)) {}
  JsonElement(std::initializer_list<JsonElement> elements) : value_(elements) {}

 private:
  friend class Json;
  mutable Json value_;
};

template <class T>
T Json::get() const {
  if constexpr (std::same_as<T, bool>)
    return as_bool();
  else if constexpr (std::floating_point<T>)
    return static_cast<T>(as_double());
  else if constexpr (std::unsigned_integral<T>)
    return static_cast<T>(as_natural());
  else if constexpr (std::signed_integral<T>)
    return static_cast<T>(as_integer());
  else if constexpr (std::same_as<T, std::string>)
    return text();
  else {
    T elements;
    for (const Json& value : *this) elements.push_back(value.get<typename T::value_type>());
    return elements;
  }
}

/// Limits of parse_json and write_json. A value counts each scalar, array and object once.
struct JsonLimits {
  std::size_t max_bytes = std::size_t{16} << 20;
  std::size_t max_depth = 64;
  std::size_t max_values = std::size_t{1} << 22;
};

/// Reads one JSON text strictly (RFC 8259): no comments, no byte order mark, no NUL, nothing after the value.
/// Error texts begin with "source:line:column: ", both from 1, columns counted in code points.
/// @error  parse_failed: not JSON, invalid UTF-8, a number outside its type; duplicate_name: a key given twice;
///         too_large: a limit passed (depth is checked while reading, so no depth can exhaust the stack)
/// @thread any
Result<Json> parse_json(std::string_view text, std::string_view source_name, const JsonLimits& limits = {});

/// The text of a value: keys sorted, so that one value has one text; it reads back equal. indent < 0: one line.
/// @error invalid_argument: a number that is not finite, a string that is not UTF-8;
///        too_large: a limit passed
Result<std::string> write_json(const Json& value, int indent = -1, const JsonLimits& limits = {});

/// Checks a value's depth, number of values and numbers as write_json does, without recursion. To be called
/// before a value from elsewhere is copied or compared, which recurses.
/// @error as write_json, save for strings
Status check_json(const Json& value, const JsonLimits& limits = {});

}  // namespace weft
