// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/philox.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weft::storage {

/// A file or a directory of a MemoryFileSystem: as programs see it, and as the device has it.
struct MemoryNode {
  using Entries = std::map<std::string, std::shared_ptr<MemoryNode>>;
  /// Entries set (null: removed) in one step: all or none survives.
  using Change = std::vector<std::pair<std::string, std::shared_ptr<MemoryNode>>>;
  struct Range {
    std::size_t begin, end;
  };

  explicit MemoryNode(bool directory) : is_directory(directory) {}

  void change(Change change);
  /// Cuts a file to nothing.
  void clear();
  void sync();
  void lose_unsynced();
  /// Both as the device has them after a power cut.
  void power_cut(RandomStream& random);

  bool is_directory;
  Entries entries, durable_entries;
  std::vector<Change> pending;       // made, and neither synced nor lost
  std::vector<Change> lost_changes;  // no sync covers them any more
  std::vector<std::byte> data, durable_data;
  bool is_cleared = false;  // since the last sync: what the device has may go too
  std::vector<Range> lost;  // of data: no sync covers it any more
};

/// A copy of all that can be reached, shared nodes staying shared.
std::shared_ptr<MemoryNode> copy_tree(const std::shared_ptr<MemoryNode>& node);

}  // namespace weft::storage
