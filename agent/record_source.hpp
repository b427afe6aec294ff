// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/journal_record.hpp"

#include "storage/journal.hpp"

#include "core/aligned_buffer.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace weft::agent {

/// The records of a journal, one after another, a few megabytes of them in memory at a time. Reads only, so it may run
/// beside the agent that writes them; what is appended later is not waited for.
/// @thread one at a time
class RecordSource {
 public:
  struct Item {
    std::uint64_t number = 0;
    std::uint32_t kind = 0;
    std::vector<std::byte> payload;
  };
  RecordSource(storage::FileSystem& files, std::string directory, storage::JournalPlace from)
      : files_(&files), directory_(std::move(directory)), place_(from) {}

  /// Looks where the journal ends now: `next` gives nothing behind that, so that it comes to an end beside an agent
  /// that writes as fast as its records are replayed. @error storage
  Status end_here();
  /// The next record; null at the end. Valid until the next call. @error storage
  Result<const Item*> next();
  /// End of the journal; known once `next` returned null.
  const storage::JournalFindings& findings() const noexcept { return findings_; }

 private:
  Status fill();
  storage::FileSystem* files_;
  std::string directory_;
  storage::JournalPlace place_;  // after the last of items_
  std::deque<Item> items_;
  Item now_;
  bool ended_ = false;
  std::uint64_t last_ = UINT64_MAX;  // record
  storage::JournalFindings findings_;
};

}  // namespace weft::agent
