// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace weft::agent {

/// A second word on how far a journal was acknowledged, in a file of its own beside it: a journal that somebody cut
/// between two records would read as one that ends there. Written after each sync and never waited for; where it cannot
/// be written there is only one word, as without it.
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
