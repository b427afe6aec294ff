// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/assert.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace weft {

/// Kind of failure of an Error; rows in core/errors.def, values are part of the C ABI.
enum class Errc : int {
#define WEFT_ERROR(name, exit_code, meaning) name,
#include "core/errors.def"
#undef WEFT_ERROR
};

/// The enumerator's spelling, such as "shape_mismatch".
std::string_view name(Errc code) noexcept;
/// The exit code of the `weft` program for this kind of failure.
int exit_code(Errc code) noexcept;

/// A failure: its kind, a text naming the object and both values, and where it was raised.
class [[nodiscard]] Error {
 public:
  Error(Errc code, std::string text, const char* file = __builtin_FILE(), int line = __builtin_LINE());

  Errc code() const noexcept { return code_; }
  const std::string& text() const noexcept { return text_; }
  const char* file() const noexcept { return file_; }
  int line() const noexcept { return line_; }

  /// The same failure seen from further out: "layers[3]: " + text.
  Error within(std::string_view context) &&;

 private:
  Errc code_;
  std::string text_;
  const char* file_;
  int line_;
};

/// Value of `return fail(code, text)`; converts to any Result. Spelled as std::unexpected is.
struct [[nodiscard]] Failure {
  Error error;
};

inline Failure fail(Errc code, std::string text, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return Failure{Error(code, std::move(text), file, line)};
}
inline Failure fail(Error error) { return Failure{std::move(error)}; }

/// A value or an Error: a strict subset of std::expected, which g++ 12 has only under -std=c++23.
///   auto r = parse(text);  if (!r) return fail(r.error());  use(*r);
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure.error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& value() & { return checked(), std::get<0>(state_); }
  const T& value() const& { return checked(), std::get<0>(state_); }
  T&& value() && { return checked(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  void checked() const { WEFT_ASSERT(has_value(), "Result read without a value: " + std::get<1>(state_).text()); }
  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Failure failure) : state_(std::move(failure.error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<std::monostate, Error> state_;
};

using Status = Result<void>;

namespace detail {
template <class T>
T take(Result<T>&& result) {
  return std::move(result).value();
}
inline void take(Result<void>&&) {}
}  // namespace detail

}  // namespace weft

#define WEFT_CONCAT_(a, b) a##b
#define WEFT_CONCAT(a, b) WEFT_CONCAT_(a, b)
#define WEFT_TRY_(result, target, ...)                         \
  auto result = (__VA_ARGS__);                                 \
  if (!result) return ::weft::fail(std::move(result).error()); \
  target = ::weft::detail::take(std::move(result))
/// `WEFT_TRY(auto header, read_header(in));` passes a failure on or binds the value. Own line, inside braces.
#define WEFT_TRY(target, ...) WEFT_TRY_(WEFT_CONCAT(weft_try_, __LINE__), target, __VA_ARGS__)
/// `WEFT_CHECK(status());` passes a failure on.
#define WEFT_CHECK(...)                                                                                      \
  do {                                                                                                       \
    if (auto weft_status = (__VA_ARGS__); !weft_status) return ::weft::fail(std::move(weft_status).error()); \
  } while (false)
