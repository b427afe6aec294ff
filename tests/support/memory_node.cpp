// SPDX-License-Identifier: Apache-2.0

#include "tests/support/memory_node.hpp"

#include <algorithm>
#include <functional>

namespace weft::storage {
namespace {

constexpr std::size_t kSector = 512;

void apply_change(MemoryNode::Entries& entries, const MemoryNode::Change& change) {
  for (const auto& [name, node] : change) {
    if (node)
      entries[name] = node;
    else
      entries.erase(name);
  }
}

/// Some sectors of `begin` to `end` of `bytes` become what `old` has there, or zeros.
void tear(std::vector<std::byte>& bytes, const std::vector<std::byte>& old, std::size_t begin, std::size_t end,
          RandomStream& random) {
  for (std::size_t at = begin; at < std::min(end, bytes.size());) {
    const std::size_t next = std::min({at / kSector * kSector + kSector, end, bytes.size()});
    if (random.next_below(2))
      for (std::size_t i = at; i < next; ++i) bytes[i] = i < old.size() ? old[i] : std::byte{0};
    at = next;
  }
}

}  // namespace

void MemoryNode::change(Change change) {
  apply_change(entries, change);
  pending.push_back(std::move(change));
}

void MemoryNode::clear() {
  data.clear();
  lost.clear();
  is_cleared = true;
}

void MemoryNode::sync() {
  for (const Change& change : pending) apply_change(durable_entries, change);
  pending.clear();
  std::vector<std::byte> next = data;
  for (const Range& range : lost)
    for (std::size_t i = range.begin; i < std::min(range.end, next.size()); ++i)
      next[i] = i < durable_data.size() ? durable_data[i] : std::byte{0};
  durable_data = std::move(next);
  is_cleared = false;
}

void MemoryNode::lose_unsynced() {
  lost_changes.insert(lost_changes.end(), pending.begin(), pending.end());
  pending.clear();
  const auto differs = std::ranges::mismatch(data, durable_data).in1;
  if (differs != data.end()) lost.push_back({static_cast<std::size_t>(differs - data.begin()), data.size()});
}

void MemoryNode::power_cut(RandomStream& random) {
  for (const auto* changes : {&lost_changes, &pending})
    for (const Change& change : *changes)
      if (random.next_below(2)) apply_change(durable_entries, change);
  entries = durable_entries;
  pending.clear();
  lost_changes.clear();
  if (data != durable_data) {
    const std::size_t safe = is_cleared ? 0 : durable_data.size();
    const auto unsynced = static_cast<std::uint32_t>(std::min<std::size_t>(data.size() - safe, UINT32_MAX - 1));
    const std::uint32_t choice = random.next_below(4);
    std::vector<std::byte> left = choice == 0 ? durable_data : data;
    if (choice == 2) left.resize(safe + random.next_below(unsynced + 1));
    if (choice == 3) tear(left, durable_data, safe, left.size(), random);
    for (const Range& range : lost)
      if (choice != 0) tear(left, durable_data, range.begin, range.end, random);
    durable_data = std::move(left);
  }
  data = durable_data;
  lost.clear();
  is_cleared = false;
}

std::shared_ptr<MemoryNode> copy_tree(const std::shared_ptr<MemoryNode>& node) {
  std::map<const MemoryNode*, std::shared_ptr<MemoryNode>> copies;
  std::function<std::shared_ptr<MemoryNode>(const std::shared_ptr<MemoryNode>&)> copy_of =
      [&](const std::shared_ptr<MemoryNode>& from) -> std::shared_ptr<MemoryNode> {
    if (!from) return nullptr;
    const auto [found, is_new] = copies.try_emplace(from.get());
    if (!is_new) return found->second;
    const auto copy = std::make_shared<MemoryNode>(*from);
    found->second = copy;
    for (auto* entries : {&copy->entries, &copy->durable_entries})
      for (auto& [name, child] : *entries) child = copy_of(child);
    for (auto* changes : {&copy->pending, &copy->lost_changes})
      for (auto& change : *changes)
        for (auto& [name, child] : change) child = copy_of(child);
    return copy;
  };
  return copy_of(node);
}

}  // namespace weft::storage
