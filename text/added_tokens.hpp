// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/trie.hpp"
#include "text/vocabulary.hpp"

#include "core/result.hpp"

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

/// A token that is found in the text as it is, before any model sees it.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool single_word = false;             ///< not beside a word character
  bool lstrip = false, rstrip = false;  ///< takes white space before it, after it
  bool normalized = true;               ///< searched in normalized text
  bool special = false;                 ///< left out when text is decoded without special tokens
};

/// A set of texts to search for: at each place the longest, from left to right, without overlap.
/// @thread any: immutable after the last `add`
class AddedTokens {
 public:
  static constexpr std::size_t kMaxContent = 4096;
  /// @error invalid_argument: no content; too_large: more than 4096 bytes; duplicate_name
  Status add(const AddedToken& token);
  bool empty() const noexcept { return tokens_.empty(); }

  /// A match, white space that it takes included.
  struct Match {
    std::size_t begin, end;
    TokenId id;
    bool special;
    std::size_t content_begin, content_end;
  };
  /// Tokens that are special are passed over where `finds_special` is false.
  std::vector<Match> find(std::string_view text, bool finds_special) const;

 private:
  /// The longest token at `at`, or nothing.
  const AddedToken* longest_at(std::string_view text, std::size_t at, bool finds_special) const;

  std::vector<AddedToken> tokens_;
  Trie contents_;                // of tokens_, by their place
  std::bitset<256> beginnings_;  // first bytes of contents
};

}  // namespace weft::text
