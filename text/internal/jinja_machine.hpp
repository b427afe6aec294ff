// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/internal/jinja_maybe.hpp"
#include "text/internal/jinja_value.hpp"

#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::text::jinja {

/// Memory and limits of one rendering: it owns every value until the end, counts steps, and says where it stands.
class Machine {
 public:
  static constexpr std::size_t kMostSteps = 1'000'000, kBytesAStep = 64;

  Machine(std::string_view source, std::optional<std::int64_t> clock) : now(clock), source_(source) {}

  /// A failure at the place that is computed. Texts of others are shown safely and cut.
  Stopped fail(std::string_view text, Errc code = Errc::invalid_argument);
  Stopped fail(std::initializer_list<std::string_view> parts, Errc code = Errc::invalid_argument);
  /// The failure, once something has returned Stopped.
  Failure failure() { return weft::fail(std::move(*error_)); }
  /// @error too_large: more than 10^6 steps
  Maybe<void> charge(std::size_t count = 1);
  /// A text that is finished. @error too_large: more than 16 MiB, or its steps
  Maybe<Value> keep(Text made);
  Maybe<Value> text(std::string_view bytes, bool given = false);
  /// @error too_large: a step for each item
  Maybe<Value> list(std::vector<Value> items, bool is_tuple = false);
  template <class T>
  T* own(T made) {
    auto owned = std::make_unique<T>(std::move(made));
    T* const pointer = owned.get();
    objects_.push_back(std::move(owned));
    return pointer;
  }

  Maybe<bool> is_equal(const Value& a, const Value& b);
  /// a < b as `sign` says: -1, 0, 1. @error invalid_argument: values that Python does not order
  Maybe<int> order(const Value& a, const Value& b, std::string_view operation = "<");
  /// Values that Python iterates over: items, keys or characters. @error invalid_argument: a value that is not iterable
  Maybe<std::vector<Value>> items_of(const Value& value);

  std::size_t at = 0;                     // in the source
  const std::optional<std::int64_t> now;  // seconds of the clock; else the local time

 private:
  std::string_view source_;
  std::size_t steps_ = kMostSteps;
  std::vector<std::unique_ptr<Object>> objects_;
  std::optional<Error> error_;
};

struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string_view, Value>> named;
};

/// A function, filter, test or method. `run` gets the arguments by the place of their names, undefined ones where none
/// is given; of an open routine all as they came.
struct Routine {
  using Bound = std::array<Value, 5>;
  std::string_view name;
  Maybe<Value> (*run)(Machine& machine, const Value& self, const Bound& bound, const Arguments& all);
  std::size_t required = 0;
  std::array<std::string_view, 5> parameters{};
  bool is_open = false;
};

/// A function as a value: a routine with the value that it is of, or a macro.
struct Statement;
struct Scope;
struct Function : Object {
  const Routine* routine = nullptr;
  Value self;
  const Statement* macro = nullptr;
  Scope* scope = nullptr;
};

Maybe<Value> call(Machine& machine, const Routine& routine, const Value& self, const Arguments& arguments);

}  // namespace weft::text::jinja
