// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace weft::agent {

/// Durable watermark: the number of the last acknowledged record, in a file beside the journal. It shows a journal that
/// was cut between two records, which alone would read as complete. Written after each sync and never waited for; a
/// watermark that cannot be written is left out, and the journal alone decides.
/// @thread one at a time
class DurableWatermark {
 public:
  DurableWatermark(storage::FileSystem& files, std::string directory);

  void note(std::uint64_t record);
  /// The last record that was noted, as far as the file tells.
  static std::optional<std::uint64_t> last(storage::FileSystem& files, const std::string& directory);

 private:
  storage::FileSystem& files_;
  std::string path_;
  std::unique_ptr<storage::File> file_;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::agent
