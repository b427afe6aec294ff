// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace weft::bench {

/// A new directory on the real disk, under TMPDIR; gone with it.
struct Directory {
  Directory() : path((std::filesystem::temp_directory_path() / "weft-bench-XXXXXX").string()) {
    if (!::mkdtemp(path.data())) std::abort();
  }
  ~Directory() { std::filesystem::remove_all(path); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string path;
};

}  // namespace weft::bench
