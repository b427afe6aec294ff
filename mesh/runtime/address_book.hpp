// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"

#include "core/coord.hpp"
#include "core/result.hpp"

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace weft::mesh {

/// The address of a cell, good in the whole process: its mesh (Mesh::number), and its place there. It outlives the
/// mesh; what is sent to it then is refused.
struct Address {
  std::uint64_t mesh = 0;
  Coord at;
  auto operator<=>(const Address&) const = default;
};
/// "3[0,0,1,0]".
std::string to_string(const Address& address);

/// Sends a message to a cell of any mesh of the process, as Mesh::tell does. Where the mesh is an agent's, the agent
/// takes it at its next call, writes it down and sends it on (Agent::tell); the number returned is then that of the
/// agent's messages.
/// @error not_found: the mesh has ended; as Mesh::tell; full: too many wait for the agent
/// @thread any; senders wait for nobody, and nobody for them but who ends their mesh
Result<std::uint64_t> tell(const Address& to, MessagePointer message);
/// As Mesh::ask.
Result<MailPointer> ask(const Address& to, MailPointer mail, std::uint64_t ticks = 0);

/// A mesh's entry among those of the process, as long as it exists. A sender looks it up and counts itself in under one
/// short lock, and delivers without any: so meshes are built and end while others send, and one that ends waits for its
/// own senders alone.
/// @thread any
class AddressEntry {
 public:
  /// With `reply_within` the message is a question, as of Mesh::ask.
  using Deliver =
      std::function<Result<std::uint64_t>(Coord to, MessagePointer message, std::optional<std::uint64_t> reply_within)>;

  AddressEntry(std::uint64_t mesh, Deliver deliver);
  /// From its beginning on nobody finds the mesh; at its end no delivery is under way.
  ~AddressEntry();
  AddressEntry(const AddressEntry&) = delete;
  AddressEntry& operator=(const AddressEntry&) = delete;

 private:
  std::uint64_t mesh_;
};

}  // namespace weft::mesh
