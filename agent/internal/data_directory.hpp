// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/entity/entity.hpp"
#include "storage/checkpoint.hpp"
#include "storage/journal.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::agent::internal {

using Differ = std::function<Result<std::optional<std::string>>(std::string_view, std::string_view)>;

/// Content of an agent's checkpoint (docs/formats/agent.md).
struct Found {
  formats::EntityFile file;
  storage::JournalPlace place;  // of the journal, right after it was taken
  std::uint64_t tick = 0;
  Hash128 hash;
  std::string network;    // it was created with
  std::string identity;   // given by the program
  std::string extension;  // JSON

  /// @error corrupt: what was restored has another state hash than was saved
  Status check_hash(Hash128 restored, std::string_view path) const;
  /// @error invalid_argument: an agent of another network or identity; names the first difference
  Status check_same(std::string_view network, std::string_view identity, std::string_view directory,
                    const Differ& differ) const;
};

/// The journal's directory, apart from the checkpoints': a failed sync of a directory may lose all its new entries, so
/// a failed checkpoint cannot lose a segment.
std::string journal_in(const std::string& directory);
/// Makes it, and waits until it is there for good.
Status make_journal_in(storage::FileSystem& files, const std::string& directory);

/// The newest checkpoint that verifies, and why newer ones do not; nothing when there is no agent. A first checkpoint
/// that does not verify, with nothing else there, is a creation that was interrupted: no record of it was acknowledged.
/// @error corrupt: there are others and none verifies
Result<std::optional<storage::Checkpoint>> find_latest(storage::FileSystem& files, storage::CheckpointStore& store,
                                                       std::vector<std::string>& passed_over);

/// A journal that was cut between two records, in words.
std::string end_too_early(const std::string& journal, std::uint64_t end, std::uint64_t acknowledged);

/// @error corrupt, parse_failed: not an agent's checkpoint
Result<Found> read_checkpoint(const storage::Checkpoint& checkpoint);

/// meta.extras of the file, and the manifest's "info".
Result<std::string> write_extras(std::string_view network, std::string_view identity, std::string_view extension);
std::string write_info(const storage::JournalPlace& place, std::uint64_t tick, Hash128 hash);

}  // namespace weft::agent::internal
