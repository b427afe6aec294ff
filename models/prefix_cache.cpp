// SPDX-License-Identifier: Apache-2.0

#include "models/prefix_cache.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace weft::models {
namespace {

/// The hash after each whole block of `ids`: of the one before and the block's ids; the first of the tenant's.
std::vector<Hash128> chain_of(std::string_view tenant, std::span<const text::TokenId> ids) {
  std::vector<Hash128> chain;
  StateHasher hasher;
  Hash128 last = hash_bytes(tenant.data(), tenant.size());
  for (std::size_t at = 0; at + PrefixCache::kBlock <= ids.size(); at += PrefixCache::kBlock) {
    hasher.reset();
    hasher.add(last);
    hasher.add(ids.subspan(at, PrefixCache::kBlock));
    chain.push_back(last = hasher.digest());
  }
  return chain;
}

}  // namespace

PrefixCache::PrefixCache(std::uint64_t bytes, std::size_t block_size)
    : block_size_(block_size), most_(static_cast<std::size_t>(bytes / (block_size * sizeof(float)))) {}

PrefixCache::Blocks::iterator PrefixCache::look_up(const Hash128& chain, std::string_view tenant,
                                                   std::span<const text::TokenId> own) {
  const auto found = places_.find(chain);
  if (found == places_.end()) return blocks_.end();
  const Block& block = *found->second;
  const bool is_same = block.tenant == tenant && std::equal(own.begin(), own.end(), block.ids.begin(), block.ids.end());
  return is_same ? found->second : blocks_.end();
}

std::vector<const float*> PrefixCache::find(std::string_view tenant, std::span<const text::TokenId> ids) {
  std::vector<Blocks::iterator> found;
  for (const Hash128& each : chain_of(tenant, ids)) {
    const auto block = look_up(each, tenant, ids.subspan(found.size() * kBlock, kBlock));
    if (block == blocks_.end()) break;
    found.push_back(block);
  }
  for (auto each = found.rbegin(); each != found.rend(); ++each) blocks_.splice(blocks_.begin(), blocks_, *each);
  std::vector<const float*> values;
  for (const auto& each : found) values.push_back(each->values.data());
  return values;
}

void PrefixCache::add(std::string_view tenant, std::span<const text::TokenId> ids,
                      const std::function<void(float* to)>& fill) {
  const std::vector<Hash128> chain = chain_of(tenant, ids);
  if (chain.empty() || most_ == 0) return;
  // Blocks are of no use without those before them: these are the last to go.
  const auto touch = [&](std::size_t count) {
    for (std::size_t i = count; i-- > 0;)
      if (const auto place = places_.find(chain[i]); place != places_.end())
        blocks_.splice(blocks_.begin(), blocks_, place->second);
  };
  if (places_.contains(chain.back())) return touch(chain.size());
  const std::size_t before = chain.size() - 1;
  touch(before);
  const auto previous = before > 0 ? places_.find(chain[before - 1]) : places_.end();
  if (before > 0 && previous == places_.end()) return;
  const bool is_full = blocks_.size() >= most_;
  if (is_full && previous != places_.end() && previous->second == std::prev(blocks_.end())) return;
  try {
    const auto own = ids.subspan(before * kBlock, kBlock);
    Block block{chain.back(), std::string(tenant), {own.begin(), own.end()}, {}};
    if (is_full) {
      block.values = std::move(blocks_.back().values);
      places_.erase(blocks_.back().chain);
      blocks_.pop_back();
      ++evicted_;
    } else {
      block.values = AlignedBuffer<float>(block_size_);
    }
    fill(block.values.data());
    blocks_.push_front(std::move(block));
    places_.emplace(chain.back(), blocks_.begin());
    touch(before);
  } catch (const std::bad_alloc&) {
    if (!blocks_.empty() && blocks_.front().chain == chain.back()) blocks_.pop_front();
  }
}

void PrefixCache::clear() noexcept {
  places_.clear();
  blocks_.clear();
}

}  // namespace weft::models
