// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/tokenizer.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::text {

/// Text of tokens as they come: whole characters only, and nothing of what may become a stop string.
class TokenStream {
 public:
  /// `prompt`: the tokens before; their text is not given.
  TokenStream(const Tokenizer& tokenizer, std::vector<TokenId> prompt, std::vector<std::string> stops = {});

  /// The text that is certain after one more token.
  std::string push(TokenId id);
  /// The rest at the end.
  std::string finish();
  /// True once a stop string has been made. The text ends before it.
  bool is_stopped() const noexcept { return is_stopped_; }

 private:
  std::string new_text(bool is_last);
  std::string release(bool is_last);

  const Tokenizer& tokenizer_;
  std::vector<TokenId> ids_;
  std::size_t given_ = 0, from_ = 0;  // ids whose text was made; ids before those that are decoded with it
  std::vector<std::string> stops_;
  std::string held_;
  bool is_stopped_ = false;
};

}  // namespace weft::text
