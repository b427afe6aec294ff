// SPDX-License-Identifier: Apache-2.0
// Messages that other threads send to addresses of an agent's mesh.

#include "agent/agent.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/message.hpp"

#include <algorithm>
#include <utility>

namespace weft::agent {
namespace {

bool same_cell(Coord a, Coord b) noexcept {
  a.l = b.l = 0;
  return a == b;
}

}  // namespace

Agent::~Agent() {
  mesh::MeshAccess::deliver_by(replayable_.mesh(), {});  // nobody sends any more
  for (const Inbox::Entry& entry : inbox_.take())
    entry.message->finish(replayable_.mesh().ticks(), fail(Errc::not_found, "mesh has ended"));  // needs no memory
}

void Agent::take_in() {
  // A mesh that stopped takes none until it is resumed.
  if (inbox_.is_empty() || mesh::MeshAccess::halt(replayable_.mesh())) return;
  std::vector<Inbox::Entry> entries = inbox_.take(), kept;
  kept.reserve(entries.size());
  for (Inbox::Entry& entry : entries) {
    const auto is_there = [&](const Inbox::Entry& other) { return same_cell(other.to, entry.to); };
    if (std::any_of(kept.begin(), kept.end(), is_there)) {
      kept.push_back(std::move(entry));
      continue;
    }
    const auto sent = mesh::MeshAccess::deliver(replayable_.mesh(), entry.to, entry.message, entry.reply_within);
    if (sent) {
      // Nothing is refused here that could be told: the mesh has taken it.
      (void)write_down(entry.to, *entry.message);
    } else if (sent.error().code() == Errc::full) {
      kept.push_back(std::move(entry));
    } else {
      entry.message->finish(replayable_.mesh().ticks(), fail(sent.error()));
    }
  }
  inbox_.put_back(std::move(kept));
}

}  // namespace weft::agent
