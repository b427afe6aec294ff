// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/expression.hpp"

#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace weft::text {

/// {"String": s}, a literal text, or {"Regex": r}.
class Pattern {
 public:
  explicit Pattern(std::string text) : text_(std::move(text)) {}
  explicit Pattern(Expression expression) : expression_(std::move(expression)) {}
  static Result<Pattern> read(const JsonValue& value);
  /// Bytes of a match, at least.
  std::size_t least() const noexcept { return text_.empty() ? 1 : text_.size(); }
  Status each_match(std::string_view text, const std::function<void(std::size_t begin, std::size_t end)>& found) const;

 private:
  std::string text_;
  std::optional<Expression> expression_;
};

}  // namespace weft::text
