// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::text {

using TokenId = std::uint32_t;

/// Limits of tokenizer files.
inline constexpr std::size_t kMaxTokens = std::size_t{1} << 21, kMaxTokenSize = std::size_t{64} << 10;
inline constexpr TokenId kMaxTokenId = (TokenId{1} << 24) - 1;

/// Tokens by id and ids by token. Ids may have holes.
class Vocabulary {
 public:
  /// @error duplicate_name: a token or an id that is there already; too_large: a limit
  Status add(std::string token, TokenId id);
  std::optional<TokenId> find(std::string_view token) const;
  /// Null for a hole.
  const std::string* token(TokenId id) const noexcept {
    return id < tokens_.size() && tokens_[id] ? tokens_[id] : nullptr;
  }
  /// One more than the highest id.
  std::size_t size() const noexcept { return tokens_.size(); }
  /// Ids of "<0x00>" to "<0xFF>", as far as they are there.
  std::array<std::optional<TokenId>, 256> byte_tokens() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // keys of ids_
};

}  // namespace weft::text
