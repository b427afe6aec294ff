// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::models {

/// Things that are wrong with a model, all of them, so that they are told at once.
class Problems {
 public:
  void add(std::string text) { texts_.push_back(std::move(text)); }
  bool empty() const noexcept { return texts_.empty(); }
  const std::vector<std::string>& texts() const noexcept { return texts_; }
  /// All of them in one error, 20 at most spelled out. @pre not empty
  Failure failure(Errc code, const std::string& object) const;

 private:
  std::vector<std::string> texts_;
};

/// Keys of a model's description as Hugging Face's config.json names them. A key that is absent or null takes the
/// fallback; one of another kind or out of range is a problem, and the fallback goes on.
class ConfigReader {
 public:
  ConfigReader(const Json& config, std::string source_name) : config_(config), source_(std::move(source_name)) {}

  bool has(std::string_view key) const;
  /// True where the key is there and null.
  bool is_null(std::string_view key) const;
  /// A whole number from `least` to `most`. Without a fallback the key must be there.
  std::size_t size(std::string_view key, std::optional<std::size_t> fallback = std::nullopt,
                   std::size_t most = 16777216, std::size_t least = 1);
  /// A positive number.
  double number(std::string_view key, double fallback);
  bool flag(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string fallback);
  /// A list of positive numbers; empty where it is absent.
  std::vector<double> numbers(std::string_view key);
  /// An object, or null.
  const Json* object(std::string_view key);
  /// A list of texts; empty where it is absent.
  std::vector<std::string> texts(std::string_view key);
  /// A reader of an object inside; what it finds goes to the same list by `take`.
  ConfigReader inside(const Json& object, std::string_view key) const { return {object, path(key)}; }
  void take(const ConfigReader& other);

  /// Adds a problem with a key.
  void refuse(std::string_view key, const std::string& text) { problems_.add(path(key) + ": " + text); }
  /// The same of one that decides no tensor's name and shape.
  void refuse_value(std::string_view key, const std::string& text) {
    refuse(key, text);
    ++of_values_;
  }
  /// False where a problem leaves open which tensors there are.
  bool knows_tensors() const noexcept { return problems_.texts().size() == of_values_; }
  /// Refuses the key where its value is anything but absent, null, false or zero.
  void refuse_given(std::string_view key, const std::string& why);
  const Problems& problems() const noexcept { return problems_; }
  Problems& problems() noexcept { return problems_; }
  /// Adds a warning about a key that is read.
  void note(std::string_view key, const std::string& text) { notes_.push_back(path(key) + ": " + text); }
  const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// Keys of the object that nothing has asked for, in its order.
  std::vector<std::string> unread() const;
  /// The value of such a key, which is asked for from now on; null: it was before, or is absent or null.
  const Json* find_unread(std::string_view key) const;

 private:
  std::string path(std::string_view key) const { return source_ + "." + std::string(key); }
  /// Null where the key is absent or null.
  const Json* find(std::string_view key) const;
  void wrong(std::string_view key, const Json& found, std::string_view expected);

  const Json& config_;
  std::string source_;
  Problems problems_;
  std::vector<std::string> notes_;
  mutable std::set<std::string, std::less<>> asked_;
  std::size_t of_values_ = 0;  // problems of refuse_value
};

}  // namespace weft::models
