// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "actors/fwd.hpp"
#include "actors/mailbox.hpp"
#include "actors/registry.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft::actors {

/// Something with an address and a mailbox that answers its messages between ticks.
/// @thread mailbox().push: any; deliver: the thread that runs the actor's tick
template <class Message>
class Actor {
 public:
  Actor(ActorId id, std::size_t mailbox_capacity) : id_(id), mailbox_(mailbox_capacity) {}
  virtual ~Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  ActorId id() const noexcept { return id_; }
  Mailbox<Message>& mailbox() noexcept { return mailbox_; }

  /// Hands over all waiting messages at the boundary before `tick`, in stamp order; counts them in the registry. An
  /// empty mailbox costs one load.
  std::size_t deliver(std::uint64_t tick, Registry& registry) {
    if (mailbox_.empty()) return 0;
    const std::size_t count =
        mailbox_.drain([&](std::uint64_t stamp, Message&& message) { receive(tick, stamp, std::move(message)); });
    registry.add_messages(id_, count);
    return count;
  }

 protected:
  /// Answers one message. Runs between ticks, on the thread that delivers.
  virtual void receive(std::uint64_t tick, std::uint64_t stamp, Message&& message) noexcept = 0;

 private:
  ActorId id_;
  Mailbox<Message> mailbox_;
};

}  // namespace weft::actors
