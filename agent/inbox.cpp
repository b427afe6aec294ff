// SPDX-License-Identifier: Apache-2.0

#include "agent/inbox.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/message.hpp"

#include <iterator>
#include <string>
#include <utility>

namespace weft::agent {

Result<std::uint64_t> Inbox::receive(const mesh::Mesh& mesh, Letter letter) {
  const mesh::MessagePointer message = letter.message;
  WEFT_CHECK(mesh::MeshAccess::check_letter(mesh, letter.to, message.get()));
  if (!message->claim()) return mesh::sent_before("message to " + to_string(letter.to) + ": ");
  auto number = put(std::move(letter));
  if (!number) message->release();
  return number;
}

Result<std::uint64_t> Inbox::put(Letter letter) {
  const std::lock_guard hold(mutex_);
  if (letters_.size() + taken_ >= kRoom)
    return fail(Errc::full, "message to " + to_string(letter.to) + ": " + std::to_string(kRoom) +
                                " wait for the agent already; let it tick, then send again");
  letters_.push_back(std::move(letter));
  count_.store(letters_.size(), std::memory_order_relaxed);
  return next_++;
}

std::vector<Inbox::Letter> Inbox::take() {
  const std::lock_guard hold(mutex_);
  taken_ = letters_.size();
  count_.store(0, std::memory_order_relaxed);
  return std::exchange(letters_, {});
}

void Inbox::put_back(std::vector<Letter> letters) {
  const std::lock_guard hold(mutex_);
  taken_ = 0;
  letters.insert(letters.end(), std::make_move_iterator(letters_.begin()), std::make_move_iterator(letters_.end()));
  letters_ = std::move(letters);
  count_.store(letters_.size(), std::memory_order_relaxed);
}

}  // namespace weft::agent
