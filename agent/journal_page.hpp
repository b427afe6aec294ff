// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/journal_record.hpp"

#include "storage/file_system.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::agent {

/// One record of a journal, without the values in it.
struct JournalEntry {
  std::uint64_t number = 0;
  RecordKind kind = RecordKind::none;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> tick;   ///< of markers and checkpoints
  std::optional<std::uint64_t> count;  ///< ticks that were run, samples, steps
  std::string topic;                   ///< of annotations
};

/// Some records of a journal, oldest first.
struct JournalPage {
  std::vector<JournalEntry> entries;
  std::optional<std::uint64_t> next;  ///< the record after them; nothing: that was the last one
  std::uint64_t torn_bytes = 0;
  std::vector<std::string> damages;
};

/// Records of the journal in a data directory from number `from` on, at most `most`; those before the oldest checkpoint
/// are gone. Reads only, so that it may run beside the agent.
/// @error not_found: no agent is there; corrupt; storage
Result<JournalPage> read_journal_page(storage::FileSystem& files, const std::string& directory, std::uint64_t from,
                                      std::size_t most);

/// Makes a data directory that has nothing but a copy of the checkpoint of `tick` (the last one, where several are of
/// it): an agent that is opened there goes on from it. The other directory may be in use.
/// @error not_found: no such checkpoint; invalid_argument: `to` has other files; corrupt; storage
Status copy_checkpoint(storage::FileSystem& files, const std::string& from, std::uint64_t tick, const std::string& to);

}  // namespace weft::agent
