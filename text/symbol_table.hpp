// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/unicode.hpp"
#include "text/vocabulary.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

/// Tokens of one character each; those of the first code points are looked up without a hash.
/// @thread any: immutable
class SymbolTable {
 public:
  explicit SymbolTable(const Vocabulary& vocabulary) {
    std::string text;
    for (char32_t c = 0; c < kFirst; ++c) {
      text.clear();
      append_utf8(text, c);
      ids_.push_back(vocabulary.find(text).value_or(kMaxTokenId + 1));
    }
  }
  /// The token of `c`, which is spelled `symbol`.
  std::optional<TokenId> find(const Vocabulary& vocabulary, char32_t c, std::string_view symbol) const {
    if (c >= kFirst) return vocabulary.find(symbol);
    return ids_[c] <= kMaxTokenId ? std::optional(ids_[c]) : std::nullopt;
  }

 private:
  static constexpr char32_t kFirst = 0x3000;  // letters of most scripts, of bytes, and U+2581
  std::vector<TokenId> ids_;
};

}  // namespace weft::text
