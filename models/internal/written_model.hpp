// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/durable.hpp"
#include "storage/fwd.hpp"

#include "core/result.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models::internal {

/// Makes a folder for what other programs read, where it is not there: its mode is the umask's, while
/// FileSystem::make_directory makes private ones. @error storage
Status make_shared_folder(const std::string& path);

/// Files of a model at a place where an earlier one may be.
struct WrittenModel {
  storage::FileSet set;           // without `stale`
  std::vector<std::string> read;  // files that must stay
  /// True of the names that a model at this place has: what is there of them and is not made now is removed.
  std::function<bool(std::string_view)> is_model_file;
  /// The file that says that a folder is a model's: config.json, adapter_config.json. Empty: each file says it.
  std::string description;
  std::vector<std::string> known{};  // files that an earlier model's own say are theirs
  bool is_forced = false;            // whatever is there may go
};
/// Writes them by storage::replace_files_durably. Notes say which older files were replaced and removed.
/// @error told before anything is written: invalid_argument: a file that is read would be replaced or removed; storage:
///        one that is no model's would be, and `is_forced` is not set. storage
Status write_model(storage::FileSystem& files, WrittenModel model, std::vector<std::string>& notes);

}  // namespace weft::models::internal
