// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace weft::text {

/// A regular expression of a tokenizer file: Ruby's syntax as Oniguruma reads it, which the Rust tokenizers use, over
/// code points. Refused, by name: back references, `\b \B \G \K \R \X`, named groups, conditions, POSIX brackets, and
/// options other than (?i).
/// @thread any
class Expression {
 public:
  /// @error parse_failed: naming the pattern and the place; unsupported: what is refused; too_large: above 64 KiB
  static Result<Expression> compile(std::string_view pattern);
  /// Matches that are not empty, from left to right, each as [begin, end) in bytes.
  /// @pre `text` is UTF-8 @error too_large: a match that takes more steps or memory than one may
  Status each_match(std::string_view text, const std::function<void(std::size_t begin, std::size_t end)>& found) const;

 private:
  struct Compiled;
  explicit Expression(std::shared_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<Compiled> compiled_;
};

}  // namespace weft::text
