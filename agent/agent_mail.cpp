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
  for (const Inbox::Letter& letter : inbox_.take())
    letter.message->finish(replayable_.mesh().ticks(), fail(Errc::not_found, "mesh has ended"));  // needs no memory
}

void Agent::take_in() {
  // A mesh that stopped takes none until it is resumed.
  if (inbox_.is_empty() || mesh::MeshAccess::halt(replayable_.mesh())) return;
  std::vector<Inbox::Letter> letters = inbox_.take(), kept;
  kept.reserve(letters.size());
  for (Inbox::Letter& letter : letters) {
    const auto is_there = [&](const Inbox::Letter& other) { return same_cell(other.to, letter.to); };
    if (std::any_of(kept.begin(), kept.end(), is_there)) {
      kept.push_back(std::move(letter));
      continue;
    }
    const auto sent = mesh::MeshAccess::deliver(replayable_.mesh(), letter.to, letter.message, letter.reply_within);
    if (sent) {
      // Nothing is refused here that could be told: the mesh has taken it.
      (void)write_down(letter.to, *letter.message);
    } else if (sent.error().code() == Errc::full) {
      kept.push_back(std::move(letter));
    } else {
      letter.message->finish(replayable_.mesh().ticks(), fail(sent.error()));
    }
  }
  inbox_.put_back(std::move(kept));
}

}  // namespace weft::agent
