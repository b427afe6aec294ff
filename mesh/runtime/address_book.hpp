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

/// Sends a message to a cell of any mesh of the process, as Mesh::tell does.
/// @error not_found: the mesh has ended; as Mesh::tell
/// @thread any
Result<std::uint64_t> tell(const Address& to, MessagePointer message);
/// As Mesh::ask.
Result<MailPointer> ask(const Address& to, MailPointer mail, std::uint64_t ticks = 0);

/// A mesh's entry among those of the process, as long as it exists.
/// @thread any
class AddressEntry {
 public:
  /// With `reply_within` the message is a question, as of Mesh::ask.
  using Deliver =
      std::function<Result<std::uint64_t>(Coord to, MessagePointer message, std::optional<std::uint64_t> reply_within)>;

  AddressEntry(std::uint64_t mesh, Deliver deliver);
  /// Waits for deliveries under way.
  ~AddressEntry();
  AddressEntry(const AddressEntry&) = delete;
  AddressEntry& operator=(const AddressEntry&) = delete;

 private:
  std::uint64_t mesh_;
};

}  // namespace weft::mesh
