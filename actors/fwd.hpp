// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace weft::actors {
/// Names an actor: its place in the registry, for a mesh the index of its coordinate.
using ActorId = std::uint32_t;
enum class ActorStatus : std::uint32_t;
enum class OnHang : std::uint32_t;
enum class FaultKind : std::uint32_t;
enum class Policy : std::uint32_t;
class ActivityTable;
class Registry;
class Supervisor;
class Watchdog;
template <class Message>
class Actor;
template <class Message>
class Mailbox;
}  // namespace weft::actors
