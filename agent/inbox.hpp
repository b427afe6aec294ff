// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"

#include "core/coord.hpp"
#include "core/result.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace weft::agent {

/// Messages that were sent to cells of an agent by their addresses (mesh::tell), on any thread. They wait here until
/// the agent's own thread writes them down and sends them on, so that a replay has them.
class Inbox {
 public:
  static constexpr std::size_t kCapacity = 1024;
  struct Entry {
    Coord to;
    mesh::MessagePointer message;
    std::optional<std::uint64_t> reply_within;
  };

  /// Takes a message that a cell of the mesh would take, and returns its number: they are taken out in this order.
  /// @error full: too many wait already; as mesh::Mesh::tell
  /// @thread any
  Result<std::uint64_t> receive(const mesh::Mesh& mesh, Entry entry);
  /// @thread any; a hint while senders are at work
  bool is_empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }

  /// All that wait, in order. They take up room until `put_back`, which returns those that could not be sent on; they
  /// come before later ones again.
  std::vector<Entry> take();
  void put_back(std::vector<Entry> entries);

 private:
  Result<std::uint64_t> put(Entry entry);

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::size_t taken_ = 0;
  std::uint64_t next_ = 0;
  std::atomic<std::size_t> count_{0};
};

}  // namespace weft::agent
