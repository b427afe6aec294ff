// SPDX-License-Identifier: Apache-2.0

#include "agent/inbox.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/message.hpp"

#include <iterator>
#include <string>
#include <utility>

namespace weft::agent {

Result<std::uint64_t> Inbox::receive(const mesh::Mesh& mesh, Entry entry) {
  const mesh::MessagePointer message = entry.message;
  WEFT_CHECK(mesh::MeshAccess::check_delivery(mesh, entry.to, message.get()));
  if (!message->claim()) return mesh::sent_before("message to " + to_string(entry.to) + ": ");
  auto number = put(std::move(entry));
  if (!number) message->release();
  return number;
}

Result<std::uint64_t> Inbox::put(Entry entry) {
  const std::lock_guard hold(mutex_);
  if (entries_.size() + taken_ >= kCapacity)
    return fail(Errc::full, "message to " + to_string(entry.to) + ": " + std::to_string(kCapacity) +
                                " wait for the agent already; let it tick, then send again");
  entries_.push_back(std::move(entry));
  count_.store(entries_.size(), std::memory_order_relaxed);
  return next_++;
}

std::vector<Inbox::Entry> Inbox::take() {
  const std::lock_guard hold(mutex_);
  taken_ = entries_.size();
  count_.store(0, std::memory_order_relaxed);
  return std::exchange(entries_, {});
}

void Inbox::put_back(std::vector<Entry> entries) {
  const std::lock_guard hold(mutex_);
  taken_ = 0;
  entries.insert(entries.end(), std::make_move_iterator(entries_.begin()), std::make_move_iterator(entries_.end()));
  entries_ = std::move(entries);
  count_.store(entries_.size(), std::memory_order_relaxed);
}

}  // namespace weft::agent
