// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::storage {

/// Bytes of a caller as files that have paths while this lasts, for whoever opens files: copies in memory (memfd), and
/// of several a folder of links to them in the directory for temporary files, of which nothing is left.
/// @thread any; files that are open or mapped outlast it
class MemoryFiles {
 public:
  /// A name without folders, and content.
  struct Named {
    std::string name;
    ByteSpan bytes;
  };
  static constexpr std::size_t kMost = 4096, kLongestName = 255;

  /// @error invalid_argument: none, too many, or a name that is none of a file; duplicate_name; storage: no memory, no
  ///        place for links; unsupported: a system that is not Linux
  static Result<MemoryFiles> make(std::span<const Named> files);
  MemoryFiles(MemoryFiles&& other) noexcept
      : descriptors_(std::exchange(other.descriptors_, {})),
        names_(std::exchange(other.names_, {})),
        path_(std::exchange(other.path_, {})) {}
  MemoryFiles& operator=(MemoryFiles&&) = delete;
  ~MemoryFiles();

  /// Of the file where it is one, else of the folder that has them by their names.
  const std::string& path() const noexcept { return path_; }

 private:
  MemoryFiles() = default;
  Status add(const Named& file);
  Status link_all();
  std::vector<int> descriptors_;
  std::vector<std::string> names_;  // of links in the folder
  std::string path_;
};

}  // namespace weft::storage
