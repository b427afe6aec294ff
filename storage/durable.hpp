// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/fwd.hpp"

#include "core/byte_source.hpp"
#include "core/result.hpp"

#include <string>
#include <vector>

namespace weft::storage {

/// Replaces a file so that a crash at any moment leaves either the old content or the new one, never a mix:
/// a new file beside it, fsync, rename over it, fsync of the directory.
/// @error  storage, not_found (the directory): the old file is as it was, save when the last step fails; then the new
///         content is in place and may or may not outlive a power cut
Status write_file_durably(FileSystem& files, const std::string& path, const ByteSource& content);

/// Files that are read together, to replace those at a place.
struct FileSet {
  struct NewFile {
    std::string path;
    ByteSource content;
  };
  std::vector<NewFile> made;       ///< at least one; without the last one no reader takes the others
  std::vector<std::string> stale;  ///< files that are there, and go
  bool stale_last = false;         ///< they go after the last of `made` has come, else before it comes
};

/// Replaces files so that a crash at any moment leaves the old ones, the new ones, or files that lack the last one. All
/// are written beside their places under other names. Then, where there are several, the old last one is put aside, the
/// others are put aside and their followers take their places, and the last one comes. What was put aside is removed
/// when all is well. Needs room for both sets. After a crash old files may stand beside their places, as *.tmp.
/// @error  storage: also a directory that has the name of one, told before anything is written. The old files are as
///         they were, unless putting them back failed too, which the text says, or what failed was the removal of old
///         files after the new ones had come
Status replace_files_durably(FileSystem& files, const FileSet& set);

/// Writes a new file and waits until it is on the device; its directory is not synced. Memory: about 1 MiB, whatever
/// the size. A file that could not be written whole may be left behind.
/// @error  storage: also when `path` exists; what producing the content failed with
Status write_new_file(FileSystem& files, const std::string& path, const ByteSource& content);

/// Proves that write_file_durably may make its file beside `path`: one is made and removed. @error as there
Status prove_writable(FileSystem& files, const std::string& path);

}  // namespace weft::storage
