// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <utility>

namespace weft::text::jinja {

/// A failure, whose Error the Machine or the parser keeps: results stay small, and so does the code around them.
struct Stopped {};

/// A value, or Stopped: what Result is elsewhere, with its spelling.
template <class T>
class Maybe {
 public:
  Maybe(T value) : value_(std::move(value)) {}
  Maybe(Stopped) noexcept {}
  explicit operator bool() const noexcept { return value_.has_value(); }
  T& operator*() & noexcept { return *value_; }
  T&& operator*() && noexcept { return std::move(*value_); }
  Stopped error() const noexcept { return {}; }

 private:
  std::optional<T> value_;
};
template <>
class Maybe<void> {
 public:
  Maybe() noexcept = default;
  Maybe(Stopped) noexcept : is_done_(false) {}
  explicit operator bool() const noexcept { return is_done_; }
  Stopped error() const noexcept { return {}; }

 private:
  bool is_done_ = true;
};

}  // namespace weft::text::jinja

// WEFT_TRY and WEFT_CHECK pass Stopped on as they pass Errors on.
namespace weft {
constexpr text::jinja::Stopped fail(text::jinja::Stopped stopped) noexcept { return stopped; }
namespace detail {
template <class T>
T take(text::jinja::Maybe<T>&& made) {
  return *std::move(made);
}
inline void take(text::jinja::Maybe<void>&&) {}
}  // namespace detail
}  // namespace weft
