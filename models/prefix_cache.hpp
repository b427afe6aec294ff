// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/tokenizer.hpp"

#include "core/aligned_buffer.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::models {

/// Keys and values of beginnings of texts, in blocks of 64 tokens, for texts that begin alike. A block is known by all
/// ids up to its end: by a chain of hashes, and its own ids are compared too. It belongs to one engine, so to one model
/// with its options. Blocks of one tenant are never given to another: who shares a cache can see by the time that an
/// answer takes which texts others sent.
/// @thread one at a time
class PrefixCache {
 public:
  static constexpr std::size_t kBlock = 64;

  /// `block_size`: floats of a block, above 0. Keeps as many blocks as `bytes` hold.
  PrefixCache(std::uint64_t bytes, std::size_t block_size);

  /// Blocks that `ids` begin with, one after the other; they stay until the next `add`.
  std::vector<const float*> find(std::string_view tenant, std::span<const text::TokenId> ids);
  /// Keeps the last block of `ids`, which are whole blocks: `fill` writes it, unless it is known. Where there is no
  /// room, those that were used longest ago go first. Nothing is kept where the block before it is not, where only
  /// those before it could go, or without memory.
  void add(std::string_view tenant, std::span<const text::TokenId> ids, const std::function<void(float* to)>& fill);
  void clear() noexcept;

  std::size_t blocks() const noexcept { return blocks_.size(); }
  std::uint64_t bytes() const noexcept { return blocks_.size() * block_size_ * sizeof(float); }
  /// Blocks that have made room for others since it was made.
  std::uint64_t evicted() const noexcept { return evicted_; }

 private:
  struct Block {
    Hash128 chain;  // of the tenant and all ids up to the block's end
    std::string tenant;
    std::vector<text::TokenId> ids;  // its own
    AlignedBuffer<float> values;
  };
  using Blocks = std::list<Block>;
  struct HashOf {
    std::size_t operator()(const Hash128& hash) const noexcept { return static_cast<std::size_t>(hash.low); }
  };

  Blocks::iterator look_up(const Hash128& chain, std::string_view tenant, std::span<const text::TokenId> own);

  std::size_t block_size_, most_;
  Blocks blocks_{};  // the one that was used last comes first
  std::unordered_map<Hash128, Blocks::iterator, HashOf> places_{};
  std::uint64_t evicted_ = 0;
};

}  // namespace weft::models
